"""Two owners, and a server that is killed at any statement: each apply is complete or has no effect."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import event
from sqlalchemy.exc import PendingRollbackError
from tests.reconciler.configurations import configurations
from tests.reconciler.factories import carry_out, plan_for, settle, zone
from tests.reconciler.real_server import RealWorld, told

from reconciler.kinds import Kinds, Manifest
from reconciler.plan.model import ChangeState

pytestmark = pytest.mark.long

OWNERS = {"acme/one": "w", "acme/two": "v"}  # owner -> its zone
Step = tuple[str, list[Manifest], int | None]  # owner, what its git says, the statement that never returns
STEPS = st.lists(
    st.tuples(st.sampled_from(sorted(OWNERS)), configurations(), st.none() | st.integers(0, 80)),
    min_size=2,
    max_size=5,
)


class Crash(BaseException):
    """The end of a process: nothing catches it, and its connection is gone with it."""


@contextmanager
def crashing(world: RealWorld, after: int | None) -> Iterator[None]:
    """Let the server die at a statement, if there are so many."""
    left = [after]

    def count(*_: Any) -> None:
        if left[0] == 0:
            raise Crash
        left[0] = None if left[0] is None else left[0] - 1

    engine = world.company.services.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", count)
    try:
        yield
    finally:
        event.remove(engine, "before_cursor_execute", count)


def in_zone(value: Any, name: str) -> Any:
    """Values that name the zone `w`, naming another."""
    if isinstance(value, dict):
        return {key: name if key == "of_zone" else in_zone(each, name) for key, each in value.items()}
    return value


def owned_by(owner: str, manifests: list[Manifest]) -> list[Manifest]:
    """A configuration of the zone `w` as one of the owner's zone. What is in no zone is one owner's alone."""
    zone = OWNERS[owner]
    found = []
    for each in manifests:
        spec = in_zone(each.spec, zone)
        if each.kind.name == "Zone":
            found.append(replace(each, name=zone, spec={**spec, "name": zone}))
        elif each.kind.zoned:
            found.append(replace(each, zone=zone, spec=spec))
        elif zone == "w":
            found.append(each)
    return found


def of(owner: str, world: RealWorld) -> dict[str, Any]:
    """What stands in the owner's zone, and in none for the first."""
    zone = OWNERS[owner]
    return {
        place: each
        for place, each in told(world.snapshot(), world.kinds).items()
        if f"Zone/{zone}" in place or (zone == "w" and "ServiceAccount" in place)
    }


def apply_or_die(
    world: RealWorld,
    owner: str,
    manifests: list[Manifest],
    at: int | None,
    zones: Mapping[str, str | None] | None = None,
) -> bool:
    """Apply what git says; tell whether the server died meanwhile."""
    plan = plan_for(world, manifests, owner, zones=zones)
    assert not plan.refused, plan.refused
    assert not plan.count(ChangeState.CONFLICT), str(plan.as_json()["actions"])
    if plan.empty:
        return False
    try:
        with crashing(world, at):
            carry_out(world, plan)
    except (Crash, PendingRollbackError):
        return True
    return False


# Against a real server, which takes its time.
REAL = settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


@REAL
@given(steps=STEPS)
def test_owners_and_crashes_change_nothing_of_another_owner(
    real_on_sqlite: RealWorld, kinds: Kinds, steps: list[Step]
) -> None:
    """Nobody's apply touches the other's; one that is cut off leaves nothing, and the next one ends it."""
    world, last = real_on_sqlite.another(tries=False), dict[str, list[Manifest]]()
    for owner, drawn, at in steps:
        manifests = owned_by(owner, drawn)
        others = [each for each in OWNERS if each != owner]
        before = {each: of(each, world) for each in OWNERS}
        died = apply_or_die(world, owner, manifests, at)

        assert {each: of(each, world) for each in others} == {each: before[each] for each in others}
        if died:
            assert of(owner, world) == before[owner]
        else:
            last[owner] = manifests
            assert plan_for(world, manifests, owner).empty
    for owner, manifests in last.items():
        settle(world, manifests, owner)
        alone = real_on_sqlite.another(tries=False)
        settle(alone, manifests, owner)
        assert of(owner, world) == of(owner, alone)


# --- in one zone

HOST, GUEST = sorted(OWNERS)
THEIRS: Mapping[str, Mapping[str, str | None]] = {HOST: {}, GUEST: {"w": HOST}}


def as_guest(manifests: list[Manifest]) -> list[Manifest]:
    """A configuration as a guest's in the zone `w`: with names of its own, and without what decides there."""
    found = []
    for each in manifests:
        if not each.kind.zoned:
            continue
        spec = dict(each.spec)
        for path, _ in each.kind.references:
            spec = _at(spec, path, _prefixed)
        spec = _at(spec, ("principal", "user"), _prefixed)  # else both may give a role to the same person
        handle = each.kind.handle_of(spec)
        if handle is not None and isinstance(spec.get(handle), str):
            address, scheme, rest = spec[handle].rpartition("://")
            spec[handle] = f"{address}{scheme}two-{rest}"
        if each.kind.sole:
            spec["active"] = False
        lifecycle = dict(each.lifecycle)
        if "previous_names" in lifecycle:
            lifecycle["previous_names"] = [f"two-{name}" for name in lifecycle["previous_names"]]
        found.append(replace(each, name=f"two-{each.name}", spec=spec, lifecycle=lifecycle))
    return found


def _at(spec: dict[str, Any], path: tuple[str, ...], change: Callable[[Any], Any]) -> dict[str, Any]:
    """A spec with another value at a path, if there is one."""
    name, *rest = path
    if name not in spec:
        return spec
    return {**spec, name: _at(spec[name], tuple(rest), change) if rest else change(spec[name])}


def _prefixed(value: Any) -> Any:
    if isinstance(value, list):
        return [_prefixed(each) for each in value]
    return f"two-{value}" if isinstance(value, str) else value


def owned(world: RealWorld) -> dict[str, dict[str, Any]]:
    """What each owner has, and what is like that."""
    found: dict[str, dict[str, Any]] = {owner: {} for owner in OWNERS}
    for place, each in told(world.snapshot(), world.kinds).items():
        if record := each.get("ownership"):
            found[record["owner"]][place] = each
    return found


@REAL
@given(steps=STEPS)
def test_owners_and_crashes_in_one_zone_change_nothing_of_another_owner(
    real_on_sqlite: RealWorld, steps: list[Step]
) -> None:
    """A guest in the zone of another one: neither touches what the other has."""
    world, last = real_on_sqlite.another(tries=False), {HOST: [zone("w")]}
    settle(world, last[HOST], HOST)
    for owner, drawn, at in steps:
        manifests = drawn if owner == HOST else as_guest(drawn)
        if not manifests:
            continue
        (other,) = OWNERS.keys() - {owner}
        before = owned(world)
        died = apply_or_die(world, owner, manifests, at, THEIRS[owner])

        assert owned(world)[other] == before[other]
        if died:
            assert owned(world)[owner] == before[owner]
        else:
            last[owner] = manifests
            assert plan_for(world, manifests, owner, zones=THEIRS[owner]).empty
    alone = real_on_sqlite.another(tries=False)
    for owner, manifests in sorted(last.items()):
        settle(alone, manifests, owner, THEIRS[owner])
        settle(world, manifests, owner, THEIRS[owner])
    assert owned(world) == owned(alone)
