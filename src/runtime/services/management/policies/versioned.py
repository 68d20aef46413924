"""Shared by policies and policy sets: ETags, archiving, and the zone or user they apply to."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from runtime.domain.errors import Conflict, PreconditionFailed
from runtime.domain.kinds import Entity, Kind, Verb
from runtime.domain.kinds.policy import Policy, PolicySet
from runtime.domain.kinds.values import PolicyTargetType
from runtime.services.management import entities
from runtime.services.management.entities import Parents
from runtime.services.management.listing import ListQuery
from runtime.services.management.unit_of_work import UnitOfWork

Versioned = TypeVar("Versioned", Policy, PolicySet)


def etag(entity: Entity) -> str:
    """The entity tag of a policy or a policy set."""
    return f'"{entity.revision}"'


def require_match(entity: Entity, if_match: str | None) -> None:
    """Raise PreconditionFailed when the caller changes another state than it has seen."""
    if if_match is None or if_match.strip() == "*":
        return
    given = {tag.strip().removeprefix("W/") for tag in if_match.split(",")}
    if etag(entity) not in given:
        raise PreconditionFailed(f"it has changed since: the present ETag is {etag(entity)}")


def for_targets(query: ListQuery) -> ListQuery:
    """The query, limited to what is for zones unless it says otherwise or asks for ids."""
    if "target_type" in query.filters or "id" in query.filters:
        return query
    return replace(query, filters={**query.filters, "target_type": (PolicyTargetType.ZONE.value,)})


def require_not_archived(entity: Policy | PolicySet) -> None:
    """Raise Conflict for what is archived: it does not change any more."""
    if entity.archived_at is not None:
        raise Conflict(f"{type(entity).__name__} `{entity.id}` is archived")


async def change(
    unit: UnitOfWork,
    kind: Kind[Versioned],
    parents: Parents,
    entity_id: str,
    patch: Mapping[str, Any],
    if_match: str | None,
) -> Versioned:
    """Change what is not archived, with the name of whoever did. Raises PreconditionFailed, Conflict."""
    scope, before = await entities.for_change(unit, kind, parents, entity_id, Verb.UPDATE)
    require_match(before, if_match)
    require_not_archived(before)
    after = await entities.patched(unit, kind, scope, before, patch)
    if after == before:
        return before
    after = after.model_copy(update={"updated_by": unit.caller.id})
    return await entities.change(unit, kind, scope, before, after)
