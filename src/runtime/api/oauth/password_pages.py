"""Pages on which users get another password: by a link in a mail, or on the account page."""

from typing import Any

from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api import pages
from runtime.api.oauth.browser import answering_pages, browser_of, forget_session, read_own_form
from runtime.api.oauth.zone_routes import bind_zone_route
from runtime.api.pages import Mistake
from runtime.domain.errors import ValidationFailed
from runtime.services.authority import admission, password_reset_links
from runtime.services.authority.credential_rules import MIN_PASSWORD_CHARS
from runtime.services.authorization import interactions
from runtime.services.container import Services
from runtime.services.decision_log import current_decision
from runtime.services.login import password_reset
from runtime.services.zones import CachedZone

_FORGOT, _RESET = "forgot-password", "reset-password"


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the pages of every zone."""
    bind_zone_route(app, show_forgot, f"/oauth/{_FORGOT}")
    bind_zone_route(app, request_link, f"/oauth/{_FORGOT}", methods=("POST",))
    bind_zone_route(app, show_reset, f"/oauth/{_RESET}")
    bind_zone_route(app, reset, f"/oauth/{_RESET}", methods=("POST",))


@answering_pages
async def show_forgot(request: Request, services: Services, zone: CachedZone) -> HTTPResponse:
    """The page that asks for an e-mail address to send a link to."""
    admission.require_local(zone.entity)
    return _forgot(services, zone)


@answering_pages
async def request_link(request: Request, services: Services, zone: CachedZone) -> HTTPResponse:
    """Send the link. The answer is the same whether or not the address has an account."""
    browser = browser_of(request, zone)
    form = read_own_form(request, zone).values
    await interactions.consume_form_token(
        services, zone.id, _FORGOT, _FORGOT, form.get("form_token"), address=browser.address
    )
    email = form.get("email", "")
    try:
        await password_reset.request(services, zone, email, address=browser.address)
    except ValidationFailed as failure:
        current_decision().refuse(failure)
        return _forgot(services, zone, email=email, mistake=pages.mistake_of(failure))
    return _forgot(services, zone, email=email.strip(), is_sent=True)


@answering_pages
async def show_reset(request: Request, services: Services, zone: CachedZone) -> HTTPResponse:
    """The page that a link opens. Programs that look at links in mails use nothing up."""
    link = request.args.get("link", "")
    found = await password_reset_links.find(services, zone, link)
    return _reset(services, zone, link, email=found.user.email)


@answering_pages
async def reset(request: Request, services: Services, zone: CachedZone) -> HTTPResponse:
    """Replace the password, once."""
    browser = browser_of(request, zone)
    form = read_own_form(request, zone).values
    link, password = form.get("link", ""), form.get("password", "")
    await interactions.consume_form_token(
        services, zone.id, link, _RESET, form.get("form_token"), address=browser.address
    )
    try:
        email = await password_reset.reset(services, zone, link, password, address=browser.address)
    except ValidationFailed as failure:
        current_decision().refuse(failure)
        found = await password_reset_links.find(services, zone, link)
        return _reset(services, zone, link, email=found.user.email, mistake=pages.mistake_of(failure))
    done = _reset(services, zone, None, email=email)
    forget_session(done, zone)
    return done


def _forgot(
    services: Services,
    zone: CachedZone,
    *,
    email: str = "",
    mistake: Mistake | None = None,
    is_sent: bool = False,
) -> HTTPResponse:
    return pages.page(
        zone,
        _FORGOT,
        status=400 if mistake else 200,
        email=email,
        mistake=mistake,
        is_sent=is_sent,
        minutes=password_reset_links.LINK_MINUTES,
        form_token=interactions.new_form_token(services, zone.id, _FORGOT, _FORGOT),
    )


def _reset(
    services: Services, zone: CachedZone, link: str | None, *, email: str, mistake: Mistake | None = None
) -> HTTPResponse:
    """The form; without a link what is shown once the password has been replaced."""
    return pages.page(
        zone,
        _RESET,
        status=400 if mistake else 200,
        link=link,
        email=email,
        mistake=mistake,
        form_token=interactions.new_form_token(services, zone.id, link or "", _RESET),
        min_password_chars=MIN_PASSWORD_CHARS,
    )
