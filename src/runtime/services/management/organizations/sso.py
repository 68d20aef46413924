"""An organization's SSO connection: enabled, changed and disabled with the zone that its people sign in to.

Accounts are bound to issuer and subject. So a connection with another identifier begins anew: whoever it
signs in is nobody who was there before, whatever address it vouches for.
"""

from collections.abc import Mapping
from typing import Any, cast

from runtime.contract.bodies import apply_patch
from runtime.domain.errors import Conflict, NotFound
from runtime.domain.kinds import ORGANIZATION, PROVIDER, ZONE, Verb
from runtime.domain.kinds.organization import Organization
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.sso_connection import SSO_CONNECTION, SSOConnection, connection_of, provider_of
from runtime.domain.kinds.values import OwnerType
from runtime.domain.kinds.zone import Zone
from runtime.services.management import entities
from runtime.services.management.access import permissions
from runtime.services.management.entities import Parents
from runtime.services.management.members import organization_users
from runtime.services.management.unit_of_work import UnitOfWork, audit_values
from runtime.services.management.zones.providers import (
    end_what_rested_on,
    end_what_was_issued,
    require_scopes,
)
from runtime.storage.sql import directory
from runtime.storage.sql import entities as storage

_NAME = "Single sign-on"


async def enable(unit: UnitOfWork, parents: Parents, body: Mapping[str, Any]) -> SSOConnection:
    """Have the organization's people sign in at a provider. Raises Conflict when they do."""
    await _admit(unit, parents, Verb.CREATE)
    await unit.next_revision()
    organization = await _organization(unit)
    if organization.sso_enabled:
        raise Conflict("single sign-on is enabled already: update the connection, or disable it first")
    zone = await organization_users.home_zone(unit)
    provider = await entities.new_entity(
        unit,
        PROVIDER,
        {"zone_id": zone.id},
        {**provider_of(body), "name": _NAME},
        owner_type=OwnerType.PLATFORM,
    )
    require_scopes(None, provider)
    await storage.insert(unit.conn, PROVIDER, provider)
    await _switch(unit, organization, zone, provider.id)
    after = connection_of(provider)
    await _record(unit, "enable", zone, None, after)
    return after


async def retrieve(unit: UnitOfWork, parents: Parents) -> SSOConnection:
    """The connection. Raises NotFound when there is none."""
    await _admit(unit, parents, Verb.RETRIEVE)
    return connection_of((await _present(unit))[1])


async def update(unit: UnitOfWork, parents: Parents, patch: Mapping[str, Any]) -> SSOConnection:
    """Change the connection. Raises NotFound, ValidationFailed, Conflict."""
    await _admit(unit, parents, Verb.UPDATE)
    await unit.next_revision()
    zone, provider = await _present(unit)
    before = connection_of(provider)
    after = apply_patch(SSO_CONNECTION, before, entities.without_secrets(PROVIDER, patch))
    if after == before:
        return before
    moved = Provider.model_validate({**provider.model_dump(), **provider_of(after.model_dump())})
    moved = await entities.with_secrets(unit, PROVIDER, moved, patch)
    require_scopes(provider, moved)
    await end_what_was_issued(unit, provider, moved)
    moved = await entities.store(unit, PROVIDER, {"zone_id": zone.id}, provider, moved)
    await end_what_rested_on(unit, provider, moved)
    after = connection_of(moved)
    await _record(unit, "update", zone, before, after)
    return after


async def disable(unit: UnitOfWork, parents: Parents) -> None:
    """End sign-in through the provider and what was begun by it; people sign in with passwords again."""
    await _admit(unit, parents, Verb.DELETE)
    await unit.next_revision()
    zone, provider = await _present(unit)
    await end_what_was_issued(unit, provider, None)
    await directory.detach_provider(unit.conn, zone_id=zone.id, provider_id=provider.id)
    await end_what_rested_on(unit, provider, None)
    await _switch(unit, await _organization(unit), zone, None)
    await unit.tombstones.add(
        await storage.remove(unit.conn, PROVIDER, provider.id, within={"zone_id": zone.id})
    )
    await _record(unit, "disable", zone, connection_of(provider), None)


async def _admit(unit: UnitOfWork, parents: Parents, verb: Verb) -> None:
    await entities.organization_of(unit, parents["organization_id"])
    permissions.require(unit.caller.role, SSO_CONNECTION.operations, verb)


async def _organization(unit: UnitOfWork) -> Organization:
    return await entities.organization_of(unit, unit.organization_id)


async def _present(unit: UnitOfWork) -> tuple[Zone, Provider]:
    """The organization's home zone, and the provider that its people sign in at. Raises NotFound."""
    zone = await organization_users.home_zone(unit)
    if zone.user_identity_provider_id is None:
        raise NotFound("single sign-on is not enabled for this organization")
    found = await storage.get(
        unit.conn, PROVIDER, zone.user_identity_provider_id, within={"zone_id": zone.id}
    )
    return zone, found


async def _switch(unit: UnitOfWork, organization: Organization, zone: Zone, provider_id: str | None) -> None:
    """Say where the organization's people sign in: at that provider, or with passwords when it is None."""
    changed = zone.model_copy(update={"user_identity_provider_id": provider_id})
    scope = {"organization_id": organization.id}
    unit.cache.zones[zone.id] = await entities.change(unit, ZONE, scope, zone, changed)
    enabled = organization.model_copy(update={"sso_enabled": provider_id is not None})
    await entities.change(unit, ORGANIZATION, {}, organization, enabled)


async def _record(
    unit: UnitOfWork, action: str, zone: Zone, before: SSOConnection | None, after: SSOConnection | None
) -> None:
    one = cast(SSOConnection, after or before)
    await unit.record(
        f"sso_connection.{action}",
        SSO_CONNECTION.name,
        one.id,
        zone.id,
        before=audit_values(SSO_CONNECTION, before) if before else None,
        after=audit_values(SSO_CONNECTION, after) if after else None,
    )
