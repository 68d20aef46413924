"""The consent page: asks a user whether an application may act on their behalf."""

from typing import Any

from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api import pages
from runtime.api.oauth.browser import answering_pages, browser_of, follow, read_own_form
from runtime.api.oauth.zone_routes import bind_zone_route
from runtime.domain.errors import InvalidRequest
from runtime.services.authorization import consent_flow, interactions
from runtime.services.container import Services
from runtime.services.zones import CachedZone


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the consent page of every zone."""
    bind_zone_route(app, show_consent, "/oauth/consent")
    bind_zone_route(app, consent, "/oauth/consent", methods=("POST",))


@answering_pages
async def show_consent(request: Request, services: Services, zone: CachedZone) -> HTTPResponse:
    """What the application asks for, in words, and where the answer goes."""
    browser = browser_of(request, zone)
    handle = request.args.get("request")
    interaction = await interactions.find(services, zone.id, handle, browser.pre_login)
    question, user = await consent_flow.find_prompt(services, zone, interaction, browser)
    return pages.page(
        zone,
        "consent",
        question=question,
        user=user,
        handle=handle,
        form_token=interactions.new_form_token(services, zone.id, handle, "consent"),
    )


@answering_pages
async def consent(request: Request, services: Services, zone: CachedZone) -> HTTPResponse:
    """Take the user's decision, once."""
    browser = browser_of(request, zone)
    form = read_own_form(request, zone).values
    handle = form.get("request", "")
    token = form.get("form_token")
    await interactions.consume_form_token(
        services, zone.id, handle, "consent", token, address=browser.address
    )
    interaction = await interactions.find(services, zone.id, handle, browser.pre_login)
    if form.get("decision") not in ("allow", "deny"):
        raise InvalidRequest("`decision` must be `allow` or `deny`")
    allowed = form.get("decision") == "allow"
    return follow(
        await consent_flow.complete_consent(services, zone, handle, interaction, browser, allowed=allowed),
        services,
        zone,
    )
