"""Dynamic client registration: the same metadata twice is the same client.

Spec: RFC 7591; zone interface, section 3.
"""

from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any

from runtime.domain.errors import Conflict, RegistrationClosed, TooManyRequests
from runtime.domain.identifiers import new_id, slug_of
from runtime.domain.kinds import USER_AGENT
from runtime.domain.kinds.user_agent import ClientMetadata, Registration, UserAgent
from runtime.domain.oauth import registration as rules
from runtime.services import rate_limits
from runtime.services.container import Services
from runtime.services.rate_limiter import network_of
from runtime.services.zones import CachedZone
from runtime.storage.sql import entities, user_agents


async def register(services: Services, zone: CachedZone, document: Mapping[str, Any]) -> UserAgent:
    """The client of that metadata, known from now on.

    Raises: InvalidRedirectUri, InvalidClientMetadata, InvalidSoftwareStatement.
    """
    metadata = rules.read(document, on_loopback=services.settings.allow_private_addresses)
    return await store_client(
        services, zone, rules.dynamic_client_id(metadata), metadata, Registration.DYNAMIC
    )


async def check_registration_allowed(services: Services, zone: CachedZone, address: str) -> None:
    """Refuse where the zone takes no registrations, and slow down whoever sends many.

    Raises: RegistrationClosed; TooManyRequests; Unavailable, because who cannot be counted is not let in.
    """
    if not zone.entity.protocols.oauth2.dcr_enabled:
        raise RegistrationClosed(
            "dynamic client registration is disabled in this zone; ask an administrator of it"
        )
    wait = await services.rate_limiter.hit(rate_limits.REGISTRATIONS, zone.id, network_of(address))
    if wait := wait or await services.rate_limiter.hit(rate_limits.REGISTRATIONS_IN_ZONE, zone.id):
        raise TooManyRequests("too many registrations; try again in a minute", retry_after_seconds=wait)


async def store_client(
    services: Services,
    zone: CachedZone,
    client_id: str,
    metadata: ClientMetadata,
    registration: Registration,
    *,
    fresh_until: datetime | None = None,
) -> UserAgent:
    """The user agent of that client id, made when there is none; one that is there stays as it is.

    Args:
        fresh_until: how long a document may be used without another look at it.
    Raises: TooManyRequests for one client too many that nobody has heard of; Unavailable.
    """
    now, name = services.clock(), rules.display_name(metadata)
    made = UserAgent(
        id=new_id(),
        organization_id=zone.organization_id,
        zone_id=zone.id,
        identifier=client_id,
        name=name,
        # Names repeat; the hash tells them apart, and needs no look at the slugs that are taken.
        slug=f"{slug_of(name)[:46].strip('-')}-{sha256(client_id.encode()).hexdigest()[:16]}",
        registration=registration,
        client_metadata=metadata,
        created_at=now,
        updated_at=now,
        used_at=now,
        fresh_until=fresh_until,
    )
    try:
        async with services.database.transaction(tenant=zone.organization_id) as conn:
            if (known := await user_agents.find(conn, client_id, zone_id=zone.id)) is not None:
                await user_agents.touch(conn, known.id, zone_id=zone.id, now=now)
                return known
            await _admit_new(services, zone)
            await entities.insert(conn, USER_AGENT, made)
    except Conflict:  # somebody else has just registered the same
        async with services.database.querying() as conn:
            known = await user_agents.find(conn, client_id, zone_id=zone.id)
        if known is None:
            raise
        return known
    return made


async def _admit_new(services: Services, zone: CachedZone) -> None:
    """Count a client that stays, though nobody may ever use it. Raises TooManyRequests, Unavailable."""
    if wait := await services.rate_limiter.hit(rate_limits.NEW_CLIENTS, zone.id):
        raise TooManyRequests("too many new clients today; try again later", retry_after_seconds=wait)
