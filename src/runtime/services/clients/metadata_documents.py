"""Clients by metadata document: checked against the zone's allowlist, fetched, and watched for changes.

The list comes before the fetch: nobody makes this service ask a site that the zone does not admit. When a
client has become another one than its users agreed to, what they agreed to is void, and that is on record.
"""

from datetime import datetime, timedelta

from runtime.adapters.outbound import OutboundFailed, OutboundRefused
from runtime.domain.errors import BadLink, OAuthError, TooManyRequests, TooManyTries
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import USER_AGENT
from runtime.domain.kinds.user_agent import ClientMetadata, Registration, UserAgent
from runtime.domain.oauth import client_documents as rules
from runtime.domain.oauth import registration as names
from runtime.services import rate_limits
from runtime.services.client_types import UserAgentClient
from runtime.services.clients import dynamic_registration
from runtime.services.container import Services
from runtime.services.management.access.caller import SERVICE
from runtime.services.management.unit_of_work import UnitOfWork, unit_of_work
from runtime.services.zones import CachedZone
from runtime.storage.sql import consents, entities, user_agents
from runtime.storage.sql.client_refs import ClientRef

_UNKNOWN = "no application is registered here under this `client_id`"


async def current(services: Services, zone: CachedZone, client_id: str) -> UserAgentClient:
    """The client as its document describes it today, known from now on.

    Raises: BadLink when the zone does not admit it, when the document cannot be had, or does not describe a
        client that may act here; TooManyTries; Unavailable.
    """
    if not zone.entity.protocols.oauth2.cimd.admits(client_id):
        raise BadLink(_UNKNOWN, internal="no document of that address is admitted")
    if await zone.applications.by_identifier(client_id) is not None:
        raise BadLink(_UNKNOWN, internal="policies know an application by that name")
    known = await _find(services, zone, client_id)
    if known is not None and _is_fresh(known, services.clock()):
        return UserAgentClient(known)

    async def read_again() -> UserAgent:
        return await _read_again(services, zone, client_id)

    return UserAgentClient(
        await services.client_reads.get(client_id, read_again, partition=zone.sites_of_clients)
    )


async def _find(services: Services, zone: CachedZone, client_id: str) -> UserAgent | None:
    """What was stored of the client when its document was read last."""
    async with services.database.querying() as conn:
        return await user_agents.find(conn, client_id, zone_id=zone.id)


def _is_fresh(known: UserAgent, now: datetime) -> bool:
    return known.fresh_until is not None and now < known.fresh_until


async def _read_again(services: Services, zone: CachedZone, client_id: str) -> UserAgent:
    """The client as its site describes it now. All workers share what was read, by the database.

    Raises: BadLink; TooManyTries; Unavailable.
    """
    known = await _find(services, zone, client_id)
    if known is not None and _is_fresh(known, services.clock()):
        return known  # stored since this request looked for it
    await _admit_fetch(services, zone)
    try:
        found = await services.client_documents.get(
            client_id, partition=zone.sites_of_clients, remembered=False
        )
    except (OutboundRefused, OutboundFailed) as failure:
        raise BadLink(
            "the client ID metadata document cannot be fetched; try again later", internal=str(failure)
        ) from None
    try:
        metadata = rules.read(
            found.document, client_id, on_loopback=services.settings.allow_private_addresses
        )
    except OAuthError as failure:
        raise BadLink(f"the client ID metadata document cannot be used: {failure.detail}") from None
    fresh_until = services.clock() + timedelta(seconds=found.lifetime_seconds)
    if known is None:
        try:
            return await dynamic_registration.store_client(
                services, zone, client_id, metadata, Registration.METADATA_DOCUMENT, fresh_until=fresh_until
            )
        except TooManyRequests as refusal:
            raise TooManyTries(refusal.detail, retry_after_seconds=refusal.retry_after_seconds) from None
    return await _renewed(services, zone, known, metadata, fresh_until)


async def _admit_fetch(services: Services, zone: CachedZone) -> None:
    """Count a fetch: this service is nobody's way to flood other sites. Raises TooManyTries, Unavailable."""
    if wait := await services.rate_limiter.hit(rate_limits.METADATA_DOCUMENT_FETCHES, zone.id):
        raise TooManyTries(
            "too many unknown applications at once; try again in a minute", retry_after_seconds=wait
        )


async def _renewed(
    services: Services, zone: CachedZone, before: UserAgent, metadata: ClientMetadata, fresh_until: datetime
) -> UserAgent:
    """Keep what the document says now. What users agreed to is void, if they agreed to another client."""
    has_changed = before.client_metadata != metadata
    after = before.model_copy(
        update={
            "client_metadata": metadata,
            "name": names.display_name(metadata),
            "updated_at": services.clock() if has_changed else before.updated_at,
            "fresh_until": fresh_until,
        }
    )
    async with unit_of_work(
        services, SERVICE.within(zone.organization_id), f"client-document-{new_id()}"
    ) as unit:
        await entities.replace(unit.conn, USER_AGENT, after, within={"zone_id": zone.id})
        if rules.needs_new_consent(before.client_metadata, metadata):
            await _withdraw(unit, before, after)
    return after


async def _withdraw(unit: UnitOfWork, before: UserAgent, after: UserAgent) -> None:
    """Forget the consents, and say so; where nobody has agreed to anything there is nothing to say."""
    client_ref = ClientRef(user_agent_id=before.id)
    await unit.lock_organization()
    unit.epochs.zone_changed(before.zone_id, {before.id, before.identifier})  # its name is withdrawn
    if not await consents.withdraw_all(
        unit.conn, zone_id=before.zone_id, client_ref=client_ref, now=unit.now
    ):
        return
    await unit.record(
        "user_agents.change",
        USER_AGENT.name,
        before.id,
        before.zone_id,
        before=_told(before),
        after=_told(after) | {"consents": "withdrawn"},
    )


def _told(user_agent: UserAgent) -> dict[str, object]:
    """What the audit trail says of a client: what its users went by."""
    metadata = user_agent.client_metadata
    return {
        "identifier": user_agent.identifier,
        "name": user_agent.name,
        "redirect_uris": metadata.redirect_uris,
        "token_endpoint_auth_method": metadata.token_endpoint_auth_method,
    }
