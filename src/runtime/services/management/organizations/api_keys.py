"""API keys: `zwk_<id>_<secret>`, kept as a hash, shown once.

A key gives no more than what made it, and lives no longer: its role is at most its maker's, its end at the
latest that of the key that made it, and it goes with that key. A key that was made at a person's word, also
through other keys, does at each request at most what the person may still do.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from runtime.adapters.keys.sealing import new_secret
from runtime.domain.errors import Conflict, Forbidden, NotFound, Unauthorized, ValidationFailed
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import API_KEY, ORGANIZATION, Entity, Kind, Verb
from runtime.domain.kinds.api_key import KEY_PREFIX, ApiKey
from runtime.domain.kinds.organization import Organization
from runtime.domain.kinds.values import OrganizationRole, rfc3339
from runtime.services.container import Services
from runtime.services.jobs.turns import in_turn
from runtime.services.management import entities
from runtime.services.management.access import permissions
from runtime.services.management.access.caller import REFUSED, SERVICE, Actor
from runtime.services.management.entities import Parents
from runtime.services.management.organizations import credential_zones
from runtime.services.management.unit_of_work import UnitOfWork, unit_of_work
from runtime.storage.sql import api_keys as storage
from runtime.storage.sql import entities as entity_storage
from runtime.storage.sql import organizations

JOB = "api_keys"
MAX_API_KEYS = 500  # of one organization, those that have expired included
KEPT_EXPIRED = timedelta(days=30)  # so long an expired key stays in the list
_BATCH = 100


# --- the management API


async def create(unit: UnitOfWork, kind: Kind, parents: Parents, body: Mapping[str, Any]) -> Entity:
    """Make a key. The key in clear stands in `unit.shown_once`, nowhere else.

    Raises: NotFound, Forbidden for a role above the caller's, ValidationFailed for an end after the caller's,
        Conflict for an organization with too many.
    """
    scope = await entities.scope_of(unit, API_KEY, parents)
    entities.require(unit, API_KEY, Verb.CREATE, scope)
    return await add(
        unit,
        name=body["name"],
        role=body["role"],
        expires_in_seconds=body.get("expires_in_seconds"),
        owner=body.get("owner"),
        zones=body.get("zones"),
    )


async def add(
    unit: UnitOfWork,
    *,
    name: str,
    role: str,
    expires_in_seconds: int | None = None,
    owner: str | None = None,
    zones: Sequence[str] | None = None,
) -> ApiKey:
    """Make a key inside a unit, as `create` does."""
    # First, so that nobody revokes meanwhile what makes this one.
    await unit.next_revision()
    if not permissions.reaches(unit.caller.role, role):
        raise Forbidden(f"the role `{unit.caller.role}` may not make an API key with the role `{role}`")
    if role == OrganizationRole.ADMIN and (owner or zones):
        raise ValidationFailed.of("role", "must not be `org_admin` for a key with `owner` or `zones`")
    await credential_zones.check(unit, zones)
    maker = await _making_key(unit)
    await _make_room(unit)
    secret = new_secret()
    made = await entities.new_entity(
        unit,
        API_KEY,
        {"organization_id": unit.organization_id},
        {"name": name, "role": role, "owner": owner, "zones": credential_zones.ordered(zones)},
        created_by=unit.caller.id,
        expires_at=_end(unit, maker, expires_in_seconds),
        secret_hash=unit.services.hasher.hash(secret),
        **_person(unit, maker),
    )
    unit.shown_once[made.id] = {"api_key": f"{KEY_PREFIX}{made.id}_{secret}"}
    return await entities.add(unit, API_KEY, made)


async def _making_key(unit: UnitOfWork) -> ApiKey | None:
    """The key that makes another one; None for other callers. Raises Unauthorized when it is gone by now."""
    if unit.caller.kind != "api_key":
        return None
    found = await storage.find(unit.conn, unit.caller.id)
    if found is None or found.key.has_expired(unit.now):
        raise Unauthorized(REFUSED, internal="the key was revoked meanwhile")
    return found.key


def _end(unit: UnitOfWork, maker: ApiKey | None, seconds: int | None) -> datetime | None:
    """When a new key ends: as asked, and no later than the key that makes it. Raises ValidationFailed."""
    limit = maker.expires_at if maker is not None else None
    if seconds is None:
        return limit
    end = unit.now + timedelta(seconds=seconds)
    if limit is not None and end > limit:
        raise ValidationFailed.of(
            "expires_in_seconds",
            f"must not exceed the expiry of the creating key, `{rfc3339(limit)}`; omit it to use that",
        )
    return end


def _person(unit: UnitOfWork, maker: ApiKey | None) -> dict[str, str | None]:
    """At whose word a key is made: that of the user who asks, or of whom the asking key was made for."""
    if maker is not None:
        return {"person_id": maker.person_id, "person_zone_id": maker.person_zone_id}
    if unit.caller.sign_in is None:
        return {}
    return {"person_id": unit.caller.id, "person_zone_id": unit.caller.sign_in.zone_id}


async def _make_room(unit: UnitOfWork) -> None:
    """Forget the oldest expired keys of an organization that has all it may have. Raises Conflict."""
    surplus = await storage.count(unit.conn, unit.organization_id) - MAX_API_KEYS + 1
    if surplus <= 0:
        return
    await _take_away(unit, await storage.expired(unit.conn, unit.organization_id, unit.now, limit=surplus))
    if await storage.count(unit.conn, unit.organization_id) >= MAX_API_KEYS:
        raise Conflict(f"an organization has at most {MAX_API_KEYS} API keys: revoke one that is not used")


async def _take_away(unit: UnitOfWork, keys: Sequence[ApiKey]) -> None:
    """Remove keys of the organization, each with those that it made: they may stand in the list, too."""
    within = {"organization_id": unit.organization_id}
    for key in keys:
        if await entity_storage.many(unit.conn, API_KEY, [key.id], within=within):
            await entities.remove(unit, API_KEY, within, key)


# --- operators


async def create_for(
    services: Services,
    organization: str,
    *,
    name: str,
    role: str,
    expires_in_seconds: int | None = None,
    owner: str | None = None,
    zones: Sequence[str] = (),
    by: Actor = SERVICE,
) -> str:
    """Make a key of an organization, given by id or label; the key in clear, never to be seen again.

    Args:
        zones: ids or slugs of the zones that it is bound to; none for all.
    Raises: NotFound, ValidationFailed, Conflict.
    """
    found = await _organization(services, organization)
    async with unit_of_work(services, by.within(found.id), new_id()) as unit:
        made = await add(
            unit,
            name=name,
            role=role,
            expires_in_seconds=expires_in_seconds,
            owner=owner,
            zones=await credential_zones.resolve_zones(unit, zones),
        )
    return unit.shown_once[made.id]["api_key"]


async def every(services: Services, organization: str) -> list[ApiKey]:
    """All keys of an organization, given by id or label, oldest first. Raises NotFound."""
    found = await _organization(services, organization)
    async with services.database.reading() as conn:
        within = {"organization_id": found.id}
        return [key async for key in entity_storage.all_of(conn, API_KEY, within=within)]


async def revoke(services: Services, key_id: str, *, by: Actor = SERVICE) -> int:
    """End a key, and those that it made; how many those are together. Raises NotFound.

    Args:
        key_id: its id, or the key itself, as somebody may have found it where it should not be.
    """
    key_id = key_id.removeprefix(KEY_PREFIX).partition("_")[0]
    async with services.database.querying() as conn:
        found = await storage.find(conn, key_id)
    if found is None:
        raise NotFound(f"there is no ApiKey `{key_id}`")
    async with unit_of_work(services, by.within(found.key.organization_id), new_id()) as unit:
        await unit.next_revision()
        await _take_away(unit, [found.key])
    return unit.audit.count


async def _organization(services: Services, id_or_label: str) -> Organization:
    async with services.database.reading() as conn:
        found = await organizations.find(conn, id_or_label)
    if found is None:
        raise NotFound(f"there is no {ORGANIZATION.name} `{id_or_label}`")
    return found


# --- the job


async def forget_expired(services: Services) -> int:
    """Forget keys that expired long ago; how many those were.

    Raises: Unavailable, in the end, where organizations were passed over.
    """
    before, forgotten = services.clock() - KEPT_EXPIRED, 0
    with in_turn(services, JOB) as turns:
        while True:
            async with services.database.querying() as conn:
                waiting = await storage.organizations_with_expired(conn, before, limit=_BATCH)
            for organization_id in waiting:
                work = partial(_forget, services, organization_id, before)
                forgotten += await turns.take(organization_id, work) or 0
            if len(waiting) < _BATCH:
                return forgotten


async def _forget(services: Services, organization_id: str, before: datetime) -> int:
    async with unit_of_work(services, SERVICE.within(organization_id), new_id()) as unit:
        await unit.lock_organization()
        await _take_away(unit, await storage.expired(unit.conn, organization_id, before, limit=MAX_API_KEYS))
    return unit.audit.count
