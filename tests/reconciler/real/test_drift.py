"""Drift: `zonectl drift` shows each change made by hand to managed objects, and an apply reverts it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.reconciler.real.company import FORBID, PERMIT, Company

pytestmark = pytest.mark.long

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


def puts_a_rule_into_a_comment(company: Company) -> None:
    """The text that decides is git's but for a line end, with which a `forbid` has become a comment."""
    text = f"{PERMIT}\\n// note\\n{FORBID}\\n"
    company.write("policies.yaml", company.folder_text("policies.yaml").replace(f"'{PERMIT}'", f'"{text}"'))
    company.apply()
    policy = company.found("policies", name="reading")["id"]
    commented = f"{PERMIT}\n// note{FORBID.replace(' ', '')}\n"
    company.activate(company.new_version((policy, company.new_text("reading", commented))))


def lets_another_set_decide(company: Company, policy_name: str = "reading") -> None:
    """A hand makes a set of its own, with that policy, and lets it decide in place of git's."""
    if policy_name != "reading":
        company.send("POST", company.collection("policies"), name=policy_name)
        company.new_text(policy_name, ANYTHING)
    company.send("POST", company.collection("policy-sets"), name="by-hand")
    path = f"{company.path('policy-sets', name='by-hand')}/versions"
    policy = company.found("policies", name=policy_name)
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
    "a rule is put into a comment": Edit(
        puts_a_rule_into_a_comment,
        ("Policy {zone}/reading", "- // noteforbid(principal,action,resource);", f"+ {FORBID}", "drift"),
    ),
    "a list by hand decides": Edit(
        lets_a_list_by_hand_decide,
        ("PolicySet {zone}/main", '- 1: "Policy/by-hand"', '+ 1: "Policy/reading"'),
    ),
    "a version is composed": Edit(
        composes_without_activating,
        (
            "PolicySet {zone}/main",
            '- 1: "Policy/by-hand"',
            '+ 1: "Policy/reading"',
            "[not in force: version 1 of 2 is; drift",
        ),
    ),
    "a text is written": Edit(
        writes_a_text_that_does_not_decide,
        ("Policy {zone}/reading", "when", "[not in force: version 1 of 2 is; drift"),
    ),
    "another set decides": Edit(lets_another_set_decide, ("PolicySet {zone}/main", "active: false -> true")),
}

# --- what is deleted


def deletes(collection: str, **wanted: str) -> Callable[[Company], None]:
    """A hand that deletes, or archives, the object with these values."""
    return lambda company: company.send("DELETE", company.path(collection, **wanted))


def deletes_the_zone(company: Company) -> None:
    """All that is in it goes along."""
    company.send("DELETE", f"/zones/{company.zone_id}")


def takes_the_role_away(company: Company) -> None:
    """A grant ends that git describes."""
    role = company.found("roles", identifier="auditor", owner_type="customer")["id"]
    company.send("DELETE", f"{company.path('groups', identifier='staff')}/roles/{role}")


def archives_the_policy(company: Company) -> None:
    """What git has made decides no more, and its policy and its set are archived."""
    company.activate(company.platform_version())
    company.send("DELETE", company.path("policy-sets", name="main"))
    company.send("DELETE", company.path("policies", name="reading"))


def deletes_and_makes_again(company: Company) -> None:
    """Another object stands under the name of one that git has made."""
    company.send("DELETE", company.path("groups", identifier="contractors"))
    company.send("POST", company.collection("groups"), name="Contractors", identifier="contractors")


def deletes_the_provider_of_the_zone(company: Company) -> None:
    """Nobody signs in at it any more."""
    zone = company.folder_text("zone.yaml").replace(
        "description: ", "user_identity_provider: corp, description: "
    )
    company.write("zone.yaml", zone)
    company.apply()
    company.send("DELETE", company.path("providers", identifier="https://corp.example"))


def gone(*titles: str) -> tuple[str, ...]:
    """What drift says of objects that are gone."""
    many = "" if len(titles) == 1 else "s"
    return (*titles, "deleted by api_key ", f"{len(titles)} object{many} deleted by others")


DELETED = {
    "a group is deleted": Edit(deletes("groups", identifier="contractors"), gone("Group {zone}/contractors")),
    "a group with a role is deleted": Edit(
        deletes("groups", identifier="staff"),
        gone("Group {zone}/staff", "RoleAssignment {zone}/staff-audits"),
    ),
    "a resource is deleted": Edit(
        deletes("resources", identifier="https://payroll.example"),
        ("Resource {zone}/payroll", "dependencies", "1 member changed by others, 1 object deleted by others"),
    ),
    "an application is deleted": Edit(
        deletes("applications", identifier="agent"),
        gone("Application {zone}/agent", "ApplicationCredential {zone}/agent-public"),
    ),
    "a credential is deleted": Edit(
        lambda company: company.send("DELETE", company.path("application-credentials", type="public")),
        gone("ApplicationCredential {zone}/agent-public"),
    ),
    "a provider is deleted": Edit(
        deletes("providers", identifier="https://corp.example"), gone("Provider {zone}/corp")
    ),
    "the provider of a zone is deleted": Edit(
        deletes_the_provider_of_the_zone,
        (
            "Zone {zone}",
            'user_identity_provider_id: (unset) -> "Provider/corp"',
            "Provider {zone}/corp",
        ),
    ),
    "a role is deleted": Edit(
        deletes("roles", identifier="auditor", owner_type="customer"),
        gone("Role {zone}/auditor", "RoleAssignment {zone}/staff-audits"),
    ),
    "a role is taken away": Edit(takes_the_role_away, gone("RoleAssignment {zone}/staff-audits")),
    "a policy is archived": Edit(archives_the_policy, gone("Policy {zone}/reading", "PolicySet {zone}/main")),
    "a zone is deleted": Edit(
        deletes_the_zone, ("Zone {zone}", "Provider {zone}/corp", "11 objects deleted by others")
    ),
    "a group is made again": Edit(deletes_and_makes_again, gone("Group {zone}/contractors")),
}

# --- what is written


def overwrites_the_secret(company: Company) -> None:
    """Another secret stands in place of git's, under the same version."""
    company.send(
        "PATCH", company.path("providers", identifier="https://corp.example"), client_secret="of a hand"
    )


def overwrites_it_with_the_same(company: Company) -> None:
    """Nobody can see that it is the same."""
    company.send(
        "PATCH", company.path("providers", identifier="https://corp.example"), client_secret="hush!hush"
    )


def clears_the_secret(company: Company) -> None:
    """No secret is left."""
    company.send_json(
        "PATCH", company.path("providers", identifier="https://corp.example"), {"client_secret": None}
    )


def drops_the_dependency(company: Company) -> None:
    """The application may not ask for the resource any more."""
    resource = company.found("resources", identifier="https://payroll.example")["id"]
    company.send("DELETE", f"{company.path('applications', identifier='agent')}/dependencies/{resource}")


def writes(collection: str, wanted: dict[str, str], **patch: object) -> Callable[[Company], None]:
    """A hand that changes members."""
    return lambda company: company.send("PATCH", company.path(collection, **wanted), **patch)


def adds_a_member(company: Company) -> None:
    """Eve is staff now, though git does not name her."""
    user = company.user("eve@elsewhere.example")
    company.send("POST", f"{company.path('groups', identifier='staff')}/members", user_id=user)


def empties_the_group(company: Company) -> None:
    """What a policy forbids to a group, it forbids nobody any more."""
    company.user("ann@acme.example")
    company.write("rest.yaml", company.folder_text("rest.yaml").replace(", bob@acme.example]", "]"))
    company.apply()
    group = company.path("groups", identifier="staff")
    (member,) = company.send("GET", f"{group}/members")["items"]
    company.send("DELETE", f"{group}/members/{member['user_id']}")


WRITTEN = {
    "a member is added": Edit(
        adds_a_member,
        (
            "Group {zone}/staff",
            "last written by api_key ",
            '- "eve@elsewhere.example"',
        ),
    ),
    "a group is emptied": Edit(empties_the_group, ("Group {zone}/staff", '+ "ann@acme.example"', "[drift")),
    "a secret is overwritten": Edit(
        overwrites_the_secret,
        (
            "Provider {zone}/corp",
            'client_secret: overwritten on the server since version "1"; version "1" is sent from the',
            "[drift",
        ),
    ),
    "a secret is written again": Edit(
        overwrites_it_with_the_same, ('client_secret: overwritten on the server since version "1"',)
    ),
    "a secret is cleared": Edit(
        clears_the_secret, ('client_secret: set to version "1" from the environment',)
    ),
    "a dependency is dropped": Edit(drops_the_dependency, ("Application {zone}/agent", "dependencies: ")),
    "a name is changed": Edit(
        writes("groups", {"identifier": "staff"}, name="By hand"), ('name: "By hand" -> "Staff"',)
    ),
    "scopes are added": Edit(
        writes("resources", {"identifier": "https://payroll.example"}, scopes=["read", "write", "all"]),
        ("Resource {zone}/payroll", "scopes: "),
    ),
}
EDITS = IN_FORCE | DELETED | WRITTEN


@pytest.mark.parametrize("name", EDITS)
def test_drift_shows_it_and_an_apply_puts_git_s_back(company: Company, name: str) -> None:
    """Before it there is no drift; then it is told, with exit 3; an apply ends it, for good."""
    company.drift(expect=0)
    EDITS[name].do(company)

    said = company.drift(expect=3)
    assert not [words for words in EDITS[name].says if words.replace("{zone}", company.zone) not in said]
    company.plan(expect=3)
    company.apply()
    assert company.drift(expect=0).startswith("no drift\n")
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


def test_a_conflict_with_a_text_that_does_not_decide_tells_that_text(company: Company) -> None:
    """A hand has written a text that is not in force, and git moves on: what the hand wrote is shown."""
    writes_a_text_that_does_not_decide(company)
    company.write("policies.yaml", company.folder_text("policies.yaml").replace(PERMIT, FORBID))
    (found,) = company.plan_json()["actions"]
    (change,) = found["changes"]
    assert "when { true }" in change["before"]
    assert (change["after"], change["applied"], change["state"]) == (FORBID, PERMIT, "conflict")
    assert change["in_force"] == {"version": 1, "latest_version": 2, "contents": [], "before_is_latest": True}
    told = company.plan(expect=4).out
    assert "[not in force: version 1 of 2 is; conflict: changed both in git and on the server]" in told
    since = told.split("on the server since the last apply:")[1]
    assert f"- {PERMIT}" in since
    assert "+ when { true };" in since
    company.apply("--consent", "conflicts=1")
    assert company.decides() == FORBIDDEN


BORN_WITH = "An application uses what a user granted it"


@dataclass(frozen=True)
class Displaced:
    """What is seen of a zone whose policy set of git's was put out of force, and after the next apply."""

    how: str
    zone: str
    active: str
    drift_json: Any
    plan_json: Any
    drift: str
    plan: str
    decides_after_apply: str
    drift_json_after_apply: Any


def displace(company: Company, how: str) -> Displaced:
    """Put git's policy set, which has a `forbid`, out of force; there was no drift of that before.

    The zone's own default set is activated, git's is deleted as well, or a set made by hand is activated.
    """
    forbidding = company.folder_text("policies.yaml").replace(PERMIT, FORBID)
    company.write("policies.yaml", forbidding)
    company.apply()
    assert "deciding" not in company.drift_json()
    if how == "by-hand":
        lets_another_set_decide(company, "staying")
    else:
        company.activate(company.platform_version())
    if how == "deleted":
        company.send("DELETE", company.path("policy-sets", name="main"))
    active = "by-hand" if how == "by-hand" else company.platform_name()
    seen = company.drift_json(), company.plan_json(), company.drift(expect=3), company.plan(expect=3).out
    company.apply()
    return Displaced(how, company.zone, active, *seen, company.decides(), company.drift_json())


@pytest.fixture(scope="module")
def displaced_once() -> dict[tuple[str, str], Displaced]:
    """What was seen on each kind of database, so that each way is gone once for all tests."""
    return {}


@pytest.fixture(params=["activated", "deleted", "by-hand"])
def displaced(
    request: pytest.FixtureRequest,
    new_company: Callable[[], Company],
    displaced_once: dict[tuple[str, str], Displaced],
) -> Displaced:
    """Git's policy set is out of force, in each of three ways."""
    way = (str(request.node.callspec.params["served"]), str(request.param))
    if way not in displaced_once:
        displaced_once[way] = displace(new_company(), request.param)
    return displaced_once[way]


class TestDisplacedPolicySet:
    """With git's policy set out of force its `forbid` is: who decides now, and what an apply puts back."""

    def test_json_names_the_active_set_and_the_forbid_that_an_apply_restores(
        self, displaced: Displaced
    ) -> None:
        """`deciding` of the drift: which set is active, which was, and the policy that forbids again."""
        (found,) = displaced.drift_json["deciding"]
        expected = (f"PolicySet/{displaced.active}", "PolicySet/main", True)
        assert (found["before"], found["after"], found["drift"]) == expected
        assert (found["forbids_again"], "forbids" in found) == (["Policy/reading"], False)

    def test_the_plan_says_the_same_as_the_drift(self, displaced: Displaced) -> None:
        """`deciding` is one and the same in both documents."""
        assert displaced.plan_json["deciding"] == displaced.drift_json["deciding"]

    @pytest.mark.threat("48g")
    def test_drift_prints_the_forbid_that_is_not_in_force(self, displaced: Displaced) -> None:
        """The zone, the policy with the `forbid`, and that an apply activates git's set again."""
        assert f"! the active policy set differs from git in zone {displaced.zone}: " in displaced.drift
        assert "    not in force, with a `forbid`: Policy/reading\n" in displaced.drift
        assert "    an apply activates PolicySet/main again\n" in displaced.drift
        assert (BORN_WITH in displaced.drift) == (displaced.how != "by-hand")

    def test_plan_prints_the_forbid_that_is_in_force_again(self, displaced: Displaced) -> None:
        """The zone, the set that an apply activates, and the policy with the `forbid`."""
        told = f"! the active policy set changes in zone {displaced.zone}: PolicySet/main "
        assert told in displaced.plan
        assert "    in force again, with a `forbid`: Policy/reading\n" in displaced.plan
        assert (BORN_WITH in displaced.plan) == (displaced.how != "by-hand")

    def test_an_apply_puts_it_in_force_again(self, displaced: Displaced) -> None:
        """Afterwards git's text decides, and there is no drift of that."""
        assert displaced.decides_after_apply == FORBIDDEN
        assert "deciding" not in displaced.drift_json_after_apply


def gives_the_role(company: Company) -> None:
    """Contractors may read everything: a role and a group of git's, a grant of a hand."""
    role = company.found("roles", identifier="auditor", owner_type="customer")["id"]
    company.send("POST", f"{company.path('groups', identifier='contractors')}/roles", role_id=role)


def makes_a_credential(company: Company) -> None:
    """Somebody else can speak for git's application."""
    agent = company.found("applications", identifier="agent")["id"]
    company.send(
        "POST",
        company.collection("application-credentials"),
        application_id=agent,
        type="public",
        identifier="mine",
    )


ATTACHED = {
    "RoleAssignment": Edit(
        gives_the_role,
        (
            "! RoleAssignment {zone}/Role/auditor -> Group/contractors",
            "attached to Role/auditor, Group/contractors, in no configuration",
            "last written by api_key ",
            "1 object attached by others",
        ),
    ),
    "ApplicationCredential": Edit(
        makes_a_credential,
        ("! ApplicationCredential {zone}/mine", "attached to Application/agent, in no configuration"),
    ),
}


@pytest.mark.parametrize("kind", ATTACHED)
def test_what_is_attached_to_managed_objects_is_drift_that_an_apply_leaves(
    company: Company, kind: str
) -> None:
    """It belongs to nobody in git, so nobody's apply deletes it; that it is there is told until it is not."""
    ATTACHED[kind].do(company)
    said = company.drift(expect=3)
    assert not [words for words in ATTACHED[kind].says if words.replace("{zone}", company.zone) not in said]
    assert "1 object in these zones is in no configuration" in company.plan(expect=0).out
    company.apply()
    (found,) = company.drift_json()["attached"]
    assert (found["kind"], found["write"]["actor"].split()[0]) == (kind, "api_key")
    assert company.drift("--ignore", kind, expect=0).startswith("no drift\n")
    assert "unknown kind" in company.zonectl("drift", company.folder, "--ignore", "Grant").err


def test_a_hidden_set_that_decides_is_named_by_every_plan(company: Company) -> None:
    """Where git has no policies, what decides in the zone is a hand's: the line says so."""
    company.activate(company.platform_version())
    (company.folder.path / "policies.yaml").unlink()
    company.apply()
    company.plan(expect=0)
    company.send("POST", company.collection("policies"), name="by-hand")
    version = company.new_text("by-hand", ANYTHING)
    company.send("POST", company.collection("policy-sets"), name="main")
    company.activate(company.new_version((company.found("policies", name="by-hand")["id"], version)))
    said = company.plan(expect=0).out
    assert "2 objects in these zones are in no configuration" in said
    assert f"in force: Policy {company.zone}/by-hand, PolicySet {company.zone}/main" in said


def test_unmanaged_objects_and_lists_are_listed(company: Company) -> None:
    """`--unmanaged` tells what hands have made, and lists that no manifest writes; not the service's."""
    assert "? " not in company.drift("--unmanaged", expect=0)
    company.send("POST", company.collection("groups"), name="By hand", identifier="by-hand")
    company.send(
        "PATCH",
        company.path("providers", identifier="https://corp.example"),
        protocols={"openid": {"scopes": ["email"]}},
    )
    said = company.drift("--unmanaged", expect=0)
    assert f"? Group {company.zone}/by-hand" in said
    assert f"? Provider {company.zone}/corp  `protocols.openid.scopes` is in no manifest" in said
    assert 'protocols.openid.scopes: ["email"]' in said
    assert "1 object and 1 list in these zones are in no configuration" in company.drift(expect=0)
    told = company.drift_json("--unmanaged")
    assert [each["name"] for each in told["unmanaged"]] == ["by-hand", "corp"]
    assert told["unmanaged_count"] == 2


def test_a_reader_sees_drift_without_names(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may not read the audit log sees what was done, and the same plan; not by whom."""
    lets_an_older_text_decide(company)
    company.send("DELETE", company.path("groups", identifier="contractors"))
    company.send("PATCH", company.path("groups", identifier="staff"), name="By hand")
    told, actions = company.drift_json(), company.plan_json()["actions"]
    assert {each["write"]["actor"].split()[0] for each in told["drift"] + told["deleted"]} == {"api_key"}

    company.as_key("org_viewer", monkeypatch)
    seen = company.drift_json()
    assert company.plan_json()["actions"] == actions
    assert "api_key" not in json.dumps(seen)
    assert [each["name"] for each in seen["drift"]] == [each["name"] for each in told["drift"]]
    (gone,) = seen["deleted"]
    assert gone["write"].keys() == {"at"}
