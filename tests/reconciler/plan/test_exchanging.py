"""Handles that move between objects in one changeset: exchanged, rotated, reused after a deletion."""

from typing import Any

import pytest
from tests.reconciler.factories import AnyWorld, manifest, plan_for, settle, zone
from tests.reconciler.fake_server import Refused
from tests.reconciler.real_server import RealWorld

from reconciler.kinds import Manifest

pytestmark = pytest.mark.long

# How a manifest of each kind says what it is called.
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Application": ("identifier", "", {"name": "An application"}),
    "Group": ("identifier", "", {"name": "A group"}),
    "Policy": ("name", "", {"cedar": "permit (principal, action, resource);\n"}),
    "PolicySet": ("name", "", {"policies": [], "active": False}),
    "Provider": ("identifier", "https://idp.example/", {"name": "A provider"}),
    "Resource": ("identifier", "https://api.example/", {"name": "A resource"}),
    "ServiceAccount": ("name", "", {}),
}
EXCHANGES = {
    "swap": {"a": "y", "b": "x", "c": "z"},
    "rotation": {"a": "y", "b": "z", "c": "x"},
    "the other rotation": {"a": "z", "b": "x", "c": "y"},
    "chain": {"a": "y", "b": "z", "c": "new"},
    "the other chain": {"a": "new", "b": "x", "c": "y"},
    "chain to what goes": {"a": "y", "b": "z"},
    "to a new one": {"a": "new", "b": "y", "c": "z", "d": "x"},
    "to a new one and from what goes": {"a": "z", "b": "y", "d": "x"},
}


def called(kind: str, handles: dict[str, str]) -> list[Manifest]:
    """A zone and entities of a kind: manifest name -> handle."""
    member, prefix, spec = KINDS[kind]
    return [
        zone(),
        *(manifest(kind, name, **spec, **{member: prefix + handle}) for name, handle in handles.items()),
    ]


def found(world: AnyWorld, kind: str) -> dict[str, tuple[str, str]]:
    """Manifest name -> id and handle."""
    _, prefix, _ = KINDS[kind]
    return {
        entity.ownership.name: (entity.id, str(entity.handle).removeprefix(prefix))
        for entity in world.snapshot().entities
        if entity.kind == kind and entity.ownership is not None
    }


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_handles_go_from_one_to_another(any_world: AnyWorld, kind: str, exchange: str) -> None:
    """Each entity stays what it is, under the handle that git says, whatever the order; nothing is left."""
    settle(any_world, called(kind, {"a": "x", "b": "y", "c": "z"}))
    before = found(any_world, kind)
    after = EXCHANGES[exchange]
    settle(any_world, called(kind, after))

    now = found(any_world, kind)
    assert {name: handle for name, (_, handle) in now.items()} == after
    assert {name: now[name][0] for name in now if name in before} == {
        name: before[name][0] for name in before if name in now
    }
    assert plan_for(any_world, called(kind, after)).empty


@pytest.mark.parametrize("kind", KINDS)
def test_a_handle_of_somebody_who_keeps_it_is_taken(any_world: AnyWorld, kind: str) -> None:
    """Unique when the changeset ends: what stays where it is makes no way."""
    settle(any_world, called(kind, {"a": "x", "b": "y"}))
    with pytest.raises(Refused) as refused:
        settle(any_world, called(kind, {"a": "y", "b": "y"}))

    assert refused.value.status == 409
    assert found(any_world, kind).keys() == {"a", "b"}
    settle(any_world, called(kind, {"a": "y", "b": "x"}))


def test_the_audit_trail_tells_the_handles_that_they_had(real: RealWorld) -> None:
    """While one makes way for the other, no record, and nobody afterwards, hears of anything in between."""
    settle(real, called("Application", {"a": "x", "b": "y"}))
    ids = {entity_id: name for name, (entity_id, _) in found(real, "Application").items()}
    settle(real, called("Application", {"a": "y", "b": "x"}))

    told = {
        (ids[record["entity_id"]], record["before"]["identifier"], record["after"]["identifier"])
        for record in real.rows("audit_events")
        if record["action"] == "applications.update"
    }
    assert told == {("a", "x", "y"), ("b", "y", "x")}
