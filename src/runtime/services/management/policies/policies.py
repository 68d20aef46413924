"""Policies: archived, never deleted; a policy's text is that of its latest version."""

from collections.abc import Mapping
from typing import Any

from runtime.domain.errors import Conflict
from runtime.domain.kinds import POLICY, Entity, Kind, Verb
from runtime.services.management import entities
from runtime.services.management.entities import Parents
from runtime.services.management.listing import Listed, ListQuery
from runtime.services.management.policies.versioned import change, for_targets, require_match
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import bindings


async def list_(unit: UnitOfWork, kind: Kind, parents: Parents, query: ListQuery) -> Listed:
    """One page of policies, archived ones included."""
    return await entities.list_(unit, POLICY, parents, for_targets(query))


async def retrieve(
    unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, expands: frozenset[str] = frozenset()
) -> Entity:
    """The policy with that id."""
    return await entities.retrieve(unit, POLICY, parents, entity_id)


async def create(unit: UnitOfWork, kind: Kind, parents: Parents, body: Mapping[str, Any]) -> Entity:
    """Make a policy that has no text yet."""
    scope = await entities.scope_of(unit, POLICY, parents)
    entities.require(unit, POLICY, Verb.CREATE, scope)
    made = await entities.new_entity(unit, POLICY, scope, body, created_by=unit.caller.id)
    return await entities.add(unit, POLICY, made)


async def update(
    unit: UnitOfWork,
    kind: Kind,
    parents: Parents,
    entity_id: str,
    patch: Mapping[str, Any],
    *,
    if_match: str | None = None,
) -> Entity:
    """Change a policy's name or description. Raises PreconditionFailed, Conflict for an archived one."""
    return await change(unit, POLICY, parents, entity_id, patch, if_match)


async def archive(
    unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, *, if_match: str | None = None
) -> Entity:
    """Archive a policy, which frees its name. Raises Conflict while one of its versions is at work."""
    scope, before = await entities.for_change(unit, POLICY, parents, entity_id, Verb.ARCHIVE)
    require_match(before, if_match)
    if before.archived_at is not None:
        return before
    await unit.next_revision()
    if before.id in {
        policy_id for policy_id, _ in await bindings.bound_entries(unit.conn, zone_id=scope["zone_id"])
    }:
        raise Conflict("a version of this policy is part of a policy set that is bound")
    after = before.model_copy(update={"archived_at": unit.now, "updated_by": unit.caller.id})
    return await entities.store_archived(unit, POLICY, scope, before, after)
