"""Refreshing upstream tokens (RFC 6749 section 6): by one refresher among all workers and nodes.

Whoever takes the lease of the row in the database calls the provider; the others wait for the row's next
version, or hand out the present token while it is valid. What comes back is written by compare and swap.

A provider may rotate refresh tokens, so that a call counts even when nobody waits for its answer any more: it
runs in a task of its own. A process that dies in between may have lost the only token that works. Then the
provider refuses the one in the database. It is asked once more at once, by whoever has the lease next: a
single refusal may be that of one server of many. After two in a row the credential is dead: the provider is
not asked again, and the user is.
"""

import asyncio
from datetime import datetime, timedelta
from math import ceil
from time import monotonic

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.adapters.keys.sealing import SealBroken
from runtime.adapters.upstream_oauth.token_response import RefusalKind, UpstreamRefusal, UpstreamTokens
from runtime.domain.errors import Unavailable, UpstreamUnavailable
from runtime.domain.identifiers import new_id
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth import attenuation
from runtime.logs import log, outage_warnings
from runtime.metrics import UPSTREAM_REFRESHES
from runtime.services import epochs
from runtime.services.authority.consents import authorization_required
from runtime.services.authorization import provider_requests
from runtime.services.client_types import Client
from runtime.services.container import Services
from runtime.services.upstream_refreshes import Postponed, RefreshOutcome
from runtime.services.vault import upstream_revocations
from runtime.services.vault.assertion_keys import assertion_key
from runtime.services.vault.credentials import KeptCredential, kept_credential
from runtime.services.vault.sealing import open_refresh_token, seal
from runtime.services.vault.upstream_tokens import grant_end, log_beyond, vault_tokens_of
from runtime.services.zones import CachedZone
from runtime.storage.sql import vault_tokens, zone_data
from runtime.storage.sql.vault_tokens import EndedCredential, VaultPlace, VaultRecord, VaultState

HOLDER_WAIT_SECONDS = 10.0  # of whoever began the refresh, which goes on without them
WAIT_SECONDS = 3.0  # of those who do not refresh themselves
POLL_SECONDS = 0.1
LEASE = timedelta(seconds=30)  # a holder that has died is waited for so long
CALL_SECONDS = 25.0  # a holder that lives is done before its lease is over
STILL_GOOD = timedelta(seconds=30)  # what is valid for longer is handed out while it is refreshed
DEAD_AFTER = 2  # refusals in a row
PAUSE_SECONDS = 5  # after a failure of the provider's that names no time
REFUSED_PAUSE_SECONDS = 30  # after one that an administrator has to mend
LONGEST_PAUSE_SECONDS = 60
_KEEP_ATTEMPTS = 6
_AWAY = (DBAPIError, OSError, Unavailable)


async def current(
    services: Services,
    zone: CachedZone,
    client: Client,
    resource: Resource,
    credential: KeptCredential,
    *,
    now: datetime,
) -> KeptCredential:
    """The credential, refreshed when it is time; the present one where it is valid and there is no other yet.

    Raises: AccessDenied, which asks for the user, when the provider gives no more tokens; UpstreamUnavailable
        when the token is over and it is not known whether it does.
    """
    place, record = credential.place, credential.record
    if credential.refreshed_row is not None:
        services.upstream_refreshes.note_use(zone.id, credential.refreshed_row)
    if place is None or record is None:
        return credential
    if not record.is_due(now) or (_pause(record, now) and credential.is_valid(now)):
        return credential
    task, is_mine = services.upstream_refreshes.start(place, lambda: refresh(services, zone, place))
    if credential.is_valid(now + STILL_GOOD):
        return credential
    outcome = await _awaited(services, place, task, HOLDER_WAIT_SECONDS if is_mine else WAIT_SECONDS)
    if isinstance(outcome, VaultRecord):
        return kept_credential(zone, place, outcome)
    source = await zone.providers.get(place.provider_id)
    named = f"provider `{source.identifier}`" if source is not None else "a provider that is gone"
    if outcome is None:
        raise authorization_required(zone, client, resource, internal=f"{named} gives no more tokens")
    if credential.is_valid(services.clock()):
        return credential
    raise UpstreamUnavailable(
        "the provider of the resource's tokens does not answer; try again shortly",
        retry_after_seconds=outcome.seconds,
        internal=f"{named}: an upstream token has expired and cannot be refreshed now",
    )


async def _awaited(
    services: Services, place: VaultPlace, task: "asyncio.Task[RefreshOutcome]", seconds: float
) -> RefreshOutcome:
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.shield(task)
    except TimeoutError:
        now = services.clock()
        return _postponed(await _find(services, place, now), now)


async def refresh(services: Services, zone: CachedZone, place: VaultPlace) -> RefreshOutcome:
    """New tokens for a grant, by this process or by another one."""
    deadline, seen = monotonic() + WAIT_SECONDS, None
    while True:
        now = services.clock()
        record = await _find(services, place, now)
        if record is None or record.state is VaultState.DEAD or record.tokens.refresh_token is None:
            return None
        version = (record.id, record.version)
        if version != seen if seen else not record.is_due(now):
            return record
        seen = version
        if paused := _pause(record, now):
            return paused
        if record.lease_until is None or record.lease_until <= now:
            owner = new_id()
            if await _take_lease(services, zone, place, record, owner, now):
                outcome = await _as_holder(services, zone, place, record, owner)
                if outcome is not _AGAIN:
                    return outcome
                continue
        if monotonic() > deadline:
            return _postponed(record, now)
        await asyncio.sleep(POLL_SECONDS)


_AGAIN = Postponed(0)  # the row is to be read again


async def _find(services: Services, place: VaultPlace, now: datetime) -> VaultRecord | None:
    async with services.database.querying() as conn:
        return await vault_tokens.find(
            conn,
            zone_id=place.zone_id,
            user_id=place.user_id,
            resource_id=place.resource_id,
            provider_id=place.provider_id,
            now=now,
        )


def _pause(record: VaultRecord, now: datetime) -> Postponed | None:
    """That nobody asks the provider now, since it has just failed; None when it may be asked."""
    if record.lease_owner is not None or record.lease_until is None or record.lease_until <= now:
        return None
    return _postponed(record, now)


def _postponed(record: VaultRecord | None, now: datetime) -> Postponed:
    """That there are no new tokens before the lease is over: its holder may have died, or live and take long.

    Whoever came back sooner would wait in vain once more, with everybody else.
    """
    if record is None or record.lease_until is None:
        return Postponed(1)
    return Postponed(max(1, ceil((record.lease_until - now).total_seconds())))


async def _take_lease(
    services: Services, zone: CachedZone, place: VaultPlace, record: VaultRecord, owner: str, now: datetime
) -> bool:
    async with services.database.transaction(tenant=zone.organization_id) as conn:
        return await vault_tokens.take_lease(
            conn,
            record.id,
            zone_id=place.zone_id,
            version=record.version,
            owner=owner,
            now=now,
            until=now + LEASE,
        )


async def _as_holder(
    services: Services, zone: CachedZone, place: VaultPlace, record: VaultRecord, owner: str
) -> RefreshOutcome:
    """Ask the provider, and keep what comes of it."""
    async with services.database.querying() as conn:
        provider = await zone_data.provider(conn, zone.id, place.provider_id)
        resource = await zone_data.resource(conn, zone.id, place.resource_id)
    if provider is None or resource is None:
        return None
    try:
        refresh_token = open_refresh_token(zone.sealer, record.id, record.version, record.tokens, provider)
    except SealBroken:
        # It belongs to other addresses than the provider has now, and is sent to none of these.
        return await _refused(services, zone, provider, place, record, owner, "another_address", dead_after=1)
    if refresh_token is None:
        return None
    answer = await _ask(services, zone, provider, resource, refresh_token.get_secret_value(), record.scopes)
    if isinstance(answer, UpstreamTokens):
        scopes = attenuation.limit_upstream(record.scopes, answer.scopes)
        log_beyond(scopes, zone_id=zone.id, provider_id=provider.id, resource_id=resource.id)
        return await _keep(services, zone, place, record, provider, answer, scopes.granted)
    _warn(provider, _REFUSALS[answer.kind], answer.code, status=answer.status)
    if answer.kind is RefusalKind.DEAD_GRANT:
        return await _refused(
            services, zone, provider, place, record, owner, answer.code, dead_after=DEAD_AFTER
        )
    UPSTREAM_REFRESHES.labels(answer.kind.value).inc()
    seconds = _pause_seconds(answer)
    async with services.database.transaction(tenant=zone.organization_id) as conn:
        await vault_tokens.pause(
            conn,
            record.id,
            zone_id=place.zone_id,
            version=record.version,
            owner=owner,
            until=services.clock() + timedelta(seconds=seconds),
        )
    return Postponed(seconds)


async def _ask(
    services: Services,
    zone: CachedZone,
    provider: Provider,
    resource: Resource,
    refresh_token: str,
    scopes: frozenset[str],
) -> UpstreamTokens | UpstreamRefusal:
    try:
        settings = provider_requests.open_settings(zone, provider)
    except SealBroken:
        return UpstreamRefusal(RefusalKind.MISCONFIGURED, "address_refused")
    try:
        async with asyncio.timeout(CALL_SECONDS):
            return await services.upstream_oauth.refresh(
                settings,
                refresh_token=refresh_token,
                scopes=scopes,
                resource=resource.identifier,
                signing_key=assertion_key(zone, settings),
            )
    except TimeoutError:
        return UpstreamRefusal(RefusalKind.TEMPORARY, "unreachable")


def _pause_seconds(refusal: UpstreamRefusal) -> int:
    if refusal.kind is RefusalKind.MISCONFIGURED:
        return REFUSED_PAUSE_SECONDS
    return min(max(refusal.retry_after_seconds or PAUSE_SECONDS, 1), LONGEST_PAUSE_SECONDS)


async def _keep(
    services: Services,
    zone: CachedZone,
    place: VaultPlace,
    record: VaultRecord,
    provider: Provider,
    tokens: UpstreamTokens,
    scopes: frozenset[str],
) -> RefreshOutcome:
    """Store new tokens, also when the database is away for seconds: the former ones may have ended."""
    for attempt in range(_KEEP_ATTEMPTS):
        try:
            is_kept = await _replace(services, zone, place, record, provider, tokens, scopes)
        except _AWAY:
            if attempt == _KEEP_ATTEMPTS - 1:
                log.error(
                    "refreshed upstream tokens were not stored", zone_id=zone.id, provider_id=provider.id
                )
                raise
            await asyncio.sleep(0.2 * 2**attempt)
            continue
        if not is_kept:
            services.outbox.notify()
        UPSTREAM_REFRESHES.labels("refreshed" if is_kept else "superseded").inc()
        return _AGAIN
    raise AssertionError("unreachable")


async def _replace(
    services: Services,
    zone: CachedZone,
    place: VaultPlace,
    record: VaultRecord,
    provider: Provider,
    tokens: UpstreamTokens,
    scopes: frozenset[str],
) -> bool:
    now = services.clock()
    ends_at = _end(record, tokens, now)
    sealed = seal(zone.sealer, record.id, record.version + 1, vault_tokens_of(tokens, now), provider)
    async with services.epochs.transaction(tenant=zone.organization_id) as (conn, bumped):
        if (scopes, ends_at) != (record.scopes, record.grant_expires_at):
            bumped.update(await epochs.bump_user(conn, zone.id, place.user_id))
        is_kept = await vault_tokens.replace(
            conn,
            record.id,
            sealed,
            zone_id=zone.id,
            version=record.version,
            now=now,
            scopes=scopes,
            grant_expires_at=ends_at,
        )
        if not is_kept and not await _is_connected(conn, place, now):
            # The grant was revoked meanwhile, and with it the tokens that these come from.
            ended = EndedCredential(
                zone.organization_id,
                zone.id,
                place.user_id,
                provider.id,
                record.id,
                record.version + 1,
                sealed,
            )
            await upstream_revocations.enqueue(conn, services.outbox, zone.sealer, [ended])
        return is_kept


async def _is_connected(conn: AsyncConnection, place: VaultPlace, now: datetime) -> bool:
    """Tell whether the user has connected the account anew: then nothing may end what was issued for that."""
    found = await vault_tokens.find(
        conn,
        zone_id=place.zone_id,
        user_id=place.user_id,
        resource_id=place.resource_id,
        provider_id=place.provider_id,
        now=now,
    )
    return found is not None


def _end(record: VaultRecord, tokens: UpstreamTokens, now: datetime) -> datetime | None:
    """When the grant is over: as before, unless there is a new refresh token or word of how long it lives."""
    is_told = tokens.is_refresh_token_new or tokens.refresh_token_expires_in_seconds is not None
    return grant_end(tokens, now) if is_told else record.grant_expires_at


async def _refused(
    services: Services,
    zone: CachedZone,
    provider: Provider,
    place: VaultPlace,
    record: VaultRecord,
    owner: str,
    code: str,
    *,
    dead_after: int,
) -> RefreshOutcome:
    """Count a refusal of the refresh token; after the last one nobody asks the provider any more."""
    is_last = record.failures + 1 >= dead_after
    async with services.epochs.transaction(tenant=zone.organization_id) as (conn, bumped):
        if is_last:  # before the row, as everybody who ends a grant
            bumped.update(await epochs.bump_user(conn, place.zone_id, place.user_id))
        state = await vault_tokens.note_failure(
            conn,
            record.id,
            zone_id=place.zone_id,
            version=record.version,
            owner=owner,
            dead_after=dead_after,
            now=services.clock(),
        )
    UPSTREAM_REFRESHES.labels("dead" if state is VaultState.DEAD else "refused").inc()
    if state is VaultState.DEAD:
        _warn(provider, "an upstream grant is dead: its user has to connect the account again", code)
        return None
    return _AGAIN


_REFUSALS = {
    RefusalKind.DEAD_GRANT: "a provider has refused a refresh token",
    RefusalKind.MISCONFIGURED: "a provider refuses to refresh tokens: check its settings",
    RefusalKind.TEMPORARY: "a provider issues no tokens now: they are refreshed once it does",
}


def _warn(provider: Provider, event: str, code: str, *, status: int | None = None) -> None:
    """Log what a provider does, once a minute: it may do so for each of many accounts."""
    answered = {} if status is None else {"status": status}
    outage_warnings.warn(
        event,
        reason=code,
        about=provider.id,
        provider=provider.identifier,
        provider_id=provider.id,
        zone_id=provider.zone_id,
        **answered,
    )
