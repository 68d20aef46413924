"""Sessions of applications without a user: what tokens of their own rest on; those of a client id share them.

A session begins with the first token that a client gets on its own behalf, and others rest on it until its
end is too near for them: so there are a few for each client id, however many tokens it asks for. Ending one
ends these tokens, and all that was exchanged from them.
"""

import asyncio
from datetime import datetime, timedelta
from typing import Any
from weakref import WeakValueDictionary

from runtime.adapters.identity_providers.settings import settings_of
from runtime.domain.errors import InvalidClient
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import PROVIDER
from runtime.domain.kinds.application import ANY_SUBJECT, TokenCredential
from runtime.domain.kinds.values import ProviderType
from runtime.domain.oauth.entity_profiles import profile_of
from runtime.domain.oauth.session_claims import kept_claims
from runtime.services import cache_sizes
from runtime.services.client_types import ApplicationClient
from runtime.services.container import Services
from runtime.services.zones import CachedZone, ChangeHistory, TaggedCache, ZoneCache
from runtime.storage.sql import entities
from runtime.storage.sql import sessions as storage
from runtime.storage.sql.sessions import SessionRecord


class CurrentApplicationSessions(ZoneCache):
    """The session that the next token of a client rests on, by client id."""

    outlives_changes = True

    def __init__(self, history: ChangeHistory) -> None:
        self.sessions: TaggedCache[SessionRecord] = TaggedCache(cache_sizes.CLIENTS, history)
        self.beginning: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


async def current(
    services: Services, zone: CachedZone, client: ApplicationClient, *, until: datetime, now: datetime
) -> SessionRecord:
    """The session for a token of the client's own; a new one where none lasts as long as the token.

    Args:
        until: when the token ends.
    Raises: InvalidClient when the application was deleted meanwhile.
    """
    cache = zone.cache_of(CurrentApplicationSessions)
    held = cache.sessions.get(client.client_id)
    if held is not None and held.expires_at >= until:
        return held
    async with cache.beginning.setdefault(client.client_id, asyncio.Lock()):
        held = cache.sessions.get(client.client_id)
        if held is None or held.expires_at < until:
            held = await _find_or_begin(services, zone, client, until, now)
            cache.sessions.keep(client.client_id, held, {held.id, *client.cache_tags}, as_of=zone.epoch)
    return held


async def _find_or_begin(
    services: Services, zone: CachedZone, client: ApplicationClient, until: datetime, now: datetime
) -> SessionRecord:
    application_id = client.application.id
    asked = (application_id, client.client_id)
    async with services.database.querying() as conn:
        found = await storage.of_client(conn, *asked, zone_id=zone.id, until=until)
    if found is not None:
        return found
    made = await _session(services, zone, client, until, now)
    async with services.database.transaction(tenant=zone.organization_id, brief=True) as conn:
        # One after the other: another process may begin one for the same client.
        if not await storage.lock_application(conn, application_id, zone_id=zone.id):
            raise InvalidClient(internal="the application was deleted meanwhile")
        found = await storage.of_client(conn, *asked, zone_id=zone.id, until=until)
        if found is None:
            await storage.add(conn, made)
    return found or made


async def _session(
    services: Services, zone: CachedZone, client: ApplicationClient, until: datetime, now: datetime
) -> SessionRecord:
    provider_id, issuer, subject = await _authenticated_by(services, zone, client)
    # Twice as long as the token, at least: it is for the next ones, too.
    lasts = max(timedelta(seconds=services.settings.session_lifetime_seconds), 2 * (until - now))
    return SessionRecord(
        id=new_id(),
        organization_id=zone.organization_id,
        zone_id=zone.id,
        user_id=None,
        application_id=client.application.id,
        client_id=client.client_id,
        session_type=storage.CLIENT_CREDENTIALS,
        authenticated_at=now,
        expires_at=now + lasts,
        created_at=now,
        updated_at=now,
        provider_id=provider_id,
        issuer=issuer,
        subject=subject,
        session_data=_claims(client, issuer, subject),
        metadata={"name": client.application.name},
    )


async def _authenticated_by(
    services: Services, zone: CachedZone, client: ApplicationClient
) -> tuple[str | None, str, str]:
    """Id and issuer of the provider that says who the application is, and what it calls it.

    The provider of a workload; for any other credential the zone itself, by its own token service.
    """
    credential = client.credential
    if isinstance(credential, TokenCredential):
        provider = await zone.providers.get(credential.provider_id)
        if provider is None:
            raise InvalidClient(internal="the provider was deleted meanwhile")
        return provider.id, settings_of(provider, client_secret=None).issuer, credential.identifier
    async with services.database.querying() as conn:
        own = await entities.find_by(
            conn, PROVIDER, "type", ProviderType.SERVICE_STS.value, within={"zone_id": zone.id}
        )
    return own.id if own else None, zone.issuer, client.application.identifier


def _claims(client: ApplicationClient, issuer: str, subject: str) -> dict[str, Any]:
    """What the session keeps about the application: the claims of a workload's token, and who it is here.

    A session for any subject of a provider is not about one of them.
    """
    own = {
        "iss": issuer,
        "sub": subject,
        "client_id": client.client_id,
        "sub_profile": profile_of(client.application.traits).value,
    }
    of_workload = client.workload_claims if subject != ANY_SUBJECT else None
    return {**kept_claims(of_workload or {}), **own}
