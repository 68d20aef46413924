"""Upstream tokens: what an outside provider has issued for an account that a user has connected.

The user's delegated grant has the scopes that the provider granted of those that were requested. They replace
those that it had before, as the tokens do: the last authorization is the one that counts. Scopes beyond the
request are no part of the grant, so no application is told of them; the provider's token may have them all
the same, which is why a provider that grants more than it is asked for is logged.
"""

from datetime import datetime, timedelta

from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.adapters.upstream_oauth.token_response import UpstreamTokens
from runtime.domain.delegated_grants import issuing_addresses
from runtime.domain.errors import InvalidRequest
from runtime.domain.identifiers import new_id
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.attenuation import UpstreamScopes
from runtime.domain.oauth.decision_events import DecisionEvent, DecisionOutcome
from runtime.logs import log
from runtime.services.container import Services
from runtime.services.decision_log import current_decision
from runtime.services.vault.sealing import BEARER, VaultTokens, seal
from runtime.services.zones import CachedZone
from runtime.storage.sql import consents, token_events, vault_tokens, zone_data
from runtime.storage.sql.token_events import TokenEvent

_EVENT, _OUTCOME = DecisionEvent.CREDENTIAL, DecisionOutcome.CONNECTED


async def store_connected(
    conn: AsyncConnection,
    services: Services,
    zone: CachedZone,
    *,
    user_id: str,
    resource: Resource,
    provider: Provider,
    tokens: UpstreamTokens,
    scopes: UpstreamScopes,
    now: datetime,
) -> str:
    """Keep what a provider has issued for the user's account: their delegated grant is active from now on.

    Part of the caller's `services.epochs.transaction`, whose first statement is `epochs.bump_user`. No
    application may use the tokens without the user's consent of its own.

    Args:
        provider: as it was when the tokens were requested.
        scopes: what the tokens are good for, and what the provider has granted beyond it.
    Returns the id of the grant.
    Raises: InvalidRequest when the provider or the resource has been changed since.
    """
    await _require_unchanged(conn, zone, resource, provider)
    log_beyond(scopes, zone_id=zone.id, provider_id=provider.id, resource_id=resource.id)
    grant_id, _ = await consents.grant(
        conn,
        organization_id=zone.organization_id,
        zone_id=zone.id,
        user_id=user_id,
        resource_id=resource.id,
        provider_id=provider.id,
        scopes=scopes.granted,
        now=now,
        replaces=True,
        expires_at=grant_end(tokens, now),
    )
    row_id = new_id()
    sealed = seal(zone.sealer, row_id, 1, vault_tokens_of(tokens, now), provider)
    await vault_tokens.put(conn, row_id, sealed, zone_id=zone.id, grant_id=grant_id, now=now)
    event = TokenEvent(
        id=new_id(),
        organization_id=zone.organization_id,
        zone_id=zone.id,
        at=now,
        event=_EVENT,
        outcome=_OUTCOME,
        user_id=user_id,
        resource_id=resource.id,
        request_id=current_decision().request_id or None,
    )
    await token_events.add(conn, [event])
    return grant_id


async def _require_unchanged(
    conn: AsyncConnection, zone: CachedZone, resource: Resource, provider: Provider
) -> None:
    """Check that the tokens are still what the resource takes, and hold the provider as it is."""
    await vault_tokens.hold_provider(conn, provider.id, zone_id=zone.id)
    current = await zone_data.provider(conn, zone.id, provider.id)
    target = await zone_data.resource(conn, zone.id, resource.id)
    if (
        current is None
        or issuing_addresses(current) != issuing_addresses(provider)
        or target is None
        or target.identifier != resource.identifier
        or target.credential_provider_id != provider.id
    ):
        raise InvalidRequest("the provider or the resource was changed meanwhile; connect the account again")


def log_beyond(scopes: UpstreamScopes, *, zone_id: str, provider_id: str, resource_id: str) -> None:
    """Log that a provider grants more than it was asked for; which scopes it says are not repeated."""
    if scopes.beyond:
        log.warning(
            "a provider granted scopes that were not requested",
            zone_id=zone_id,
            provider_id=provider_id,
            resource_id=resource_id,
            scopes=len(scopes.beyond),
        )


def vault_tokens_of(tokens: UpstreamTokens, now: datetime) -> VaultTokens:
    """What a provider has issued just now, as the vault keeps it."""
    refresh_token, lifetime = tokens.refresh_token, tokens.expires_in_seconds
    due = None if refresh_token is None or lifetime is None else refresh_after(lifetime)
    return VaultTokens(
        access_token=SecretStr(tokens.access_token),
        refresh_token=None if refresh_token is None else SecretStr(refresh_token),
        token_type=BEARER,
        expires_at=_after(now, lifetime),
        refresh_at=_after(now, due),
    )


def refresh_after(lifetime_seconds: int) -> int:
    """How many seconds after it was issued an access token is worth refreshing.

    When a fifth of its life or a minute is left, whichever comes first; but not in the first half of its
    life, or one that lives for a minute would be refreshed each time that it is used.
    """
    return max(1, lifetime_seconds // 2, min(lifetime_seconds * 4 // 5, lifetime_seconds - 60))


def grant_end(tokens: UpstreamTokens, now: datetime) -> datetime | None:
    """When a grant with these tokens is over: with its refresh token, or else with its access token.

    None where nobody says, which is the rule for refresh tokens.
    """
    if tokens.refresh_token is None:
        return _after(now, tokens.expires_in_seconds)
    return _after(now, tokens.refresh_token_expires_in_seconds)


def _after(now: datetime, lifetime_seconds: int | None) -> datetime | None:
    return None if lifetime_seconds is None else now + timedelta(seconds=lifetime_seconds)
