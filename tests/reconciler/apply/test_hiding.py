"""Saved plans that somebody else has written: what they tell beside their operations is worked out again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.reconciler.apply.texts import HEAD, Zonectl
from tests.reconciler.factories import manifest, plan_for, settle, zone
from tests.reconciler.fake_server import FakeServer, World

from reconciler.plan import hidden, read_plan
from reconciler.plan.model import digest_of

OBJECT = HEAD + "kind: {}\nmetadata: {{zone: workforce, name: {}}}\nspec: {}\n"
ZONE = HEAD + "kind: Zone\nmetadata: {{name: {0}}}\nspec: {{name: {0}}}\n"
FORBID = 'forbid (principal in Group::"leavers", action, resource);'
CONSENTS = {"deletes": 9, "unowned": 1, "conflicts": 1}


def _texts(*, after: bool) -> str:
    """A company before and after what a plan has to warn of."""
    objects = [
        ZONE.format("workforce"),
        OBJECT.format("Group", "leavers", "{name: L, members: [a@x.example, b@x.example]}"),
        OBJECT.format("Policy", "guard", f"{{cedar: '{FORBID}'}}"),
        OBJECT.format("PolicySet", "main", "{policies: [guard]}"),
        OBJECT.format("Application", "agent", "{name: Agent}"),
        *(OBJECT.format("Resource", f"r{n}", f"{{name: R, identifier: r{n}}}") for n in range(8)),
    ]
    old, new = (
        OBJECT.format("ApplicationCredential", name, "{application: agent, type: password}")
        for name in ("old-key", "new-key")
    )
    if not after:
        return "---\n".join([*objects, old, ZONE.format("old")])
    objects[1] = objects[1].replace("a@x.example, ", "")
    objects[3] = OBJECT.format("PolicySet", "main", "{policies: [guard], active: false}")
    other = OBJECT.format("PolicySet", "other", "{policies: [guard]}")
    kept = objects[5].replace("name: R,", "name: Git,")
    return "---\n".join([*objects[:5], kept, other, new])


def _action(plan: dict[str, Any], op: str, kind: str) -> dict[str, Any]:
    return next(each for each in plan["actions"] if (each["op"], each["kind"]) == (op, kind))


def _change(plan: dict[str, Any], kind: str, field: str) -> dict[str, Any]:
    return next(each for each in _action(plan, "update", kind)["changes"] if each["field"] == field)


def _not_conflicting(plan: dict[str, Any]) -> None:
    change = _change(plan, "Resource", "name")
    change["state"] = "pending"
    del change["applied"]


FORGERIES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "widened": (lambda plan: plan.pop("widened"), ""),
    "widened-less": (lambda plan: plan["widened"][0].update(loses=["c@x.example"]), ""),
    "deciding": (lambda plan: plan.pop("deciding"), ""),
    "takes_along": (lambda plan: _action(plan, "delete", "Zone").pop("takes_along"), "unowned"),
    "state": (_not_conflicting, "conflicts"),
    "before": (lambda plan: _change(plan, "Resource", "name").update(before="Git"), ""),
    "applied": (lambda plan: _change(plan, "Resource", "name").update(applied="Hand"), ""),
    "deleted-before": (lambda plan: _action(plan, "delete", "Resource").update(changes=[]), ""),
    "secret_ends": (lambda plan: _action(plan, "delete", "ApplicationCredential").pop("secret_ends"), ""),
    "shown_once": (lambda plan: _action(plan, "create", "ApplicationCredential").pop("shown_once"), ""),
    "handle": (lambda plan: _action(plan, "delete", "Resource").update(handle="other"), ""),
}


def _save(file: Path, plan: dict[str, Any]) -> None:
    plan.pop("digest")
    file.write_text(json.dumps({**plan, "digest": digest_of(plan)}))


def _consents(without: str = "") -> list[str]:
    return [f"--consent={name}={count}" for name, count in CONSENTS.items() if name != without]


@pytest.mark.threat("37b", "49q")
@pytest.mark.parametrize("member", ["", *FORGERIES])
def test_what_a_saved_plan_tells_beside_its_operations_is_so(
    config: Any, server: FakeServer, zonectl: Zonectl, tmp_path: Path, world: World, member: str
) -> None:
    """As zonectl saved it, it is applied after unrelated changes; with less in it, it is refused."""
    config.write("all.yaml", _texts(after=False))
    secrets = ("--secrets-dir", tmp_path / "secrets")
    assert zonectl("apply", config, "--yes", *secrets).exit_code == 0
    world.add("Group", {"identifier": "by-hand", "name": "B"}, world.find("Zone", "old")["id"])
    resource = world.find("Resource", "r0")
    world.revision += 1
    resource["spec"]["name"], resource["revision"] = "Hand", world.revision
    config.write("all.yaml", _texts(after=True))
    file = tmp_path / "plan.json"
    zonectl("plan", config, "--out", file)
    plan = json.loads(file.read_bytes())
    assert all(plan.get(name) for name in ("widened", "deciding", "owned"))
    forge, consent = FORGERIES.get(member, (lambda _plan: None, ""))
    forge(plan)
    _save(file, plan)
    if not member:
        world.add("Group", {"identifier": "c", "name": "C"}, world.find("Zone", "workforce")["id"])
    before = world.revision

    done = zonectl("apply", file, *secrets, *_consents(without=consent))

    if member:
        assert (done.exit_code, world.revision) == (5, before), done
        assert "the plan does not say" in done.err
    else:
        assert (done.exit_code, world.revision > before) == (0, True), done


@pytest.mark.threat("37b", "49q")
@pytest.mark.parametrize("forged", [{}, {"owned": {"Resource": 1000}}, {"delete_budgets": {"Resource": 8}}])
def test_a_saved_plan_does_not_say_how_many_may_be_deleted(
    config: Any, server: FakeServer, zonectl: Zonectl, tmp_path: Path, world: World, forged: dict[str, Any]
) -> None:
    """Seven of eight take their consent, whatever the file says of owned objects and of budgets."""
    objects = [OBJECT.format("Resource", f"r{n}", f"{{name: R, identifier: r{n}}}") for n in range(8)]
    config.write("all.yaml", "---\n".join([ZONE.format("workforce"), *objects]))
    assert zonectl("apply", config, "--yes").exit_code == 0
    config.write("all.yaml", "---\n".join([ZONE.format("workforce"), objects[0]]))
    file = tmp_path / "plan.json"
    zonectl("plan", config, "--out", file)
    _save(file, {**json.loads(file.read_bytes()), **forged})

    refused = zonectl("apply", file)
    assert (refused.exit_code, "7 of 8 objects" in refused.err) == (5, True), refused
    assert zonectl("apply", file, "--consent=deletes=7").exit_code == 0


@pytest.mark.threat("49q")
def test_a_saved_plan_does_not_hide_protection_nor_that_there_was_no_manifest(world: World) -> None:
    """What stands against a plan at all times: no consent is asked for it."""
    group = manifest("Group", "g", name="G", lifecycle={"protect": True})
    settle(world, [zone(), group])
    for manifests, member in (([zone()], "protected"), ([], "wanted")):
        plan = plan_for(world, manifests)
        content = json.loads(orjson.dumps(plan.as_json()))
        assert not list(hidden(read_plan(orjson.dumps(content)), world.snapshot())) or not manifests
        content.pop("digest")
        if member == "wanted":
            content["wanted"] = 1
        for action in content["actions"] if member == "protected" else ():
            action.pop("protected", None)
        forged = read_plan(orjson.dumps({**content, "digest": digest_of(content)}))
        assert list(hidden(forged, world.snapshot()))
