"""What hands do to managed objects: `drift` shows each of it, and an apply puts git's back."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from tests.reconciler.real.company import FORBID, PERMIT, Company

PERMITTED = "permit (principal, action, resource);"  # as the server writes it
FORBIDDEN = "forbid (principal, action, resource);"
ANYTHING = "permit(principal, action, resource) when { true };"


@dataclass(frozen=True)
class Edit:
    """What a hand does, and what of it `drift` prints."""

    do: Callable[[Company], None]
    says: tuple[str, ...]


# --- what is in force


def lets_an_older_text_decide(company: Company) -> None:
    """Git forbids by now; a hand lets the version decide that permits."""
    company.write("policies.yaml", company.folder_text("policies.yaml").replace(PERMIT, FORBID))
    older = company.deciding()
    company.apply()
    company.activate(older)


def lets_an_older_list_decide(company: Company) -> None:
    """Git names another policy by now, and the one from before is archived."""
    before = company.folder_text("policies.yaml")
    older = company.deciding()
    company.write("policies.yaml", before.replace("reading", "writing").replace(PERMIT, FORBID))
    company.apply()
    company.activate(older)


def lets_a_text_by_hand_decide(company: Company) -> None:
    """A hand writes a text, composes a version of the set with it, and lets that decide."""
    policy = company.found("policies", name="reading")["id"]
    company.activate(company.new_version((policy, company.new_text("reading", ANYTHING))))


def lets_a_list_by_hand_decide(company: Company) -> None:
    """A hand writes a policy of its own and lets a version with that alone decide."""
    company.send("POST", company.collection("policies"), name="by-hand")
    policy = company.found("policies", name="by-hand")["id"]
    company.activate(company.new_version((policy, company.new_text("by-hand", ANYTHING))))


def composes_without_activating(company: Company) -> None:
    """The newest version of the set is none of git's, though it does not decide."""
    company.send("POST", company.collection("policies"), name="by-hand")
    policy = company.found("policies", name="by-hand")["id"]
    company.new_version((policy, company.new_text("by-hand", ANYTHING)))


def writes_a_text_that_does_not_decide(company: Company) -> None:
    """The newest text of a policy is none of git's, though it does not decide."""
    company.new_text("reading", ANYTHING)


def lets_another_set_decide(company: Company) -> None:
    """A hand makes a set of its own and lets it decide in place of git's."""
    company.send("POST", company.collection("policy-sets"), name="by-hand")
    path = f"{company.path('policy-sets', name='by-hand')}/versions"
    policy = company.found("policies", name="reading")
    entries = [{"policy_id": policy["id"], "policy_version_id": policy["latest_version_id"]}]
    made = company.send("POST", path, manifest={"entries": entries}, schema_version="2026-11-21")
    company.activate(f"{path}/{made['id']}")


IN_FORCE = {
    "an older text decides": Edit(
        lets_an_older_text_decide,
        ("Policy {zone}/reading", PERMITTED, FORBID, "[version 1 of 2 is in force; drift"),
    ),
    "an older list decides": Edit(
        lets_an_older_list_decide,
        (
            "PolicySet {zone}/main",
            '- 1: "Policy/reading"',
            '+ 1: "Policy/writing"',
            "[version 1 of 2 is in force; drift",
            "in force: Policy reading, version 1",
            PERMITTED,
        ),
    ),
    "a text by hand decides": Edit(
        lets_a_text_by_hand_decide, ("Policy {zone}/reading", "when", PERMIT, "drift")
    ),
    "a list by hand decides": Edit(
        lets_a_list_by_hand_decide,
        ("PolicySet {zone}/main", '- 1: "Policy/by-hand"', '+ 1: "Policy/reading"'),
    ),
    "a version is composed": Edit(
        composes_without_activating,
        ("PolicySet {zone}/main", '- 1: "Policy/by-hand"', '+ 1: "Policy/reading"'),
    ),
    "a text is written": Edit(writes_a_text_that_does_not_decide, ("Policy {zone}/reading", "when")),
    "another set decides": Edit(lets_another_set_decide, ("PolicySet {zone}/main", "active: false -> true")),
}
EDITS = IN_FORCE


@pytest.mark.parametrize("name", EDITS)
def test_drift_shows_it_and_an_apply_puts_git_s_back(company: Company, name: str) -> None:
    """Before it there is no drift; then it is told, with exit 3; an apply ends it, for good."""
    company.drift(expect=0)
    EDITS[name].do(company)

    said = company.drift(expect=3)
    for words in EDITS[name].says:
        assert words.replace("{zone}", company.zone) in said, said
    company.plan(expect=3)
    company.apply()
    assert company.drift(expect=0) == "no drift\n"
    company.plan(expect=0)


@pytest.mark.threat("48g")
def test_an_older_version_in_force_is_told_with_what_it_says(company: Company) -> None:
    """The zone permits everything again though git forbids: the version, its text and git's are shown."""
    lets_an_older_text_decide(company)
    (found,) = company.drift_json()["drift"]
    (change,) = found["changes"]
    assert (found["kind"], change["field"], change["state"]) == ("Policy", "cedar", "drift")
    assert (change["before"].strip(), change["after"]) == (PERMITTED, FORBID)
    assert (change["in_force"]["version"], change["in_force"]["latest_version"]) == (1, 2)
    assert company.decides() == PERMITTED
    company.apply()
    assert company.decides() == FORBIDDEN
