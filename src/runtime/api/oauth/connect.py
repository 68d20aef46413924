"""The connect page: a user authorizes an application that was refused, where its `error_uri` leads."""

from typing import Any, Final

from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api import pages
from runtime.api.oauth.authorize import read_parameters
from runtime.api.oauth.browser import answering_pages, browser_of, follow, read_own_form
from runtime.api.oauth.zone_routes import bind_zone_route
from runtime.domain.errors import BadLink, InvalidRequest, WrongUser
from runtime.services.authority import browser_sessions
from runtime.services.authority.browser_sessions import Browser
from runtime.services.authorization import interactions
from runtime.services.authorization.next_step import NextStep
from runtime.services.authorization.requests import Parameters, ZonePageRequest
from runtime.services.connect import flow as connect_flow
from runtime.services.connect.flow import ConnectPrompt, SignInNeeded
from runtime.services.connect.outcomes import Connected, ConnectOutcome
from runtime.services.connect.requests import ConnectRequest, SignInChoice, read_request
from runtime.services.container import Services
from runtime.services.decision_log import current_decision
from runtime.services.login import flow as login_flow
from runtime.services.logout import requests as logout_requests
from runtime.services.logout.requests import SIGN_OUT_FORM, LogoutRequest
from runtime.services.zones import CachedZone

_FORM = "connect"
_PAGE: Final = "oauth/connect"


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the connect page of every zone."""
    bind_zone_route(app, show_connect, "/oauth/connect")
    bind_zone_route(app, connect, "/oauth/connect", methods=("POST",))


@answering_pages
async def show_connect(request: Request, services: Services, zone: CachedZone) -> HTTPResponse:
    """Who asks, and for what; without a link what else the user can do.

    Other parameters than the link's are looked up by nobody, so that the page tells nobody what a zone has,
    and has no words of a stranger's on it.
    """
    asked, browser = read_request(read_parameters(request)), browser_of(request, zone)
    if asked is None:
        return pages.page(zone, "connect-hint")
    try:
        found = await connect_flow.open_link(services, zone, asked, browser)
    except SignInNeeded:
        return await _sign_in(services, zone, asked, browser)
    except WrongUser as refusal:
        return await _offer_sign_out(services, zone, asked, browser, refusal)
    if isinstance(found, Connected):
        return show_connected(zone, found)
    return _ask(services, zone, asked, found)


@answering_pages
async def connect(request: Request, services: Services, zone: CachedZone) -> HTTPResponse:
    """Take the user's decision, once; the page again where it would say something else by now."""
    browser = browser_of(request, zone)
    form = read_own_form(request, zone).values
    asked = read_request(Parameters(form.items()))
    if asked is None:
        raise BadLink("the form has no `link`; go back to the application and try again")
    try:
        shown = form.get("shown", "")
        handle = await connect_flow.handle_of(services, zone, asked, browser, shown)
        await interactions.consume_form_token(
            services, zone.id, handle, _FORM, form.get("form_token"), address=browser.address
        )
        if form.get("decision") not in ("allow", "deny"):
            raise InvalidRequest("`decision` must be `allow` or `deny`")
        outcome = await connect_flow.decide(
            services,
            zone,
            asked,
            browser,
            allowed=form.get("decision") == "allow",
            credential=form.get("credential", ""),
            shown=shown,
        )
    except SignInNeeded:
        return await _sign_in(services, zone, asked, browser)
    if isinstance(outcome, ConnectPrompt):
        return _ask(services, zone, asked, outcome, has_changed=True)
    return show_outcome(services, zone, outcome)


def show_outcome(services: Services, zone: CachedZone, outcome: ConnectOutcome) -> HTTPResponse:
    """Back to the application, or the page that says what it may do now."""
    if isinstance(outcome, NextStep):
        return follow(outcome, services, zone)
    return show_connected(zone, outcome)


def show_connected(zone: CachedZone, done: Connected) -> HTTPResponse:
    """The page that says what the application may do now."""
    return pages.page(zone, "connected", done=done)


def _ask(
    services: Services,
    zone: CachedZone,
    asked: ConnectRequest,
    question: ConnectPrompt,
    *,
    has_changed: bool = False,
) -> HTTPResponse:
    """The page with the question."""
    return pages.page(
        zone,
        "connect",
        question=question,
        asked=asked,
        has_changed=has_changed,
        form_token=interactions.new_form_token(services, zone.id, question.handle, _FORM),
    )


async def _sign_in(
    services: Services, zone: CachedZone, asked: ConnectRequest, browser: Browser
) -> HTTPResponse:
    """Send the user to sign in and come back, knowing what for.

    The zone's own sign-in page says so itself; an identity provider's does not, so a page here does before.
    """
    prompt = await connect_flow.describe_link(services, zone, asked)
    if asked.sign_in is None and (provider := await zone.user_provider()) is not None:
        return pages.page(
            zone,
            "connect-sign-in",
            client=prompt,
            provider=provider.name,
            asked=asked,
            choice=SignInChoice.START,
        )
    another = frozenset({"select_account"}) if asked.sign_in is SignInChoice.ANOTHER_USER else frozenset()
    page = ZonePageRequest(page=_PAGE, query=asked.query, prompts=another)
    return follow(await login_flow.start_page_login(services, zone, page, browser), services, zone)


async def _offer_sign_out(
    services: Services, zone: CachedZone, asked: ConnectRequest, browser: Browser, refusal: WrongUser
) -> HTTPResponse:
    """Say that the link is another user's, not whose, and offer to sign out and come back to it, unused."""
    signed_in = await browser_sessions.current(services, zone, browser.session)
    if signed_in is None:
        return await _sign_in(services, zone, asked, browser)
    current_decision().refuse(refusal)
    back = LogoutRequest(return_to=f"{zone.issuer}/{_PAGE}?{asked.query_of(SignInChoice.ANOTHER_USER)}")
    return pages.page(
        zone,
        "wrong-user",
        status=refusal.status,
        email=str(signed_in.user.email),
        handle=logout_requests.seal_request(zone, back, services.clock()),
        form_token=interactions.new_form_token(services, zone.id, signed_in.session.id, SIGN_OUT_FORM),
    )
