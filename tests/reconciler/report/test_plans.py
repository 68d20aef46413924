"""Plans as people read them."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from tests.reconciler.factories import carry_out, manifest, plan_for, zone
from tests.reconciler.fake_server import World

from reconciler.kinds import Manifest, load_kinds
from reconciler.kinds.loading import schema_directory
from reconciler.plan import Cascade, Cascades
from reconciler.plan.model import Action, ChangeState, FieldChange, Op, Plan
from reconciler.report.plans import plan_lines
from reconciler.terminal import rendered


def plan_text(made: Plan, cascades: Cascades | None = None) -> str:
    """A plan as it is printed on a terminal."""
    return "\n".join(rendered(line) for line in plan_lines(made, cascades=cascades))


def plan(*actions: Action) -> Plan:
    """A plan with these actions."""
    operations = tuple({"op": str(action.op), "kind": action.kind} for action in actions)
    return Plan("0", "acme", "o", "https://id.example", 7, {}, actions, operations, {}, len(actions))


def action(op: Op, name: str, *changes: FieldChange) -> Action:
    """An action on a group."""
    return Action(op, "Group", "acme", name, None, "groups.yaml:3", changes)


def test_worst_news_come_first() -> None:
    """Deletions before updates before creations, whatever the order of execution."""
    text = click.unstyle(
        plan_text(plan(action(Op.CREATE, "a"), action(Op.UPDATE, "b"), action(Op.DELETE, "c")))
    )

    assert [line.split()[0] for line in text.splitlines()[:3]] == ["-", "~", "+"]
    assert "3 manifests: 1 to create, 1 to update, 1 to delete" in text


def test_a_deletion_says_what_goes_with_it() -> None:
    """Below its own line, in plain words; what is not deleted takes nothing along."""
    gone, kept = (replace(action(op, "c"), id="i") for op in (Op.DELETE, Op.UPDATE))
    cascades = {("Group", "i"): Cascade({"sessions": 1200, "policies": 1, "refresh_tokens": 2}, in_use=True)}
    text = click.unstyle(plan_text(plan(gone, kept), cascades))

    assert "    in use: it was used within the last thirty days" in text
    assert "    also deletes 1 policy, 2 refresh tokens, 1,200 sessions" in text
    assert text.count("also deletes") == 1
    assert "also deletes" not in plan_text(plan(gone), {("Group", "other"): Cascade({"sessions": 1})})


@pytest.mark.parametrize("op", [Op.DELETE, Op.REPLACE])
@pytest.mark.parametrize("secret_ends", [True, False])
def test_a_credential_that_goes_ends_the_tokens_of_its_client_id(op: Op, *, secret_ends: bool) -> None:
    """With its secret when it has one: those of the client id's other secret end as well."""
    gone = replace(action(op, "key"), kind="ApplicationCredential", secret_ends=secret_ends)
    notes = "its secret stops working at once; " if secret_ends else ""

    first = click.unstyle(plan_text(plan(gone))).splitlines()[0]
    assert f"acme/key ({notes}all access tokens of its client id stop working at once)  " in first


def test_an_expired_credential_may_end_no_token() -> None:
    """Only the service knows whether any of them is left."""
    expires = FieldChange("expires_at", "2026-01-01T00:00:00Z", None, ChangeState.PENDING)
    gone = replace(action(Op.DELETE, "key", expires), kind="ApplicationCredential", secret_ends=True)

    text = click.unstyle(plan_text(plan(gone)))
    assert "at once, unless it expired so long ago that its own tokens have expired too)" in text


@pytest.mark.parametrize("op", sorted(set(Op) - {Op.DELETE, Op.REPLACE}))
def test_what_stays_ends_no_token(op: Op) -> None:
    """And a group has no client id."""
    kept = replace(action(op, "key"), kind="ApplicationCredential")

    assert "access tokens" not in plan_text(plan(kept, action(Op.DELETE, "staff")))


def test_budgets_of_the_settings_are_told_with_deletions() -> None:
    """Whoever raises them in a pull request is seen to."""
    raised = {"Group": 50, "Role": "20%"}
    text = plan_text(replace(plan(action(Op.DELETE, "c")), budgets=raised))
    assert "delete budgets of `zonectl.yaml`: Group 50, Role 20%" in text
    assert "budgets" not in plan_text(replace(plan(action(Op.UPDATE, "c")), budgets=raised))


def test_every_action_is_shown() -> None:
    """No creation and no deletion is hidden in a long list."""
    creations = [action(Op.CREATE, f"c{n}") for n in range(300)]
    deletions = [action(Op.DELETE, f"d{n}") for n in range(300)]
    text = click.unstyle(plan_text(plan(*creations, *deletions)))

    assert text.count("create Group") == text.count("delete Group") == 300


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (FieldChange("name", "a", "b", ChangeState.PENDING), 'name: "a" -> "b"'),
        (FieldChange("name", "a", "b", ChangeState.DRIFT, "b"), "[drift: changed on the server"),
        (
            FieldChange("name", "a", "b", ChangeState.CONFLICT, "c"),
            'on the server since the last apply: "c" -> "a"',
        ),
        (FieldChange("name", "a", "a", ChangeState.CLAIM), '"a"  [managed from now on'),
        (FieldChange("name", None, "a", ChangeState.PENDING), '(unset) -> "a"'),
    ],
)
def test_a_change_says_what_and_why(change: FieldChange, expected: str) -> None:
    """Before, after, and the reason."""
    assert expected in click.unstyle(plan_text(plan(action(Op.UPDATE, "g", change))))


def test_nothing_acts_upon_the_terminal() -> None:
    """A name on the server may hold anything."""
    change = FieldChange("name", "\x1b[2J\u202e", "b", ChangeState.PENDING)
    text = click.unstyle(plan_text(plan(action(Op.UPDATE, "g\x1b[31m", change))))

    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "g\\x1b[31m" in text
    assert 'name: "\\u001b[2J\\u202e"' in text


def secret(before: Any, after: Any) -> str:
    """What a plan says of a provider's client secret."""
    reference = {"secret": {"from_env": "OKTA", "version": after}} if after else None
    change = FieldChange("client_secret", before, reference, ChangeState.PENDING)
    made = Action(Op.UPDATE, "Provider", "acme", "okta", "p1", "okta.yaml:1", (change,))
    return click.unstyle(plan_text(plan(made))).splitlines()[1]


def test_a_rotation_says_from_which_version_to_which() -> None:
    """A secret is its versions and its source, and what becomes of the one before."""
    assert secret({"version": "2"}, "3") == (
        '    client_secret: rotated from version "2" to version "3" from the environment variable `OKTA`; '
        "the old one is overwritten"
    )
    assert 'set to version "1" from' in secret(None, "1")
    assert "not from git, is overwritten by version" in secret({"set": True}, "1")
    assert 'version "2" is sent again' in secret({"version": "2"}, "2")
    assert secret({"version": "2"}, None) == '    client_secret: version "2" is deleted'


def test_a_map_is_no_secret_because_it_looks_like_one() -> None:
    """Which member is a secret, the kind's schema says."""
    change = FieldChange(
        "description", "mine", {"secret": {"from_env": "X", "version": "1"}}, ChangeState.PENDING
    )
    text = click.unstyle(plan_text(plan(action(Op.UPDATE, "g", change))))

    assert '{"secret":{"from_env":"X","version":"1"}}' in text


def test_two_texts_are_compared_line_by_line() -> None:
    """A changed policy shows the lines that differ, not two long strings."""
    change = FieldChange(
        "cedar", "permit (\n  principal,\n  action\n);\n", "permit (\n  principal,\n  resource\n);\n"
    )
    lines = click.unstyle(plan_text(plan(action(Op.UPDATE, "p", change)))).splitlines()

    assert "    cedar:" in lines
    assert "      -   action" in lines
    assert "      +   resource" in lines
    assert "        permit (" in lines


@pytest.mark.parametrize(
    ("secret", "told"),
    [
        (
            {"from_env": "CORP", "version": "2"},
            'version "1" is deleted, and the new object gets version "2" from the environment variable',
        ),
        ({"keep": True}, 'version "1" is deleted'),
    ],
)
def test_what_is_replaced_loses_its_secret(tmp_path: Path, secret: dict[str, Any], told: str) -> None:
    """Of a kind with a secret that has a member which never changes: none of the service's is so today."""
    schemas = tmp_path / "schemas"
    shutil.copytree(schema_directory(), schemas)
    provider = json.loads((schemas / "Provider.json").read_bytes())
    provider["properties"]["spec"]["properties"]["description"]["x-fixed"] = True
    (schemas / "Provider.json").write_text(json.dumps(provider))
    kinds = load_kinds(schemas)
    world = World(kinds)

    def described(text: str, **reference: Any) -> list[Manifest]:
        spec = {"name": "Corp", "identifier": "https://corp.example", "client_secret": reference}
        made = manifest("Provider", "corp", description=text, **spec)
        return [zone(), replace(made, kind=kinds.by_name["Provider"])]

    carry_out(world, plan_for(world, described("One", from_env="CORP", version="1"), kinds=kinds))
    plan = plan_for(world, described("Two", **secret), kinds=kinds)
    assert plan.summary() == {"replace": 1}
    assert f"    client_secret: {told}" in click.unstyle(plan_text(plan))
