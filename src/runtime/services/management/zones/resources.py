"""Resources: unambiguous identifiers, and list filters by the providing application."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runtime.domain.errors import ValidationFailed
from runtime.domain.kinds import APPLICATION, RESOURCE, Entity, Kind, Verb
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.resources import canonical
from runtime.services.management import entities
from runtime.services.management.entities import Parents
from runtime.services.management.listing import Listed, ListQuery
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.services.management.zones import application_types, resource_conflicts
from runtime.storage.sql import applications as storage


async def list_(unit: UnitOfWork, kind: Kind, parents: Parents, query: ListQuery) -> Listed:
    """One page of resources; `filter[traits]` looks at the application that provides them."""
    scope = await entities.scope_of(unit, RESOURCE, parents)
    entities.require(unit, RESOURCE, Verb.LIST, scope)
    more = []
    if traits := query.special.get("filter[traits]"):
        alternatives = [tuple(value.split(",")) for value in traits]
        more.append(storage.provided_by_application_with(scope["zone_id"], alternatives))
    return await entities.page(unit, RESOURCE, scope, query, *more)


async def list_of_application(
    unit: UnitOfWork, parents: Parents, application_id: str, query: ListQuery
) -> Listed:
    """One page of the resources that an application provides."""
    await entities.retrieve(unit, APPLICATION, parents, application_id)
    provided = {**query.filters, "application_id": (application_id,)}
    return await entities.list_(unit, RESOURCE, parents, replace(query, filters=provided))


async def create(unit: UnitOfWork, kind: Kind, parents: Parents, body: Mapping[str, Any]) -> Entity:
    """Make a resource whose identifier a token request can name."""
    scope = await entities.scope_of(unit, RESOURCE, parents)
    entities.require(unit, RESOURCE, Verb.CREATE, scope)
    made = await entities.new_entity(unit, RESOURCE, scope, body)
    _check(unit, None, made)
    return await entities.add(unit, RESOURCE, made)


async def update(
    unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, patch: Mapping[str, Any]
) -> Entity:
    """Change a resource, with the same check."""
    scope, before = await entities.for_change(unit, RESOURCE, parents, entity_id, Verb.UPDATE)
    after = await entities.patched(unit, RESOURCE, scope, before, patch)
    _check(unit, before, after)
    return await entities.change(unit, RESOURCE, scope, before, after)


def _check(unit: UnitOfWork, before: Resource | None, after: Resource) -> None:
    """Check a resource as it is going to be; beside which others it stands is asked when the unit ends.

    Raises: ValidationFailed for an identifier that no request could name or start with.
    """
    looks_like_url = "://" in after.identifier
    if looks_like_url and canonical(after.identifier) is None:
        raise ValidationFailed.of(
            "identifier", "must have no fragment, user information, backslash or dot segment"
        )
    if after.prefix and not looks_like_url:
        raise ValidationFailed.of("prefix", "needs an identifier that is a URL with a host")
    resource_conflicts.check_when_finished(unit, before, after)
    application_types.check_resource_when_finished(unit, before, after)
