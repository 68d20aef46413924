"""The revocation list, for servers that verify the zone's tokens by themselves."""

from typing import Any

from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api.oauth.errors import answering_oauth
from runtime.api.oauth.zone_routes import bind_zone_route
from runtime.api.shared.etags import seen
from runtime.domain.oauth.forms import parse_form
from runtime.services.container import Services
from runtime.services.revocation_list import TYPE

_JSON, _SIGNED = "application/json", f"application/{TYPE}"
# Whoever polls decides how soon it knows; nobody in between may make that longer.
_HEADERS = {"Cache-Control": "max-age=1, must-revalidate", "Vary": "Accept"}


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the delta of every zone."""
    bind_zone_route(app, revocations, "/.well-known/revocations", cors=True)


@answering_oauth
async def revocations(request: Request, zone_id: str) -> HTTPResponse:
    """What was revoked since the cursor in `since`, or all that still matters; signed, if asked for that.

    The tag is that of the list: a caller that has it goes on with the cursor it has. A signed list has none:
    an answer without it, 304, would be signed by nobody.
    """
    services: Services = request.app.ctx.services
    since = parse_form(request.query_string.encode()).values.get("since")
    zone = await services.zones.get(zone_id)
    if _names_signed(request.headers.get("accept", "")):
        signed = await services.revocations.signed_since(zone, since)
        return HTTPResponse(signed, headers=_HEADERS, content_type=_SIGNED)
    told = await services.revocations.since(zone, since)
    tag = f'"{told.tag}"'
    headers = {**_HEADERS, "ETag": f"W/{tag}"}
    if seen(request.headers.get("if-none-match"), tag):
        return HTTPResponse(status=304, headers=headers)
    return HTTPResponse(told.body, headers=headers, content_type=_JSON)


def _names_signed(accept: str) -> bool:
    """Tell whether the signed list is asked for by its own media type; every other caller gets JSON."""
    return any(each.partition(";")[0].strip().lower() == _SIGNED for each in accept.split(","))
