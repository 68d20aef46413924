"""Zones: created with their default entities, deleted with everything in them."""

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from runtime.contract.bodies import apply_patch
from runtime.domain.errors import NotFound, ValidationFailed
from runtime.domain.identifiers import slug_of, with_suffix
from runtime.domain.kinds import APPLICATION, ROLE_ASSIGNMENT, ZONE, Entity, Kind, Verb
from runtime.domain.kinds.values import ApplicationTrait, OwnerType
from runtime.domain.kinds.zone import Zone, ZoneProtocols, addresses
from runtime.services.management import entities, token_revocation
from runtime.services.management.entities import Parents
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.services.management.zones import bootstrap, key_changes, providers
from runtime.settings import Settings
from runtime.storage.sql import entities as storage
from runtime.storage.sql import names, revocation_causes, user_agents, zone_data

GATEWAY_IDENTIFIER = "default-mcp-gateway"


async def create(unit: UnitOfWork, kind: Kind, parents: Parents, body: Mapping[str, Any]) -> Entity:
    """Make a zone; it is complete as soon as this answers."""
    scope = await entities.scope_of(unit, ZONE, parents)
    entities.require(unit, ZONE, Verb.CREATE, scope)
    if body.get("organization_id", unit.organization_id) != unit.organization_id:
        raise ValidationFailed.of("organization_id", "must be the organization of the caller")
    zone = await make(unit, body)
    if not body.get("default_mcp_gateway_application"):
        return zone
    gateway = await _gateway(unit, zone)
    after = zone.model_copy(update={"default_mcp_gateway_application_id": gateway.id})
    changed = await entities.change(unit, ZONE, scope, zone, after)
    unit.cache.zones[zone.id] = changed
    return changed


async def make(
    unit: UnitOfWork, body: Mapping[str, Any], *, owner_type: OwnerType = OwnerType.CUSTOMER
) -> Zone:
    """Store a new zone with its keys, providers, roles and default policies."""
    scope = {"organization_id": unit.organization_id}
    await unit.next_revision()
    own = body.get("encryption_key")
    prepared = await bootstrap.prepared_zone(unit, own["arn"] if own else None)
    zone_id = prepared.zone_id
    slug = await _free_slug(unit, scope, body["name"])
    given = {name: value for name, value in body.items() if name in _PLAIN}
    made = await entities.new_entity(
        unit,
        ZONE,
        scope,
        given,
        id=zone_id,
        slug=slug,
        owner_type=owner_type,
        protocols=protocols_of(unit.services.settings, zone_id=zone_id, slug=slug),
    )
    if body.get("protocols"):
        made = apply_patch(ZONE, made, {"protocols": body["protocols"]})
    await entities.add(unit, ZONE, made)
    unit.cache.zones[made.id] = made
    await bootstrap.create_default_entities(unit, made, prepared)
    return made


async def _free_slug(unit: UnitOfWork, scope: Parents, name: str) -> str:
    """A slug that is free in the organization, and of an issuer that no zone ever had.

    Tokens, keys and registrations of a zone that is gone are out in the world under its issuer. So where
    issuers are made of slugs, a zone that is made again under its name has another address.
    """
    slug, settings = await entities.free_slug(unit, ZONE, scope, name), unit.services.settings
    while "{slug}" in settings.zone_url_template and await names.is_assigned(
        unit.conn, ZONE, issuer_of_settings(settings, zone_id="", slug=slug)
    ):
        slug = with_suffix(slug_of(name))
    return slug


_PLAIN = ("name", "description", "encryption_key", "requires_invitation", "external_sync_enabled")


def protocols_of(settings: Settings, *, zone_id: str, slug: str) -> ZoneProtocols:
    """The addresses of a new zone, as the settings have it. They are stored, and changed by a move alone."""
    issuer = issuer_of_settings(settings, zone_id=zone_id, slug=slug)
    parts = urlsplit(issuer)
    return addresses(issuer, f"{parts.scheme}://{parts.netloc}", parts.path)


def issuer_of_settings(settings: Settings, *, zone_id: str, slug: str) -> str:
    """The issuer that the settings give a zone: a new one has it, and another one by a move alone."""
    public_url = settings.public_url.rstrip("/")
    return settings.zone_url_template.format(public_url=public_url, zone_id=zone_id, slug=slug).rstrip("/")


async def _gateway(unit: UnitOfWork, zone: Zone) -> Entity:
    scope = {"zone_id": zone.id}
    body = {
        "identifier": GATEWAY_IDENTIFIER,
        "name": "Default gateway",
        "traits": [ApplicationTrait.GATEWAY.value],
    }
    made = await entities.new_entity(unit, APPLICATION, scope, body)
    return await entities.add(unit, APPLICATION, made)


async def update(
    unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, patch: Mapping[str, Any]
) -> Entity:
    """Change a zone. What it refers to must be its own. Raises Forbidden for a platform-owned one.

    Where another provider signs its users in from now on, or none, what the former has signed in ends.
    """
    scope, before = await entities.for_change(unit, ZONE, parents, entity_id, Verb.UPDATE)
    await entities.check_references(unit, ZONE, before.id, patch, before)
    after = await entities.change(unit, ZONE, scope, before, apply_patch(ZONE, before, patch))
    unit.cache.zones[after.id] = after
    await key_changes.carry_out(unit, before, after)
    await providers.end_what_rested_on_former(unit, before, after)
    await _revoke_not_admitted(unit, before, after)
    return after


async def _revoke_not_admitted(unit: UnitOfWork, before: Zone, after: Zone) -> None:
    """Keep that tokens are worth nothing of clients whose metadata documents the zone no longer admits."""
    former, cimd = before.protocols.oauth2.cimd, after.protocols.oauth2.cimd
    if former == cimd:
        return
    known = await user_agents.described_with_sessions(unit.conn, after.id, now=unit.now)
    ended = [each for each in known if former.admits(each) and not cimd.admits(each)]
    if ended:
        await revocation_causes.add_not_admitted(unit.conn, after.id, ended, now=unit.now)


async def delete(unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str) -> None:
    """Remove a zone and everything in it. Raises Forbidden for a platform-owned one."""
    _, before = await entities.for_change(unit, ZONE, parents, entity_id, Verb.DELETE)
    await _end_roles_there(unit, before)
    await remove_zone(unit, before)


async def _end_roles_there(unit: UnitOfWork, zone: Zone) -> None:
    """End the role assignments, in the organization's home zone, that were limited to a zone that goes."""
    own = {"zone_id": cast(str, (await entities.organization_of(unit, zone.organization_id)).zone_id)}
    where = [storage.Equals("scope_id", (zone.id,))]
    found = [each async for each in storage.all_of(unit.conn, ROLE_ASSIGNMENT, within=own, where=where)]
    for assignment in found:
        await entities.remove(unit, ROLE_ASSIGNMENT, own, assignment)


async def remove_zone(unit: UnitOfWork, before: Zone) -> None:
    """Remove a zone that the caller may remove, and everything in it."""
    scope = {"organization_id": before.organization_id}
    await unit.next_revision()
    await token_revocation.revoke_upstream_of_zone(unit, before.id)
    found = await zone_data.zone_epochs(unit.conn, before.id)
    await unit.tombstones.add(await storage.remove(unit.conn, ZONE, before.id, within=scope))
    unit.cache.zones.pop(before.id, None)
    await unit.write(ZONE, "zones.delete", before, None)
    unit.epochs.zone_deleted(before.id, (found[0] if found else 0) + 1)

    async def forget_view() -> None:
        try:
            await unit.services.zones.refresh(before.id)
        except NotFound:
            return

    unit.after_commit(forget_view)
