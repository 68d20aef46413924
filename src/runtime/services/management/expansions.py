"""Expansions of an answer: embedded entities, and with `expand=user` the people who changed it."""

from collections.abc import Sequence
from functools import cache
from typing import Any, cast

from pydantic import BaseModel

from runtime.domain.kinds import APPLICATION, BY_NAME, ORGANIZATION_USER, Entity, Kind, Verb
from runtime.domain.kinds.base import ZoneEntity
from runtime.domain.kinds.marks import members, part_of
from runtime.services.management.access import permissions
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.services.management.zones import applications
from runtime.storage.sql import entities as storage
from runtime.storage.sql import organization_users

_BY_USER = "_user"  # `created_by_user` tells who `created_by` names


async def embedded(unit: UnitOfWork, entity: Entity) -> Entity:
    """The entity with those whose ids it holds, where the caller may read such entities.

    Only a retrieve shows them: in a list of a hundred they cost as much again as the list.
    """
    told: dict[str, Entity] = {}
    for name, by, kind in _embeds(type(entity)):
        id_: str | None = getattr(entity, by)
        if id_ is not None and permissions.allows(unit.caller.role, kind.operations, Verb.RETRIEVE):
            told |= await _one(unit, name, kind, id_, zone_id=cast(ZoneEntity, entity).zone_id)
    return entity.model_copy(update=told) if told else entity


async def _one(unit: UnitOfWork, name: str, kind: Kind, id_: str, *, zone_id: str) -> dict[str, Entity]:
    found = await storage.find_by(unit.conn, kind, "id", id_, within={"zone_id": zone_id})
    if found is not None and kind is APPLICATION:
        (found,) = await applications.counted(unit, zone_id, [found])
    return {} if found is None else {name: found}


async def with_people(unit: UnitOfWork, found: Sequence[BaseModel], expands: frozenset[str]) -> list[Any]:
    """The entities with who made their changes, when that is asked: one query, however many there are.

    Keys and service accounts are nobody; nor is anybody told of people who may not see the organization's.
    """
    if "user" not in expands:
        return list(found)
    if not permissions.allows(unit.caller.role, ORGANIZATION_USER.operations, Verb.RETRIEVE):
        return [
            one.model_copy(update=dict.fromkeys((name for name, _ in _actors(type(one))))) for one in found
        ]
    ids = {getattr(one, by) for one in found for _, by in _actors(type(one))} - {None}
    people = await organization_users.actors(unit.conn, unit.organization_id, ids) if ids else {}
    return [
        one.model_copy(update={name: people.get(getattr(one, by)) for name, by in _actors(type(one))})
        for one in found
    ]


@cache
def _embeds(model: type[BaseModel]) -> tuple[tuple[str, str, Kind], ...]:
    """Member, the member with the id, and the kind of what is embedded."""
    return tuple(
        (name, member.embed.by, BY_NAME[inside.__name__])
        for name, member in members(model).items()
        if member.embed and (inside := part_of(member.annotation))
    )


@cache
def _actors(model: type[BaseModel]) -> tuple[tuple[str, str], ...]:
    """The members that tell of a person, each with the one that holds their id."""
    return tuple(
        (name, name.removesuffix(_BY_USER))
        for name, member in members(model).items()
        if member.expand and member.expand.value == "user"
    )
