"""The redirection endpoint for outside providers: where users sign in, and where they connect accounts.

Spec: RFC 6749 section 3.1.2, RFC 9207; OpenID Connect Core section 3.1.2.5.
"""

from typing import Any

from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api.oauth.authorize import read_parameters
from runtime.api.oauth.browser import answering_pages, browser_of, follow
from runtime.api.oauth.connect import show_outcome
from runtime.api.oauth.zone_routes import bind_zone_route
from runtime.services.authorization import interactions
from runtime.services.connect import upstream as connections
from runtime.services.container import Services
from runtime.services.login import flow, upstream
from runtime.services.zones import CachedZone


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the callback of every zone."""
    bind_zone_route(app, callback, "/oauth/callback")


@answering_pages
async def callback(request: Request, services: Services, zone: CachedZone) -> HTTPResponse:
    """Finish a sign-in or a connection that this browser started here, and go on to the application."""
    browser, parameters = browser_of(request, zone), read_parameters(request)
    if connections.is_connection(parameters):
        outcome = await connections.handle_callback(services, zone, parameters, browser)
        return show_outcome(services, zone, outcome)
    try:
        back = await upstream.handle_callback(services, zone, parameters, browser.pre_login)
    except upstream.UpstreamRefused as away:
        await interactions.finish(services, zone.id, away.handle)
        step = await flow.refuse_authorization(services, zone, away.interaction, away.refusal, browser)
        return follow(step, services, zone)
    return follow(await flow.complete_upstream_login(services, zone, back, browser), services, zone)
