"""Saved plans that somebody has edited: all members beside the operations are verified."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.reconciler.apply.texts import HEAD, PROVIDER, Zonectl
from tests.reconciler.factories import OWNER, carry_out, manifest, plan_for, settle, zone
from tests.reconciler.fake_server import FakeServer, World

from reconciler.kinds import Manifest
from reconciler.plan import Plan, read_plan, saved_plan_discrepancies, with_server_facts
from reconciler.plan.model import digest_of

OBJECT = HEAD + "kind: {}\nmetadata: {{zone: workforce, name: {}}}\nspec: {}\n"
ZONE = HEAD + "kind: Zone\nmetadata: {{name: {0}}}\nspec: {{name: {0}}}\n"
FORBID = 'forbid (principal in Group::"leavers", action, resource);'
ROLE = OBJECT.format("Role", "wanderer", "{}")
ELSEWHERE = ROLE.replace("workforce", "third")
GROUP = OBJECT.format("Group", "former", "{name: F, identifier: f}")
LATTER = GROUP.replace("name: former", "name: latter") + "lifecycle: {previous_names: [former]}\n"
LOST = OBJECT.format("Role", "lost", "{}")
LEAVERS = manifest("Group", "leavers", name="L")
CONSENTS = {"deletes": 10, "unowned": 1, "conflicts": 1}


def _texts(*, after: bool) -> str:
    """A company before and after what a plan has to warn of."""
    objects = [
        ZONE.format("workforce"),
        OBJECT.format("Group", "leavers", "{name: L, members: [a@x.example, b@x.example]}"),
        OBJECT.format("Policy", "guard", f"{{cedar: '{FORBID}'}}"),
        OBJECT.format("PolicySet", "main", "{policies: [guard]}"),
        OBJECT.format("Application", "agent", "{name: Agent}"),
        *(OBJECT.format("Resource", f"r{n}", f"{{name: R, identifier: r{n}}}") for n in range(8)),
        ZONE.format("third"),
        LOST,
    ]
    old, new = (
        OBJECT.format("ApplicationCredential", name, "{application: agent, type: password}")
        for name in ("old-key", "new-key")
    )
    if not after:
        return "---\n".join([*objects, old, ZONE.format("old"), ROLE, GROUP])
    objects[4] = objects[4].replace("name: Agent", "name: Agent, description: by hand")
    objects[1] = objects[1].replace("a@x.example, ", "")
    objects[3] = OBJECT.format("PolicySet", "main", "{policies: [guard], active: false}")
    other = OBJECT.format("PolicySet", "other", "{policies: [guard]}")
    kept = objects[5].replace("name: R,", "name: Git,")
    return "---\n".join([*objects[:5], kept, *objects[-2:], other, new, ELSEWHERE, LATTER])


def _action(plan: dict[str, Any], op: str, kind: str) -> dict[str, Any]:
    return next(each for each in plan["actions"] if (each["op"], each["kind"]) == (op, kind))


def _change(plan: dict[str, Any], kind: str, field: str) -> dict[str, Any]:
    return next(each for each in _action(plan, "update", kind)["changes"] if each["field"] == field)


def _not_conflicting(plan: dict[str, Any]) -> None:
    change = _change(plan, "Resource", "name")
    change["state"] = "pending"
    del change["applied"]


def _of(op: str, kind: str, **members: Any) -> Callable[[dict[str, Any]], Any]:
    """A forgery that says something else of an action, or nothing where that is None."""

    def forge(plan: dict[str, Any]) -> None:
        action = _action(plan, op, kind)
        action.update(members)
        for name in [name for name, value in members.items() if value is None]:
            del action[name]

    return forge


def _claimed(plan: dict[str, Any]) -> None:
    change = _change(plan, "Application", "description")
    assert change["state"] == "claim"
    change["before"] = change["after"] = "harmless"


def _not_lost(plan: dict[str, Any]) -> None:
    del next(each for each in plan["actions"] if each["name"] == "lost")["deleted"]


def _twice(plan: dict[str, Any]) -> None:
    changes = _action(plan, "update", "Resource")["changes"]
    changes.insert(0, {**changes[0], "before": "Git"})


def _more(plan: dict[str, Any], name: str, **members: Any) -> None:
    plan[name].append({**plan[name][0], **members})


FORGERIES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "widened": (lambda plan: plan.pop("widened"), ""),
    "widened-less": (lambda plan: plan["widened"][0].update(loses=["c@x.example"]), ""),
    "widened-more": (lambda plan: _more(plan, "widened", policy="other"), ""),
    "deciding": (lambda plan: plan.pop("deciding"), ""),
    "deciding-more": (lambda plan: _more(plan, "deciding", drift=True), ""),
    "takes_along": (_of("delete", "Zone", takes_along=None), "unowned"),
    "takes_along-more": (_of("delete", "Zone", takes_along=2), "unowned"),
    "state": (_not_conflicting, "conflicts"),
    "before": (lambda plan: _change(plan, "Resource", "name").update(before="Git"), ""),
    "before-twice": (_twice, ""),
    "applied": (lambda plan: _change(plan, "Resource", "name").update(applied="Hand"), ""),
    "claim": (_claimed, ""),
    "deleted-before": (lambda plan: _action(plan, "delete", "Resource").update(changes=[]), ""),
    "created-before": (lambda plan: _action(plan, "create", "Role")["changes"].append(OLD), ""),
    "secret_ends": (_of("delete", "ApplicationCredential", secret_ends=None), ""),
    "secret_ends-more": (_of("update", "Application", secret_ends=True), ""),
    "shown_once": (_of("create", "ApplicationCredential", shown_once=None), ""),
    "shown_once-more": (_of("create", "Role", shown_once=True), ""),
    "protected-more": (_of("update", "Application", protected=True), ""),
    "handle": (_of("delete", "Resource", handle="other"), ""),
    "handle-updated": (_of("update", "Application", handle="other"), ""),
    "reason": (_of("update", "Application", reason="approved by security"), ""),
    "source": (lambda plan: plan["operations"][0]["source"].update(line=1000), ""),
    "source-malformed": (lambda plan: plan["operations"][0].update(source=["rest.yaml", 1]), ""),
    "reason-deleted": (_of("delete", "Zone", reason="all.yaml:1"), ""),
    "deleted": (_not_lost, ""),
    "deleted-more": (_of("create", "PolicySet", deleted=True), ""),
    "moved_to": (_of("delete", "Role", moved_to=None), ""),
    "moved_to-more": (_of("delete", "Zone", moved_to="third"), ""),
    "previous_name": (_of("rename", "Group", previous_name="oncall"), ""),
    "previous_name-more": (_of("update", "Application", previous_name="helper"), ""),
    "base_revision": (lambda plan: plan.update(base_revision=plan["base_revision"] + 1), ""),
}
OLD = {"field": "name", "before": "as it was", "after": None}


def _save(file: Path, plan: dict[str, Any]) -> None:
    plan.pop("digest", None)
    plan["shown_once"] = [
        f"{each['kind']} {each['zone']}/{each['name']}" for each in plan["actions"] if each.get("shown_once")
    ]
    if not plan["shown_once"]:
        del plan["shown_once"]
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
    world.find("Application", "agent")["spec"]["description"] = "by hand"
    world.delete_by_hand(world.find("Role", "lost")["id"])
    config.write("all.yaml", _texts(after=True))
    file = tmp_path / "plan.json"
    zonectl("plan", config, "--out", file)
    plan = json.loads(file.read_bytes())
    assert all(plan.get(name) for name in ("widened", "deciding", "owned"))
    assert {"deleted", "moved_from", "moved_to", "previous_name"} <= {*chain(*plan["actions"])}
    forge, consent = FORGERIES.get(member, (lambda _plan: None, ""))
    forge(plan)
    _save(file, plan)
    if not member:
        world.add("Group", {"identifier": "c", "name": "C"}, world.find("Zone", "workforce")["id"])
    before = world.revision

    done = zonectl("apply", file, *secrets, *_consents(without=consent))

    if member:
        assert (done.exit_code, world.revision) == (5, before), done
        assert re.search("the (saved )?plan ", done.err)
        assert "approved by security" not in done.err + done.out
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
def test_a_saved_plan_cannot_hide_that_an_object_is_protected(world: World) -> None:
    """No consent lifts the protection, so a plan that omits it is refused."""
    content = _plan_without(world, [zone()])
    assert not _discrepancies(world, content)
    for action in content["actions"]:
        action.pop("protected", None)

    assert _discrepancies(world, content)


@pytest.mark.threat("49q")
def test_a_saved_plan_cannot_hide_that_there_was_no_manifest(world: World) -> None:
    """A plan without manifests deletes everything, and no consent lifts that."""
    content = _plan_without(world, [])

    assert _discrepancies(world, content | {"wanted": 1})


def _plan_without(world: World, manifests: list[Manifest]) -> dict[str, Any]:
    """The plan's JSON after a protected group was removed from the manifests."""
    settle(world, [zone(), manifest("Group", "g", name="G", lifecycle={"protect": True})])
    content: dict[str, Any] = json.loads(orjson.dumps(plan_for(world, manifests).as_json()))
    return content


def _discrepancies(world: World, content: dict[str, Any]) -> list[str]:
    """The discrepancies of a plan with this content, its digest recomputed."""
    rest = {name: value for name, value in content.items() if name != "digest"}
    saved = read_plan(orjson.dumps({**rest, "digest": digest_of(rest)}))
    return list(saved_plan_discrepancies(saved, world.snapshot()))


@pytest.mark.threat("37b", "49q")
@pytest.mark.parametrize(
    "forged",
    [
        {"summary": {"update": 1}},
        {"tool": {"name": "terraform", "version": "1"}},
        {"approved": "by security"},
        {"shown_once": ["Application workforce/agent"]},
        {"actions": "approved"},
    ],
)
def test_a_saved_plan_holds_what_zonectl_writes_and_nothing_else(
    config: Any, server: FakeServer, zonectl: Zonectl, tmp_path: Path, world: World, forged: dict[str, Any]
) -> None:
    """Whoever reads the file reads what will happen: what follows from the rest does, with nothing else."""
    config.write("all.yaml", ZONE.format("workforce"))
    file = tmp_path / "plan.json"
    zonectl("plan", config, "--out", file)
    plan = json.loads(file.read_bytes())
    if "actions" in forged:
        forged = {"actions": [{**plan["actions"][0], **forged}]}
    content = {name: each for name, each in {**plan, **forged}.items() if name != "digest"}
    file.write_text(json.dumps({**content, "digest": digest_of(content)}))
    refused = zonectl("apply", file)
    assert (refused.exit_code, world.entities) == (1, {}), refused
    assert f"`{next(iter(forged))}` of the plan is not as zonectl writes it" in refused.err

    _save(file, {**plan, "guards": ["what stands beside a plan is not read"]})
    assert zonectl("apply", file).exit_code == 0


@pytest.mark.threat("37b")
@pytest.mark.parametrize("hides", [False, True])
def test_a_secret_does_not_follow_an_address_that_a_saved_plan_is_silent_of(
    config: Any,
    server: FakeServer,
    zonectl: Zonectl,
    monkeypatch: Any,
    tmp_path: Path,
    world: World,
    hides: bool,
) -> None:
    """Somebody has set the address, and the plan was refused for that: the file says that it was not."""
    monkeypatch.setenv("OKTA", "s3cret-s3cret")
    config.write("all.yaml", f"{ZONE.format('workforce')}---\n{PROVIDER}")
    allowed = ("--allow-env", "OKTA")
    assert zonectl("apply", config, "--yes", *allowed).exit_code == 0
    provider, mine = server.world.find("Provider", "okta"), "https://mine.example/token"
    address = {"oauth2": {"token_endpoint": mine if hides else None}}
    provider["spec"].setdefault("protocols", {}).update(address)
    config.write("all.yaml", f"{ZONE.format('workforce')}---\n{PROVIDER}".replace("'1'", "'2'"))
    file = tmp_path / "plan.json"
    made = zonectl("plan", config, "--out", file, *allowed)
    assert (made.exit_code, "would be sent to" in made.out) == ((5, True) if hides else (2, False)), made
    refused = zonectl("apply", file, *allowed) if hides else None
    assert refused is None or "the saved plan was refused when it was made" in refused.err

    _save(file, {**json.loads(file.read_bytes()), "refused": []})
    done = zonectl("apply", file, *allowed)

    assert done.exit_code == (5 if hides else 0), done
    assert ("is sent to the `protocols.oauth2.token_endpoint`" in done.err) == hides


@pytest.mark.threat("37b", "49q")
@pytest.mark.parametrize("active", [False, True], ids=["inactive", "active"])
def test_a_saved_plan_cannot_take_the_active_policy_set_from_another_owner(
    world: World, active: bool
) -> None:
    """The plan was refused for that, and the file omits the refusal."""
    mine = [zone(), LEAVERS, manifest("Policy", "base", cedar=FORBID.replace("forbid", "permit"))]
    settle(world, mine)
    theirs = manifest("PolicySet", "theirs", policies=[])
    settle(world, [theirs], "others", zones={"workforce": OWNER})
    wanted = manifest("PolicySet", "mine", policies=["base"], active=active)
    plan = plan_for(world, [*mine, wanted])
    assert bool(plan.refused) == active
    forged = read_plan(orjson.dumps(replace(plan, refused=(), _digest=[]).as_json()))
    found = list(saved_plan_discrepancies(forged, world.snapshot()))
    assert any("`theirs` of `others` loses `active: true`" in each for each in found) == active


@pytest.mark.threat("37b")
def test_what_a_saved_plan_alone_can_tell_is_told_as_its_word(
    config: Any, server: FakeServer, zonectl: Zonectl, tmp_path: Path
) -> None:
    """Nothing is shown before it is checked; then places are the file's word, and its number is not told."""
    objects = [OBJECT.format("Resource", f"r{n}", f"{{name: R, identifier: r{n}}}") for n in range(8)]
    config.write("all.yaml", "---\n".join([ZONE.format("workforce"), *objects]))
    assert zonectl("apply", config, "--yes").exit_code == 0
    config.write(
        "all.yaml", "---\n".join([ZONE.format("workforce"), objects[0].replace("name: R,", "name: S,")])
    )
    file = tmp_path / "plan.json"
    zonectl("plan", config, "--out", file)
    plan = json.loads(file.read_bytes())
    plan["wanted"] = 1000
    _action(plan, "update", "Resource")["reason"] = "harmless.yaml:1"
    (operation,) = (each for each in plan["operations"] if each["op"] == "update")
    operation["source"] = {"file": "harmless.yaml", "line": 1}
    _save(file, plan)

    shown = zonectl("apply", file)
    assert shown.exit_code == 5
    assert "harmless.yaml:1" in shown.out
    assert "files and lines are taken from the saved plan" in shown.out
    assert "\nsaved plan: 1 to update, 7 to delete; refused" in shown.out
    assert "1,000" not in shown.out

    _action(plan, "update", "Resource")["handle"] = "harmless"
    _save(file, plan)
    hiding = zonectl("apply", file)
    assert (hiding.exit_code, hiding.out) == (5, "")


def test_what_is_claimed_at_the_value_it_has_by_default_is_told_as_it_is(world: World) -> None:
    """Git says now what another member gives by default: the plan that says so hides nothing."""
    address = "https://okta.example"
    settle(world, [zone(), manifest("Provider", "okta", name="O", identifier=address)])
    said = {"protocols": {"oauth2": {"issuer": address}}}
    plan = plan_for(world, [zone(), manifest("Provider", "okta", name="P", identifier=address, **said)])
    states = {each.path: str(each.state) for action in plan.actions for each in action.changes}
    assert states == {"name": "pending", "protocols.oauth2.issuer": "claim"}
    forged = orjson.dumps(plan.as_json()).replace(
        f'"before":"{address}"'.encode(), b'"before":"https://x.example"'
    )
    content = {name: each for name, each in orjson.loads(forged).items() if name != "digest"}
    assert list(
        saved_plan_discrepancies(
            read_plan(orjson.dumps({**content, "digest": digest_of(content)})), world.snapshot()
        )
    )


# --- what follows from a plan, worked out again

API, BOOKS = "https://api.example", "https://api.example/books"


def _zone_with(*members: str, prefix: bool = False, active: bool = True) -> list[Manifest]:
    """A zone in which a policy decides, unless it is not active; with a group and two resources."""
    return [
        zone(),
        manifest("Group", "leavers", name="L", members=list(members)),
        manifest("Policy", "guard", cedar=f"{FORBID}\npermit (principal, action, resource);"),
        manifest("PolicySet", "main", policies=["guard"], active=active),
        manifest("Resource", "api", name="A", identifier=API, prefix=prefix),
        manifest("Resource", "books", name="B", identifier=BOOKS),
    ]


CONSEQUENCES = {
    "deciding": _zone_with("a@x.example", active=False),
    "widened": _zone_with(),
    "exempt": _zone_with("a@x.example", prefix=True),
}


def _saved_for(world: World, consequence: str) -> Plan:
    """The plan, from a file, that has one consequence."""
    settle(world, _zone_with("a@x.example"))
    made = read_plan(orjson.dumps(plan_for(world, CONSEQUENCES[consequence]).as_json()))
    assert getattr(made, consequence)
    return made


@pytest.mark.parametrize("consequence", CONSEQUENCES)
class TestConsequences:
    def test_a_plan_that_says_what_follows_is_believed(self, world: World, consequence: str) -> None:
        """The server tells the same."""
        plan = _saved_for(world, consequence)
        assert list(saved_plan_discrepancies(plan, world.snapshot())) == []

    @pytest.mark.parametrize("moved", [False, True])
    def test_a_plan_that_hides_it_is_not(self, world: World, consequence: str, moved: bool) -> None:
        """Whether or not something was written since."""
        plan = _saved_for(world, consequence)
        if moved:
            world.add("ServiceAccount", {"name": "other"})
            world.revision += 1
        hidden: Any = {consequence: ()}
        assert list(saved_plan_discrepancies(replace(plan, **hidden), world.snapshot()))

    def test_a_plan_that_was_applied_already_may_say_more_than_there_is(
        self, world: World, consequence: str
    ) -> None:
        """What it says has happened: whoever applies it again is not told that it lies."""
        plan = _saved_for(world, consequence)
        carry_out(world, plan)
        assert list(saved_plan_discrepancies(plan, world.snapshot())) == []

    def test_a_plan_that_says_more_than_follows_is_not_believed(self, world: World, consequence: str) -> None:
        """While nothing was written since, it says exactly what there is."""
        plan = _saved_for(world, consequence)
        more = replace(
            getattr(plan, consequence)[0],
            zone="elsewhere",
            **({"prefix": "x"} if consequence == "exempt" else {}),
        )
        both: Any = {consequence: (*getattr(plan, consequence), more)}
        assert list(saved_plan_discrepancies(replace(plan, **both), world.snapshot()))


class TestServerFacts:
    def test_how_many_there_are_is_counted(self, world: World) -> None:
        """With what the plan deletes and is gone: it may have been applied before."""
        groups = [manifest("Group", f"g{n}", name="G") for n in range(3)]
        settle(world, [zone(), *groups])
        plan = read_plan(orjson.dumps(plan_for(world, [zone(), groups[0]]).as_json()))
        lying = replace(plan, owned={"Group": 99})
        assert with_server_facts(lying, world.snapshot()).owned == {"Group": 3, "Zone": 1}
        carry_out(world, plan)
        assert with_server_facts(lying, world.snapshot()).owned == {"Group": 3, "Zone": 1}

    def test_what_others_have_is_not_counted(self, world: World) -> None:
        """Nor what nobody manages."""
        settle(world, [zone()], owner="acme/other")
        world.add("ServiceAccount", {"name": "by-hand"})
        plan = plan_for(world, [manifest("ServiceAccount", "ci")])
        assert with_server_facts(plan, world.snapshot()).owned == {}

    def test_the_place_of_a_widened_policy_is_the_servers(self, world: World) -> None:
        """A file may name any; what does not follow has none."""
        plan = _saved_for(world, "widened")
        (found,) = plan.widened
        elsewhere = replace(found, place="harmless.cedar:1:1")
        (told,) = with_server_facts(replace(plan, widened=(elsewhere,)), world.snapshot()).widened
        assert told.place == found.place == "line 1 of its text"
        (other,) = with_server_facts(
            replace(plan, widened=(replace(elsewhere, loses=("b@x.example",)),)), world.snapshot()
        ).widened
        assert other.place == ""

    def test_zones_are_called_as_on_the_server(self, world: World) -> None:
        """A file has no names for their ids."""
        settle(world, [zone()])
        plan = read_plan(orjson.dumps(plan_for(world, [zone(), manifest("Role", "reader")]).as_json()))
        found = with_server_facts(plan, world.snapshot())
        assert (plan.zone_names, [*found.zone_names.values()]) == ({}, ["workforce"])

    def test_it_stays_the_same_plan(self, world: World) -> None:
        """Under the digest that was approved."""
        plan = _saved_for(world, "widened")
        assert with_server_facts(replace(plan, owned={}), world.snapshot()).digest == plan.digest


class TestWholePlan:
    def test_another_organization_is_found(self, world: World) -> None:
        """The plan was made for other objects."""
        plan = plan_for(world, [zone()])
        assert list(saved_plan_discrepancies(replace(plan, organization_id="other"), world.snapshot()))

    @pytest.mark.parametrize("kept", [0, 1])
    def test_a_plan_that_removes_everything_is_found(self, world: World, kept: int) -> None:
        """Whoever says how many manifests there were: something has to stay."""
        accounts = [manifest("ServiceAccount", name) for name in ("a", "b")]
        settle(world, accounts)
        plan = plan_for(world, accounts[:kept])
        told = list(saved_plan_discrepancies(replace(plan, manifest_count=5), world.snapshot()))
        assert bool(told) is (kept == 0)

    @pytest.mark.parametrize("how", ["deleted", "drift"])
    def test_a_set_that_others_put_out_of_force_decides_again(self, world: World, how: str) -> None:
        """The file says that it is drift, and the server tells the same."""
        settle(world, _zone_with("a@x.example"))
        found = world.find("PolicySet", "main")
        if how == "deleted":
            world.delete_by_hand(found["id"])
        else:
            first = next(
                each["id"]
                for each in world.entities.values()
                if each["kind"] == "PolicySet" and each["owner_type"] == "platform"
            )
            world.update_by_hand(found["id"], {"active": False})
            world.update_by_hand(first, {"active": True})
        plan = read_plan(orjson.dumps(plan_for(world, _zone_with("a@x.example")).as_json()))
        assert [each.drift for each in plan.deciding] == [True]
        hidden = tuple(replace(each, drift=False) for each in plan.deciding)
        assert list(saved_plan_discrepancies(replace(plan, deciding=hidden), world.snapshot()))
