"""Entities that active policies name, that do not exist in the zone and are not listed in `absent_names`.

A policy is held against its zone when a changeset writes it. Afterwards somebody can rename or delete what it
names through the management API; its text stays as it was, and the rule matches nobody any more.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from runtime.adapters.cedar_tokenizer import NamedEntity
from runtime.domain.kinds import Kind
from runtime.services.management.policies import entity_references
from runtime.services.management.policies.entity_references import Name
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.services.time_slices import TimeSlice
from runtime.storage.sql import bindings, changes

MissingNames = Mapping[str, list[dict[str, Any]]]
"""Zone -> the names that it lacks, each with the policy and its place in the text that is in force."""


async def missing_names(unit: UnitOfWork, zone_ids: Collection[str], seen: Collection[Kind]) -> MissingNames:
    """The names that these zones lack: as many questions for one zone as for many.

    Args:
        seen: the kinds that the caller may list. Of a type with other kinds, nothing is told.
    """
    active = await bindings.active_policy_sets(unit.conn, zone_ids)
    texts = await bindings.texts_of(unit.conn, active)
    types = {type_ for type_, kinds in entity_references.KINDS.items() if all(each in seen for each in kinds)}
    places: dict[tuple[str, Name], list[dict[str, Any]]] = defaultdict(list)
    time_slice = TimeSlice()
    for each in active:
        for _, version_id in each.entries:
            if (text := texts.get(version_id)) is None:
                continue
            absent = entity_references.said_absent(text)
            await time_slice.yield_if_due()  # a text takes a while to read, and a reader may ask for many
            for one in _named(text.cedar or ""):
                if one.type in types and (name := (one.type, one.id)) not in absent:
                    places[each.zone_id, name].append(_place(text, one))
    there = await _existing(unit, places.keys())
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for (zone_id, name), told in places.items():
        if (zone_id, name) not in there:
            found[zone_id] += told
    return found


@lru_cache(maxsize=256)
def _named(text: str) -> tuple[NamedEntity, ...]:
    """What a text names, each name where it stands first."""
    found: dict[Name, NamedEntity] = {}
    for each in entity_references.zone_entities_named(text):
        found.setdefault((each.type, each.id), each)
    return tuple(found.values())


def _place(text: bindings.ActivePolicyText, one: NamedEntity) -> dict[str, Any]:
    at = {"line": one.line, "column": one.column}
    return {"policy_id": text.policy_id, "policy": text.name, "type": one.type, "id": one.id, **at}


async def _existing(unit: UnitOfWork, wanted: Collection[tuple[str, Name]]) -> set[tuple[str, Name]]:
    """Those that something in their zones has."""
    ids: dict[str, set[str]] = defaultdict(set)
    zone_ids: dict[str, set[str]] = defaultdict(set)
    for zone_id, (type_, id_) in wanted:
        if "\0" not in id_:  # nothing is called so, and PostgreSQL takes no question about it
            ids[type_].add(id_)
            zone_ids[type_].add(zone_id)
    found: set[tuple[str, Name]] = set()
    for type_, names in ids.items():
        for kind in entity_references.KINDS[type_]:
            pairs = await changes.handles_in_zones(unit.conn, kind, names, zone_ids[type_])
            found |= {(zone_id, (type_, handle)) for zone_id, handle in pairs}
    return found
