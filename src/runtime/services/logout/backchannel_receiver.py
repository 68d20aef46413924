"""Back-channel logout from the zone's identity provider: its logout token ends sessions here."""

import asyncio

from runtime.adapters.identity_providers.answers import ProviderRefused
from runtime.adapters.identity_providers.settings import settings_of
from runtime.adapters.outbound import OutboundFailed, OutboundRefused
from runtime.domain.errors import InvalidRequest
from runtime.domain.oauth.decision_events import DecisionEvent
from runtime.domain.oauth.logout import LogoutToken
from runtime.services.authority import session_end_events, session_revocation
from runtime.services.authority.session_end_events import SessionEndEvent
from runtime.services.container import Services
from runtime.services.zones import CachedZone
from runtime.storage.sql import sessions

_LEEWAY_SECONDS = 60  # as in the verification of times
_REFUSED = "the logout token is not valid here"


async def receive(services: Services, zone: CachedZone, token: str | None) -> int:
    """End the sessions that the provider's logout token means; how many there were.

    A token counts once. Raises InvalidRequest.
    Spec: OpenID Connect Back-Channel Logout section 2.6.
    """
    if token is None:
        raise InvalidRequest("`logout_token` is missing")
    provider = await zone.user_provider()
    if provider is None:
        raise InvalidRequest(_REFUSED, internal="the zone has no provider")
    settings = settings_of(provider, client_secret=None)
    now = services.clock()
    try:
        said = await services.openid.logout_token(settings, token, now=now)
    except (ProviderRefused, OutboundRefused, OutboundFailed) as failure:
        raise InvalidRequest(_REFUSED, internal=str(failure)) from None
    mark = f"logout-token:{zone.id}:{services.hasher.hash(said.token_id).hex()}"
    remembered = int((said.expires_at - now).total_seconds()) + _LEEWAY_SECONDS + 1
    if not await services.state.add(mark, b"1", ttl_seconds=remembered):
        raise InvalidRequest(_REFUSED, internal="sent before")
    try:
        return await _end(services, zone, settings.issuer, said)
    except (Exception, asyncio.CancelledError):
        # The provider is told that it failed, or has hung up before it was told: it may send it again.
        await services.state.delete(mark)
        raise


async def _end(services: Services, zone: CachedZone, issuer: str, said: LogoutToken) -> int:
    async with services.epochs.transaction(tenant=zone.organization_id) as (conn, bumped):
        meant = await sessions.of_provider(
            conn, zone_id=zone.id, issuer=issuer, subject=said.subject, session=said.session
        )
        bumped.update(await session_revocation.revoke(conn, services, zone.id, *meant))
        said_so = [
            SessionEndEvent(
                event=DecisionEvent.PROVIDER_SIGN_OUT,
                organization_id=zone.organization_id,
                zone_id=zone.id,
                session_id=each,
            )
            for each in meant
        ]
        await session_end_events.record(conn, said_so, now=services.clock())
    services.outbox.notify()
    return len(meant)
