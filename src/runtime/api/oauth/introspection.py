"""The introspection endpoint: form in, authenticated caller, JSON out. Spec: RFC 7662."""

from typing import Any

from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api.oauth.client_authentication import refuse_query
from runtime.api.oauth.errors import NO_STORE, answering_oauth
from runtime.api.oauth.zone_routes import bind_zone_route
from runtime.api.shared.client_address import address_of
from runtime.api.shared.headers import header_of
from runtime.api.shared.request_ids import request_id_of
from runtime.domain.oauth.forms import read_form
from runtime.services.tokens import introspection


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the introspection endpoint of every zone."""
    bind_zone_route(app, introspect, "/oauth/introspect", methods=("POST",), cors=True)


@answering_oauth
async def introspect(request: Request, zone_id: str) -> HTTPResponse:
    """Answer whether a token is good, and what it says."""
    refuse_query(request)
    told = await introspection.respond(
        request.app.ctx.services,
        zone_id,
        read_form(request.body, request.headers.get("content-type")),
        authorization=header_of(request, "authorization"),
        address=address_of(request),
        request_id=request_id_of(request),
    )
    return HTTPResponse(told, headers=NO_STORE, content_type="application/json")
