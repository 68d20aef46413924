"""The logout endpoint, its confirmation page and the signed-out page.

Spec: OpenID Connect RP-Initiated Logout.
"""

from typing import Any

from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api import pages
from runtime.api.oauth.authorize import read_parameters
from runtime.api.oauth.browser import answering_pages, browser_of, follow, forget_session, read_own_form
from runtime.api.oauth.zone_routes import bind_zone_route
from runtime.api.shared.client_address import address_of
from runtime.domain.errors import BadLink, InvalidRequest
from runtime.services.authority import browser_sessions
from runtime.services.authorization import interactions
from runtime.services.authorization.next_step import NextStep, page_address
from runtime.services.container import Services
from runtime.services.login import upstream
from runtime.services.logout import flow, requests
from runtime.services.logout.requests import SIGN_OUT_FORM, LogoutRequest
from runtime.services.zones import CachedZone


def bind(app: Sanic[Any, Any]) -> None:
    """Serve sign-out of every zone."""
    bind_zone_route(app, logout, "/openid/logout", methods=("GET", "POST"))
    bind_zone_route(app, logout_callback, "/openid/logout/callback")
    bind_zone_route(app, show_sign_out, "/oauth/sign-out")
    bind_zone_route(app, sign_out, "/oauth/sign-out", methods=("POST",))
    bind_zone_route(app, show_signed_out, "/oauth/signed-out")


@answering_pages
async def logout(request: Request, services: Services, zone: CachedZone) -> HTTPResponse:
    """Take an application's request: the user is signed out, or asked first.

    A form that another site sends comes without cookies, so after one the browser is sent on to a page here.
    """
    wanted = await requests.check(services, zone, read_parameters(request))
    if request.method == "POST" or await flow.user_to_ask(services, zone, wanted, browser_of(request, zone)):
        handle = requests.seal_request(zone, wanted, services.clock())
        return follow(NextStep(page_address(zone, "sign-out", handle)), services, zone)
    return await _end(request, services, zone, wanted)


@answering_pages
async def logout_callback(request: Request, services: Services, zone: CachedZone) -> HTTPResponse:
    """Go on to where the user was to end up, after signing out of the zone's provider.

    Only in the browser that began it; any other sees that it is signed out.
    """
    try:
        state = read_parameters(request).one("state")
    except InvalidRequest as failure:
        raise BadLink(failure.detail) from None
    wanted = await requests.pop_request(services, zone.id, state, browser_of(request, zone).pre_login)
    if wanted.return_to is None:
        return await _signed_out(zone)
    return follow(NextStep(flow.destination(zone, wanted)), services, zone)


@answering_pages
async def show_sign_out(request: Request, services: Services, zone: CachedZone) -> HTTPResponse:
    """The page that asks whether the user wants to sign out."""
    handle = request.args.get("request")
    wanted = requests.open_request(zone, handle, services.clock())
    asked = await flow.user_to_ask(services, zone, wanted, browser_of(request, zone))
    if asked is None:
        return await _end(request, services, zone, wanted)
    return pages.page(
        zone,
        "sign-out",
        application=wanted.application,
        user=asked.user,
        handle=handle or "",
        form_token=interactions.new_form_token(services, zone.id, asked.session.id, SIGN_OUT_FORM),
    )


@answering_pages
async def sign_out(request: Request, services: Services, zone: CachedZone) -> HTTPResponse:
    """Sign the user out who has said so on this zone's page."""
    form = read_own_form(request, zone).values
    signed_in = await browser_sessions.current(services, zone, browser_of(request, zone).session)
    if signed_in is not None:
        handle, token, address = signed_in.session.id, form.get("form_token"), address_of(request)
        await interactions.consume_form_token(
            services, zone.id, handle, SIGN_OUT_FORM, token, address=address
        )
    wanted = requests.open_request(zone, form.get("request"), services.clock())
    return await _end(request, services, zone, wanted)


@answering_pages
async def show_signed_out(request: Request, services: Services, zone: CachedZone) -> HTTPResponse:
    """The page for who has signed out and is expected nowhere else."""
    return await _signed_out(zone)


async def _signed_out(zone: CachedZone) -> HTTPResponse:
    provider = await zone.user_provider()
    elsewhere = provider.name if provider and not upstream.has_single_logout(provider) else None
    return pages.page(zone, "signed-out", elsewhere=elsewhere)


async def _end(request: Request, services: Services, zone: CachedZone, wanted: LogoutRequest) -> HTTPResponse:
    step = await flow.end(services, zone, wanted, browser_of(request, zone))
    response = follow(step, services, zone)
    forget_session(response, zone)
    return response
