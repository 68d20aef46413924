"""Two owners that share a zone, each with its own credential, against a real server on both databases."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.reconciler.conftest import Folder, Result
from tests.reconciler.factories import manifest, zone
from tests.support.server import Server

from reconciler.apply.changeset_body import changeset_body
from reconciler.client import Api, Connection, Rejected
from reconciler.kinds import Entity, Manifest, load_kinds
from reconciler.plan import Plan, build_plan, check_guards

_numbers = count(1)
NAMES = ("agent", "calendar", "staff")
KINDS = ("Application", "Resource", "Group", "Role")


def new_key(server: Server, **members: Any) -> str:
    """A key of the organization, made by its administrator."""
    path = f"{server.url}/organizations/{server.organization_id}/api-keys"
    body = {"name": "team", "role": "org_member", **members}
    made = httpx.post(path, json=body, headers=server.headers, timeout=60, trust_env=False)
    assert made.status_code == 201, made.text
    return str(made.json()["api_key"])


@dataclass
class Team:
    """What one owner's git describes, by (kind, name), and the one credential that applies it."""

    api: Api
    owner: str
    zone: str
    described: dict[tuple[str, str], Manifest] = field(default_factory=dict)

    def describe(self, kind: str, name: str, text: str) -> None:
        """Say something of an object; its handle is the owner's own, its name anybody's."""
        own = f"{self.owner.rpartition('/')[2]}-{name}"
        spec: dict[str, Any] = {"description": text, "name": own}
        spec["identifier"] = f"https://{own}.example" if kind == "Resource" else own
        if kind == "Role":
            del spec["name"]
        if kind == "Group":
            spec = {"name": f"{own} {text}".strip(), "identifier": own}
        # What has come back under another name is there already: offline checks refuse two of one handle.
        if not any(
            key[0] == kind and key[1] != name and each.spec.get("identifier") == spec["identifier"]
            for key, each in self.described.items()
        ):
            self.described[kind, name] = manifest(kind, name, self.zone, **spec)

    def refer(self, other: "Team", name: str) -> None:
        """Let an application depend on a resource of the other team."""
        own = f"{self.owner.rpartition('/')[2]}-{name}"
        spec = {"name": own, "identifier": own, "dependencies": [{"owner": other.owner, "name": name}]}
        self.described["Application", name] = manifest("Application", name, self.zone, **spec)

    def plan(self) -> Plan:
        """The plan; the zone is somebody else's."""
        return build_plan(
            tuple(self.described.values()),
            self.api.snapshot(self.owner, [self.zone]),
            load_kinds(),
            owner=self.owner,
            tool_version="test",
            zones={self.zone: None},
        )

    def apply(self) -> Plan:
        """Plan, apply, and plan again, which finds nothing to do."""
        made = self.plan()
        if not made.empty:
            self.api.apply(
                changeset_body(made, [dict(each) for each in made.operations]), made.idempotency_key
            )
        again = self.plan()
        assert again.empty, again.operations
        return made

    def owned(self) -> dict[str, Entity]:
        """What this owner manages, by id."""
        return {
            each.id: each
            for each in self.api.snapshot(self.owner).entities
            if each.ownership is not None and each.ownership.owner == self.owner
        }


@pytest.fixture
def teams(served: Server) -> Iterator[Callable[[], tuple[Team, Team]]]:
    """Makes a zone of a third owner's, and two teams in it with a key each that is bound to both."""
    with ExitStack() as opened:

        def open_api(key: str) -> Api:
            return opened.enter_context(Api.open(Connection(served.url, api_key=key), writes=True))

        def make() -> tuple[Team, Team]:
            number = next(_numbers)
            name, platform = f"shared-{number}", Team(open_api(served.api_key), f"platform/{number}", "")
            platform.described["Zone", name] = zone(name)
            platform.apply()
            (zone_id,) = platform.owned()
            first, second = (
                Team(open_api(new_key(served, owner=owner, zones=[zone_id])), owner, name)
                for owner in (f"team/{number}-a", f"team/{number}-b")
            )
            return first, second

        yield make


class Interleaved(RuleBasedStateMachine):
    """Two owners edit and apply in any order: neither changes what is the other's."""

    make: Callable[[], tuple[Team, Team]]

    @initialize()
    def begin(self) -> None:
        self.teams = self.make()

    @rule(
        who=st.integers(0, 1),
        kind=st.sampled_from(KINDS),
        name=st.sampled_from(NAMES),
        text=st.text("xyz", max_size=3),
    )
    def edit(self, who: int, kind: str, name: str, text: str) -> None:
        self.teams[who].describe(kind, name, text)

    @rule(who=st.integers(0, 1), data=st.data())
    def remove(self, who: int, data: st.DataObject) -> None:
        team = self.teams[who]
        if team.described:
            del team.described[data.draw(st.sampled_from(sorted(team.described)))]

    @precondition(lambda self: any(key[0] == "Resource" for key in self.teams[1].described))
    @rule(name=st.sampled_from(NAMES))
    def refer(self, name: str) -> None:
        first, second = self.teams
        if ("Resource", name) in second.described and second.plan().empty:
            first.refer(second, name)

    @rule(who=st.integers(0, 1), data=st.data())
    def hand_over(self, who: int, data: st.DataObject) -> None:
        """What one lets go of the other takes up as it is; the one neither deletes it nor wants it back."""
        team, other = self.teams[who], self.teams[1 - who]
        if not self.resolvable(team) or not self.resolvable(other):
            return
        team.apply()
        other.apply()
        mine = {
            (each.kind, each.ownership.name): each
            for each in team.owned().values()
            if each.ownership is not None and "dependencies" not in each.ownership.applied
        }
        if not mine:
            return
        kind, name = data.draw(st.sampled_from(sorted(mine)))
        entity, described = mine[kind, name], team.described[kind, name]
        team.described[kind, name] = replace(described, lifecycle={"release": True})
        assert team.apply().summary() == {"release": 1}
        taken = f"{name}-of-{who}"
        other.described[kind, taken] = replace(described, name=taken)
        assert other.apply().summary() == {"adopt": 1}
        del team.described[kind, name]
        assert team.plan().empty
        after = other.owned()[entity.id]
        assert without_references(after) == without_references(entity)

    @rule(who=st.integers(0, 1))
    def apply(self, who: int) -> None:
        team, other = self.teams[who], self.teams[1 - who]
        if not self.resolvable(team):
            return
        before = other.owned()
        team.apply()
        after = other.owned()
        assert after.keys() == before.keys()
        still = {entity_id: after[entity_id] for entity_id in before}
        assert {id_: each.ownership for id_, each in still.items()} == {
            id_: each.ownership for id_, each in before.items()
        }
        # What is deleted is no longer referred to; nothing else of another's changes.
        assert {id_: without_references(each) for id_, each in still.items()} == {
            id_: without_references(each) for id_, each in before.items()
        }

    def resolvable(self, team: Team) -> bool:
        """Tell whether what the first team refers to is there still."""
        there = {
            each.ownership.name
            for each in self.teams[1].owned().values()
            if each.kind == "Resource" and each.ownership is not None
        }
        wanted = {
            each["name"]
            for described in team.described.values()
            for each in described.spec.get("dependencies", ())
        }
        return wanted <= there

    def teardown(self) -> None:
        for team in getattr(self, "teams", ()):
            if self.resolvable(team):
                team.apply()


def without_references(entity: Entity) -> dict[str, Any]:
    """What an entity says of itself."""
    return {name: value for name, value in entity.spec.items() if name != "dependencies"}


def test_neither_of_two_owners_changes_the_others_objects(teams: Callable[[], tuple[Team, Team]]) -> None:
    """Neither's apply changes the other's objects, and each one's plan after an apply is empty."""
    machine = type("Machine", (Interleaved,), {"make": staticmethod(teams)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=6,
            stateful_step_count=12,
            deadline=None,
            phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a step takes too long to shrink by many
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )


@pytest.mark.threat("49a")
def test_neither_applies_as_the_other(teams: Callable[[], tuple[Team, Team]]) -> None:
    """The same plan goes through with its owner's key, and is refused with the other's."""
    first, second = teams()
    first.describe("Application", "agent", "one")
    stolen = Team(second.api, first.owner, first.zone, first.described)
    with pytest.raises(Rejected, match=f"bound to the owner `{second.owner}`, not to `{first.owner}`"):
        stolen.apply()
    assert first.apply().summary() == {"create": 1}


def test_an_object_changes_hands_as_it_is(teams: Callable[[], tuple[Team, Team]]) -> None:
    """Alone neither takes it; released by one and described by the other it changes hands as it is."""
    first, second = teams()
    first.describe("Application", "agent", "one")
    first.apply()
    (before,) = first.owned().values()
    described = first.described["Application", "agent"]
    second.described["Application", "agent"] = described
    (refusal,) = check_guards(second.plan(), {})
    assert f"belongs to the configuration `{first.owner}`" in refusal.message

    given = manifest("Application", "agent", first.zone, lifecycle={"release": True}, **described.spec)
    first.described["Application", "agent"] = given
    assert first.apply().summary() == {"release": 1}
    assert second.apply().summary() == {"adopt": 1}
    (after,) = second.owned().values()
    assert (after.id, after.spec) == (before.id, before.spec)
    assert first.plan().empty
    first.described.clear()
    assert first.plan().empty


ZONE = """apiVersion: zonewright/v1
kind: Zone
metadata: {{name: {zone}}}
spec: {{name: {zone}}}
"""


@pytest.mark.parametrize("same_owner", [True, False])
def test_the_second_of_two_first_applies_makes_no_zone(
    served: Server,
    zonectl: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    *,
    same_owner: bool,
) -> None:
    """Both are planned on the same base: the second is told so with exit 4, and makes no second zone."""
    monkeypatch.setenv("ZONECTL_SERVER", served.url)
    monkeypatch.setenv("ZONECTL_API_KEY", served.api_key)
    name = f"first-{next(_numbers)}"
    plans = []
    codes = []
    for place in ("one", "two"):
        folder = Folder(tmp_path / place)
        folder.write("zonectl.yaml", f"owner: {name if same_owner else f'{name}-{place}'}\n")
        folder.write("zone.yaml", ZONE.format(zone=name))
        plans.append(tmp_path / f"{place}.json")
        codes.append(zonectl("plan", folder, "--out", plans[-1]).exit_code)
    assert codes == [2, 2]
    # Two runs of one configuration make one plan, which is safe to send again.
    if same_owner:
        folder.write("zone.yaml", ZONE.format(zone=name).replace("spec: {", "spec: {description: other, "))
        assert zonectl("plan", folder, "--out", plans[-1]).exit_code == 2

    assert zonectl("apply", plans[0], "--root", tmp_path / "one").exit_code == 0
    done = zonectl("apply", plans[1], "--root", tmp_path / "two")
    assert done.exit_code == 4, done.err
    assert "the plan is stale" in done.err
    zones = httpx.get(f"{served.url}/zones", params={"limit": 100}, headers=served.headers, trust_env=False)
    assert [each["name"] for each in zones.json()["items"]].count(name) == 1
