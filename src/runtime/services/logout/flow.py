"""From a logout request to its end: must the user be asked, then the session's end, then onward.

What ends is the browser's session with every application's session below it, their refresh tokens, and so
every exchange that starts there. What was granted for offline use goes on: that is what it was asked for.
"""

from runtime.adapters.identity_providers.answers import ProviderRefused
from runtime.adapters.outbound import OutboundFailed, OutboundRefused
from runtime.logs import log
from runtime.services import epochs
from runtime.services.authority import browser_sessions, end_events, revocation
from runtime.services.authority.browser_sessions import Browser, SignedIn
from runtime.services.authority.end_events import Ending
from runtime.services.login import upstream
from runtime.services.logout import requests
from runtime.services.logout.requests import SignOutRequest
from runtime.services.parts import Parts
from runtime.services.zones import ZoneView
from runtime.storage.sql.sessions import Session


async def whom_to_ask(
    parts: Parts, view: ZoneView, request: SignOutRequest, browser: Browser
) -> SignedIn | None:
    """The user who has to say yes first; None when nobody is signed in, or the ID token is that user's.

    Anybody can send a browser here; only an application that signed the user in has such a token.
    """
    signed_in = await browser_sessions.current(parts, view, browser.session)
    if signed_in is None or signed_in.user.identifier == request.subject:
        return None
    return signed_in


async def end(parts: Parts, view: ZoneView, request: SignOutRequest, browser: Browser) -> str:
    """End the browser's session; the address to go on to, which may be the provider's.

    Where nobody is signed in a link through here would lead to whatever address somebody has registered: an
    application that registered itself is returned to only by who was its user until now.
    Spec: RFC 9700 section 4.11.2.
    """
    signed_in = await browser_sessions.current(parts, view, browser.session)
    if signed_in is None:
        return _own_page(view) if request.self_registered else destination(view, request)
    onward = await _provider_address(parts, view, request, signed_in.session)
    ending = Ending("sign-out", view.organization_id, view.id, signed_in.user.id, signed_in.session.id)
    async with epochs.transaction(parts) as (conn, bumped):
        bumped.update(await revocation.revoke(conn, parts, view.id, signed_in.session.id))
        await end_events.record(conn, [ending], now=parts.clock())
    parts.outbox.poke()
    return onward or destination(view, request)


def destination(view: ZoneView, request: SignOutRequest) -> str:
    """Where the browser ends up."""
    return request.return_to or _own_page(view)


def _own_page(view: ZoneView) -> str:
    return f"{view.issuer}/oauth/signed-out"


async def _provider_address(
    parts: Parts, view: ZoneView, request: SignOutRequest, session: Session
) -> str | None:
    """Where to sign out of the session's provider; None when that is not wanted, or not possible now."""
    provider = await view.provider(session.provider_id) if session.provider_id else None
    if provider is None or not upstream.leaves_together(provider):
        return None
    query = {
        "post_logout_redirect_uri": view.zone.protocols.oauth2.post_logout_redirect_uri,
        "state": await requests.keep(parts, view.id, request),
    }
    if (id_token := browser_sessions.open_id_token(view, session)) is not None:
        query["id_token_hint"] = id_token
    try:
        return await parts.openid.end_session_address(upstream.provider_settings(view, provider), query)
    except (ProviderRefused, OutboundRefused, OutboundFailed) as failure:
        log.warning("signed out of the zone alone", zone_id=view.id, reason=str(failure))
        return None
