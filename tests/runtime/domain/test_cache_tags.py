"""What each change of each kind evicts from the caches of a zone: every kind has its row."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from runtime.domain import cache_tags
from runtime.domain.cache_tags import EVERYTHING, NOTHING, PEOPLE, RESOURCES
from runtime.domain.kinds import ALL, BY_NAME, Entity, Kind

ID = "0" * 26
OTHER = "1" * 26
ALL_OF_IT = "everything"
NEVER = "no such change"  # not a management write of a zone, or not possible: everything, to be sure

# Kind -> what it evicts when one is made, changed in what decisions read, and deleted.
EXPECTED: Mapping[str, tuple[object, object, object]] = {
    "Organization": (NEVER, NEVER, NEVER),
    "OrganizationUser": (NEVER, NEVER, NEVER),
    "Invitation": (NEVER, NEVER, NEVER),
    "ServiceAccount": (NEVER, NEVER, NEVER),
    "ServiceAccountCredential": (NEVER, NEVER, NEVER),
    "ApiKey": (NEVER, NEVER, NEVER),
    "Zone": (ALL_OF_IT, ALL_OF_IT, ALL_OF_IT),
    "Provider": ({ID}, ALL_OF_IT, ALL_OF_IT),
    "Group": ({ID}, {ID}, {ID, PEOPLE}),
    "Application": ({ID, "named"}, {ID}, {ID, "named", f"resources of {ID}"}),
    "Resource": (
        {ID, "named", RESOURCES, f"resources of {OTHER}"},
        {ID, f"resources of {OTHER}"},
        {ID, "named", RESOURCES, f"resources of {OTHER}"},
    ),
    "ApplicationCredential": ({ID, "named"}, {ID, "named"}, {ID, "named"}),
    "User": ({ID}, {ID}, {ID, PEOPLE}),
    "Role": (set(), set(), set()),
    "RoleAssignment": ({OTHER}, NEVER, {OTHER}),
    "Policy": (set(), set(), ALL_OF_IT),
    "PolicyVersion": (set(), set(), ALL_OF_IT),
    "PolicySet": (set(), set(), ALL_OF_IT),
    "PolicySetVersion": (set(), set(), ALL_OF_IT),
    "UserAgent": (ALL_OF_IT, ALL_OF_IT, ALL_OF_IT),
    "Session": (NEVER, NEVER, NEVER),
    "DelegatedGrant": (ALL_OF_IT, ALL_OF_IT, ALL_OF_IT),
    "Secret": ({OTHER}, {OTHER}, {OTHER}),
}
# What a change of this member alone evicts; of an update of any other member, the table above tells.
REACHING: Mapping[tuple[str, str], object] = {
    ("Application", "identifier"): {ID, "named", "another"},
    ("Application", "description"): {f"{ID} shown"},
    ("Application", "metadata"): {f"{ID} shown"},
    ("ApplicationCredential", "identifier"): {ID, "named", "another"},
    ("Provider", "description"): {f"{ID} shown"},
    ("Resource", "identifier"): {ID, "named", "another", RESOURCES, f"resources of {OTHER}"},
    ("Resource", "prefix"): {ID, "named", RESOURCES, f"resources of {OTHER}"},
    ("Resource", "description"): {f"{ID} shown", f"resources of {OTHER}"},
    ("Resource", "metadata"): {f"{ID} shown", f"resources of {OTHER}"},
    ("Resource", "application_id"): {ID, f"resources of {OTHER}", "resources of another"},
    ("RoleAssignment", "principal_id"): NEVER,
    ("User", "status"): {ID, PEOPLE},
    ("Secret", "entity_id"): {OTHER, "another"},
}
RECORDS: Mapping[str, object] = {
    "application_dependencies.add": {ID},
    "application_dependencies.remove": {ID},
    "applications.end": {ID},
    "delegated_grants.delete": ALL_OF_IT,
    "delegated_grants.revoke": ALL_OF_IT,
    "group_members.add": {PEOPLE, OTHER},
    "group_members.remove": {PEOPLE, OTHER},
    "group_members.set": ALL_OF_IT,  # but for the tags that the caller gives
    "keys.forget": ALL_OF_IT,
    "keys.rotate": ALL_OF_IT,
    "ownership.adopt": set(),
    "ownership.delivered": set(),
    "ownership.release": set(),
    "ownership.rename": set(),
    "policy_set_versions.activate": ALL_OF_IT,
    "policy_set_versions.attest": set(),
    "policy_sets.unbind": ALL_OF_IT,
    "sessions.delete": {ID},
    "sessions.revoke": {ID},
    "user_agents.change": {ID},
    "zones.end_move": ALL_OF_IT,
    "zones.equip": ALL_OF_IT,
    "zones.set_switch": ALL_OF_IT,
    "zones.use_algorithm": ALL_OF_IT,
    "of a kind that comes one day": ALL_OF_IT,
}
_VALUES: Mapping[str, str] = {
    "id": ID,
    "identifier": "named",
    "application_id": OTHER,
    "principal_id": OTHER,
    "entity_id": OTHER,
    "status": "active",
}


def entity(kind: Kind, **changed: object) -> Entity:
    """One of that kind, of which only what the rules look at is filled in."""
    model = kind.classes[0]
    known: dict[str, Any] = {name: value for name, value in _VALUES.items() if name in model.model_fields}
    made = model.model_construct(**known)
    return made.model_copy(update=changed)


def as_set(tags: frozenset[str] | None) -> object:
    return ALL_OF_IT if tags is EVERYTHING else set(tags)


def named(expected: object) -> object:
    return ALL_OF_IT if expected is NEVER else expected


def test_every_kind_has_a_row() -> None:
    """Whoever adds a kind has to say here what its changes evict; until then that is everything."""
    assert EXPECTED.keys() == {kind.name for kind in ALL}


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_what_is_made_changed_or_deleted(kind: Kind) -> None:
    made, changed, deleted = map(named, EXPECTED[kind.name])
    before, after = entity(kind), entity(kind, name="another name")

    assert as_set(cache_tags.of_write(kind.name, None, after)) == made
    assert as_set(cache_tags.of_write(kind.name, before, after)) == changed
    assert as_set(cache_tags.of_write(kind.name, before, None)) == deleted


def members() -> Iterator[tuple[str, str]]:
    """Every member of every kind that an update may change."""
    for kind in ALL:
        for name in sorted(kind.classes[0].model_fields.keys() - {"id", "updated_at", "revision"}):
            yield kind.name, name


@pytest.mark.parametrize(("kind", "member"), list(members()))
def test_a_change_of_one_member(kind: str, member: str) -> None:
    """A member that nobody has listed is one that decisions read."""
    of = BY_NAME[kind]
    expected = named(REACHING.get((kind, member), EXPECTED[kind][1]))

    found = cache_tags.of_write(kind, entity(of, **{member: None}), entity(of, **{member: "another"}))
    if member not in _VALUES or expected == ALL_OF_IT:
        assert as_set(found) == expected
    else:
        changed = cache_tags.of_write(kind, entity(of), entity(of, **{member: "another"}))
        assert as_set(changed) == expected


def test_shown_members_beside_others_count_as_these() -> None:
    application = BY_NAME["Application"]
    after = entity(application, description="new", consent="implicit")

    assert cache_tags.of_write("Application", entity(application), after) == {ID}


@pytest.mark.parametrize("action", RECORDS)
def test_records_of_what_is_no_entity(action: str) -> None:
    assert as_set(cache_tags.of_record(action, ID, {"user_id": OTHER})) == RECORDS[action]


def test_every_action_that_has_a_rule_is_in_the_table() -> None:
    assert {action for action, expected in RECORDS.items() if expected != ALL_OF_IT} == set(
        cache_tags._RECORDS
    )
    assert {kind for kind, _ in cache_tags._WRITES} <= EXPECTED.keys()


def test_every_action_that_is_recorded_is_in_the_table() -> None:
    """By the literal names in the calls; those that are put together have their parts listed above."""
    source = Path(cache_tags.__file__).parents[1] / "services"
    recorded = {
        argument.value
        for path in source.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "record"
        for argument in call.args[:1]
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }
    assert {"sessions.revoke", "keys.rotate"} <= recorded
    assert recorded <= RECORDS.keys()


def test_what_people_are_shown_decides_nothing() -> None:
    assert cache_tags.decisive({ID, cache_tags.shown(ID), "other"}) == {ID, "other"}
    assert cache_tags.decisive(NOTHING) == NOTHING
