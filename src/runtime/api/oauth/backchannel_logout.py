"""The back-channel logout endpoint: receives logout tokens from the zone's identity provider.

Spec: OpenID Connect Back-Channel Logout section 2.5.
"""

from typing import Any

from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse, text

from runtime.api.oauth.errors import NO_STORE, answering_oauth
from runtime.api.oauth.zone_routes import bind_zone_route
from runtime.domain.errors import InvalidRequest, Unavailable
from runtime.domain.oauth.forms import read_form
from runtime.services.container import Services
from runtime.services.logout import backchannel_receiver


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the back-channel logout address of every zone."""
    bind_zone_route(app, receive, "/openid/backchannel", methods=("POST",))


@answering_oauth
async def receive(request: Request, zone_id: str) -> HTTPResponse:
    """End what the logout token means. 200, or 400 for whatever went wrong: the standard knows no third."""
    services: Services = request.app.ctx.services
    form = read_form(request.body, request.headers.get("content-type"))
    zone = await services.zones.get(zone_id)
    try:
        await backchannel_receiver.receive(services, zone, form.values.get("logout_token"))
    except Unavailable as failure:
        raise InvalidRequest(
            "the logout failed; send the logout token again", internal=failure.detail
        ) from None
    return text("", headers=NO_STORE)
