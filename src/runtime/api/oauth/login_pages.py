"""The zone's sign-in page, for a zone without an identity provider."""

from typing import Any

from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api import pages
from runtime.api.oauth.browser import answering_pages, browser_of, follow, read_own_form
from runtime.api.oauth.sign_in_reasons import reason_of
from runtime.api.oauth.zone_routes import bind_zone_route
from runtime.api.pages import Mistake
from runtime.services.authority import admission
from runtime.services.authorization import interactions
from runtime.services.authorization.interactions import PendingLogin
from runtime.services.container import Services
from runtime.services.decision_log import current_decision
from runtime.services.login import flow
from runtime.services.login import password as local
from runtime.services.zones import CachedZone

_WRONG = Mistake(None, "Wrong e-mail address or password. Check both and try again.")


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the sign-in page of every zone, and the style sheet of all pages."""
    bind_zone_route(app, show_sign_in, "/oauth/sign-in")
    bind_zone_route(app, sign_in, "/oauth/sign-in", methods=("POST",))
    bind_zone_route(app, style, "/oauth/style.css")


@answering_pages
async def show_sign_in(request: Request, services: Services, zone: CachedZone) -> HTTPResponse:
    """The page that asks for address and password."""
    admission.require_local(zone.entity)
    handle = request.args.get("request")
    interaction = await interactions.find(services, zone.id, handle, browser_of(request, zone).pre_login)
    return await _page(services, zone, handle, interaction)


@answering_pages
async def sign_in(request: Request, services: Services, zone: CachedZone) -> HTTPResponse:
    """Sign in with address and password."""
    browser = browser_of(request, zone)
    form = read_own_form(request, zone).values
    handle = form.get("request", "")
    interaction = await interactions.find(services, zone.id, handle, browser.pre_login)
    token = form.get("form_token")
    await interactions.consume_form_token(
        services, zone.id, handle, "sign-in", token, address=browser.address
    )
    email, password = form.get("email", ""), form.get("password", "")
    try:
        found = await local.authenticate(services, zone, email, password, address=browser.address)
    except local.WrongPassword as refusal:
        current_decision().refuse(refusal)
        return await _page(services, zone, handle, interaction, email=email, mistake=_WRONG)
    step = await flow.complete_password_login(
        services, zone, handle, interaction, found.user, browser, password_hash=found.password_hash
    )
    return follow(step, services, zone)


async def style(request: Request, _zone_id: str) -> HTTPResponse:
    """The style sheet of all pages; its address changes with its content."""
    return pages.style_sheet(request.headers.get("if-none-match"))


async def _page(
    services: Services,
    zone: CachedZone,
    handle: str,
    interaction: PendingLogin,
    *,
    email: str | None = None,
    mistake: Mistake | None = None,
) -> HTTPResponse:
    asked = interaction.request
    return pages.page(
        zone,
        "sign-in",
        status=400 if mistake else 200,
        reason=await reason_of(services, zone, interaction),
        handle=handle,
        form_token=interactions.new_form_token(services, zone.id, handle, "sign-in"),
        email=email if email is not None else asked.login_hint or "",
        mistake=mistake,
        may_register=asked.invitation is not None or not zone.entity.requires_invitation,
    )
