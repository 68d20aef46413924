"""RP-initiated logout: confirm with the user where needed, revoke the session, redirect.

What ends is the browser's session with every application's session below it, their refresh tokens, and so
every exchange that starts there. What was granted for offline use goes on: that is what it was asked for.
"""

from runtime.adapters.identity_providers.answers import ProviderRefused
from runtime.adapters.identity_providers.settings import settings_of
from runtime.adapters.keys.sealing import new_secret
from runtime.adapters.outbound import OutboundFailed, OutboundRefused
from runtime.domain.oauth.decision_events import DecisionEvent
from runtime.logs import log
from runtime.services.authority import browser_sessions, session_end_events, session_revocation
from runtime.services.authority.browser_sessions import Browser, SignedInUser
from runtime.services.authority.session_end_events import SessionEndEvent
from runtime.services.authorization.next_step import NextStep
from runtime.services.container import Services
from runtime.services.login import upstream
from runtime.services.logout import requests
from runtime.services.logout.requests import LogoutRequest
from runtime.services.zones import CachedZone
from runtime.storage.sql import sessions as storage
from runtime.storage.sql.sessions import SessionRecord


async def user_to_ask(
    services: Services, zone: CachedZone, request: LogoutRequest, browser: Browser
) -> SignedInUser | None:
    """The user who has to say yes first; None when nobody is signed in, or the ID token is of this sign-in.

    Anybody can send a browser here. An ID token of the user's says who they are, and may be old, or of some
    other browser: only an application that signed them in here has one of this.
    Spec: OpenID Connect RP-Initiated Logout, section 2.
    """
    signed_in = await browser_sessions.current(services, zone, browser.session)
    if signed_in is None or await _is_of(services, zone, request, signed_in):
        return None
    return signed_in


async def end(services: Services, zone: CachedZone, request: LogoutRequest, browser: Browser) -> NextStep:
    """End the browser's session; the step onward, which may lead to the provider.

    An application that registered itself could have registered any address: it is returned to only by who was
    its user until now, and nobody else is led there by a link through here. Spec: RFC 9700 section 4.11.2.
    """
    signed_in = await browser_sessions.current(services, zone, browser.session)
    if request.self_registered and not await _was_its_user(services, zone, request, signed_in):
        request = LogoutRequest()
    if signed_in is None:
        return NextStep(destination(zone, request))
    onward = await _to_provider(services, zone, request, signed_in.session, browser)
    ending = SessionEndEvent(
        event=DecisionEvent.SIGN_OUT,
        organization_id=zone.organization_id,
        zone_id=zone.id,
        user_id=signed_in.user.id,
        session_id=signed_in.session.id,
    )
    async with services.epochs.transaction(tenant=zone.organization_id) as (conn, bumped):
        bumped.update(await session_revocation.revoke(conn, services, zone.id, signed_in.session.id))
        await session_end_events.record(conn, [ending], now=services.clock())
    services.outbox.notify()
    return onward or NextStep(destination(zone, request))


def destination(zone: CachedZone, request: LogoutRequest) -> str:
    """Where the browser ends up."""
    return request.return_to or f"{zone.issuer}/oauth/signed-out"


async def _is_of(
    services: Services, zone: CachedZone, request: LogoutRequest, signed_in: SignedInUser
) -> bool:
    """Tell whether the request's ID token was issued in what the browser's sign-in has let in.

    An application's session may have ended before: who revokes its tokens first signs out afterwards. One for
    offline use lies below no other, and came from the same proof of who the user is.
    """
    if request.session_id is None or request.subject != signed_in.user.identifier:
        return False
    async with services.database.querying() as conn:
        found = await storage.find(conn, request.session_id, zone_id=zone.id)
    if found is None or found.user_id != signed_in.user.id:
        return False
    if found.session_type == "offline":
        at = found.authenticated_at
        return at is not None and at == signed_in.session.authenticated_at
    return found.parent_id == signed_in.session.id


async def _was_its_user(
    services: Services, zone: CachedZone, request: LogoutRequest, signed_in: SignedInUser | None
) -> bool:
    """Tell whether the client has signed that user in, or has an ID token that says so."""
    if signed_in is None:
        return False
    if request.subject == signed_in.user.identifier:
        return True
    async with services.database.querying() as conn:
        user_id, client_id = signed_in.user.id, request.client_id or ""
        return await storage.has_let_in(conn, user_id, client_id, zone_id=zone.id)


async def _to_provider(
    services: Services, zone: CachedZone, request: LogoutRequest, session: SessionRecord, browser: Browser
) -> NextStep | None:
    """The step on to sign out of the session's provider; None when that is not wanted, or not possible."""
    provider = await zone.providers.get(session.provider_id) if session.provider_id else None
    if provider is None or not upstream.has_single_logout(provider):
        return None
    pre_login = browser.pre_login or new_secret()
    query = {
        "post_logout_redirect_uri": zone.entity.protocols.oauth2.post_logout_redirect_uri,
        "state": await requests.store_request(services, zone.id, request, pre_login),
    }
    settings = settings_of(provider, client_secret=None)
    # What an issuer said of the user is for that issuer, also when the provider has another one by now.
    id_token = browser_sessions.open_id_token(zone, session) if session.issuer == settings.issuer else None
    if id_token is not None:
        query["id_token_hint"] = id_token
    try:
        address = await services.openid.end_session_address(settings, query)
    except (ProviderRefused, OutboundRefused, OutboundFailed) as failure:
        log.warning("signed out of the zone alone", zone_id=zone.id, reason=str(failure))
        return None
    return NextStep(address, pre_login=pre_login) if address is not None else None
