"""Manifest names that are exchanged, rotated or reused: each object keeps its identity."""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.reconciler.factories import AnyWorld, manifest, plan_for, settle, zone
from tests.reconciler.real_server import RealWorld

from reconciler.kinds import Manifest
from reconciler.plan.model import Op

pytestmark = pytest.mark.long

# What tells one from another, where its name does not: `mark` -> spec.
MARKED: dict[str, Any] = {
    "Application": lambda mark: {"name": mark},
    "ApplicationCredential": lambda mark: {
        "application": "agent",
        "type": "public",
        "identifier": f"client-{mark}",
    },
    "Group": lambda mark: {"name": mark, "identifier": f"g-{mark}"},
    "Policy": lambda mark: {
        "cedar": 'permit (principal, action == Action::"exchange", resource) '
        f'when {{ context.scopes == ["{mark}"] }};'
    },
    "Provider": lambda mark: {"name": mark, "identifier": f"https://idp.example/{mark}"},
    "Resource": lambda mark: {"name": mark, "identifier": f"https://api.example/{mark}"},
    "Role": lambda mark: {"identifier": f"role-{mark}"},
    "RoleAssignment": lambda mark: {"role": mark, "principal": {"group": "staff"}},
    "ServiceAccount": lambda mark: {"name": f"account {mark}"},
}
# new name -> name before
RENAMES = {
    "swap": {"a": "b", "b": "a", "c": "c"},
    "rotation": {"a": "b", "b": "c", "c": "a"},
    "chain": {"b": "a", "c": "b", "d": "c"},
    "chain over what goes": {"b": "a", "c": "b"},
}


def around(kind: str) -> list[Manifest]:
    """What manifests of a kind refer to."""
    found = [zone()]
    if kind == "ApplicationCredential":
        found.append(manifest("Application", "agent", name="Agent"))
    if kind == "RoleAssignment":
        found.append(manifest("Group", "staff", name="Staff"))
        found.extend(manifest("Role", mark) for mark in "xyz")
    return found


def named(kind: str, marks: dict[str, str], previous: dict[str, str] | None = None) -> list[Manifest]:
    """Manifests of a kind: name -> mark, and name -> previous name."""
    found = []
    for name, mark in marks.items():
        before = (previous or {}).get(name, name)
        lifecycle = {"previous_names": [before]} if before != name else {}
        found.append(manifest(kind, name, lifecycle=lifecycle, **MARKED[kind](mark)))
    return [*around(kind), *found]


def ids(world: AnyWorld, kind: str) -> dict[str, str]:
    """Name in git -> id."""
    entities = [each for each in world.snapshot().entities if each.kind == kind and each.ownership]
    return {
        each.ownership.name: each.id for each in entities if each.ownership and len(each.ownership.name) == 1
    }


BEFORE = {"a": "x", "b": "y", "c": "z"}


@pytest.mark.parametrize("how", RENAMES)
@pytest.mark.parametrize("kind", MARKED)
def test_what_is_renamed_stays_what_it_is(any_world: AnyWorld, kind: str, how: str) -> None:
    """Each entity follows what git says it was called; nothing is made, and only what git dropped goes."""
    settle(any_world, named(kind, BEFORE))
    before, was = ids(any_world, kind), RENAMES[how]
    wanted = named(kind, {new: BEFORE[old] for new, old in was.items()}, was)
    plan = settle(any_world, wanted)

    assert ids(any_world, kind) == {new: before[old] for new, old in was.items()}
    assert {action.op for action in plan.actions if action.kind == kind} <= {Op.RENAME, Op.DELETE}
    assert [action.previous_name for action in plan.actions if action.op is Op.RENAME] == [
        old for new, old in sorted(was.items()) if new != old
    ]
    assert plan_for(any_world, wanted).empty


@pytest.mark.parametrize("kind", MARKED)
def test_what_git_has_been_called_once_decides_nothing_any_more(any_world: AnyWorld, kind: str) -> None:
    """`previous_names` may stay in manifests: another that gets the name later is not taken for this one."""
    previous = {"b": "a"}
    settle(any_world, named(kind, {"a": "x"}))
    settle(any_world, named(kind, {"b": "x"}, previous))
    settle(any_world, named(kind, {"a": "y", "b": "x"}, previous))
    before = ids(any_world, kind)
    assert before.keys() == {"a", "b"}
    settle(any_world, named(kind, {"b": "x"}, previous))

    assert ids(any_world, kind) == {"b": before["b"]}


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(
    before=st.permutations("abcd"),
    steps=st.lists(st.permutations("abcde"), min_size=1, max_size=3),
    kind=st.sampled_from(sorted(MARKED)),
)
def test_ids_follow_any_renames(
    real_on_sqlite: RealWorld, before: list[str], steps: list[list[str]], kind: str
) -> None:
    """Whatever names are given to what others were called, again and again: the ids go along."""
    world = real_on_sqlite.another(tries=False)
    marks = dict(zip(before, "xyz", strict=False))
    settle(world, named(kind, marks))
    known = {mark: ids(world, kind)[name] for name, mark in marks.items()}
    for step in steps:
        renamed = dict(zip(step, "xyz", strict=False))
        was = {
            name: next(old for old, each in marks.items() if each == mark) for name, mark in renamed.items()
        }
        settle(world, named(kind, renamed, was))
        marks = renamed

        assert {mark: ids(world, kind)[name] for name, mark in marks.items()} == known
        assert plan_for(world, named(kind, renamed, was)).empty
