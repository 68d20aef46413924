"""Plans about password credentials that share a client id: adopted, compared and removed one by one."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.reconciler.factories import OWNER, manifest
from tests.reconciler.plan.values import ZONE_ID, a_zone, entity, record, snapshot

from reconciler.kinds import Entity, Manifest
from reconciler.kinds.values import Key
from reconciler.plan.matching import Match, Matcher
from reconciler.plan.member_values import same_value

END = "2100-01-01T00:00:00Z"
APPLICATION = entity("Application", "app1", {"identifier": "worker"}, owned=record("worker"))


def found(entity_id: str, **members: Any) -> Entity:
    """A password credential on the server that nobody manages."""
    spec = {"application_id": "app1", "type": "password", "identifier": "worker", **members}
    return entity("ApplicationCredential", entity_id, spec)


def wanted(name: str, **members: Any) -> Manifest:
    spec = {"application": "worker", "type": "password", "identifier": "worker", **members}
    return manifest("ApplicationCredential", name, **spec)


def matches(manifests: list[Manifest], *entities: Entity) -> dict[str, Match]:
    """What each credential's manifest is matched with, by name."""
    zone = manifest("Zone", "workforce")
    all_of = [zone, manifest("Application", "worker", name="Worker", identifier="worker"), *manifests]
    made = Matcher(all_of, snapshot(a_zone(zone_id=ZONE_ID), APPLICATION, *entities), OWNER).matches
    return {each.name: made[Key(each.zone, each.kind.name, each.name)] for each in manifests}


def ids(made: dict[str, Match]) -> dict[str, str | None]:
    return {name: each.found.id if each.found is not None else None for name, each in made.items()}


@pytest.mark.parametrize("order", [list, reversed])
def test_each_manifest_adopts_the_credential_that_expires_as_it_says(
    order: Callable[[Any], Any],
) -> None:
    """Else the secret in use would be given the end of the other one."""
    entities = order([found("plain"), found("ending", expires_at=END)])

    assert ids(matches([wanted("new"), wanted("old", expires_at=END)], *entities)) == {
        "new": "plain",
        "old": "ending",
    }


def test_of_two_that_fit_alike_none_is_adopted() -> None:
    """Which of them is to expire, the manifest does not say: the server refuses a third one with both ids."""
    made = matches([wanted("old", expires_at=END)], found("one"), found("two"))

    assert ids(made) == {"old": None}


def test_the_only_one_is_adopted_and_changed() -> None:
    """As for every other kind."""
    assert ids(matches([wanted("old", expires_at=END)], found("one"))) == {"old": "one"}


def test_a_second_manifest_adopts_nothing_that_the_first_one_has() -> None:
    """It is a new credential with the same client id."""
    assert ids(matches([wanted("one"), wanted("two")], found("first"))) == {"one": "first", "two": None}


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("2100-01-01T00:00:00.000Z", True),
        ("2100-01-01t00:00:00z", True),
        ("2100-01-01T01:00:00+01:00", True),
        ("2100-01-01T00:00:01Z", False),
        ("2100-01-01T00:00:00+01:00", False),
        (None, False),
    ],
)
def test_an_instant_may_be_spelled_otherwise(other: str | None, same: bool) -> None:
    """The server answers in UTC whatever offset git has."""
    shape = wanted("any").kind.leaf("expires_at")

    assert same_value(shape, END, other) is same
