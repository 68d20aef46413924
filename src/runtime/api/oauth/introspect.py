"""The introspection endpoint: form in, authenticated caller, JSON out. Spec: RFC 7662."""

from typing import Any

from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api.oauth.addresses import bind_zone_route
from runtime.api.oauth.clients import GUESSING, refuse_query
from runtime.api.oauth.errors import NO_STORE, answering_oauth
from runtime.api.oauth.forms import Form, read_form
from runtime.api.shared.headers import header_of
from runtime.api.shared.senders import address_of
from runtime.domain.errors import InvalidRequest, OAuthError, TemporarilyUnavailable
from runtime.services.clients import authenticate_client
from runtime.services.exchange.trip import StaleView
from runtime.services.parts import Parts
from runtime.services.tokens.introspection import INACTIVE, introspect
from runtime.services.zones import ZoneView


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the introspection endpoint of every zone."""
    bind_zone_route(app, introspection, "/oauth/introspect", methods=("POST",), cors=True)


@answering_oauth
async def introspection(request: Request, zone_id: str) -> HTTPResponse:
    """Answer whether a token is good, and what it says."""
    refuse_query(request)
    told = await respond(
        request.app.ctx.parts,
        zone_id,
        read_form(request.body, request.headers.get("content-type")),
        authorization=header_of(request, "authorization"),
        address=address_of(request),
    )
    return HTTPResponse(told, headers=NO_STORE, content_type="application/json")


async def respond(
    parts: Parts, zone_id: str, form: Form, *, authorization: str | None, address: str
) -> bytes:
    """The JSON object that answers the question.

    It is begun on the view of the zone at hand: the one trip tells whether that still stands, and when it
    does not, nothing that was concluded from it counts. An assertion can be used only once, so with one the
    view is a settled one from the start.

    Raises: OAuthError; NotFound for an unknown zone.
    """
    held = None if "client_assertion" in form.values else parts.zones.held(zone_id)
    view = held or await parts.zones.view(zone_id)
    told, failure = INACTIVE, None
    try:
        told = await _told(parts, view, form, authorization, address)
    except (StaleView, OAuthError) as refusal:
        failure = refusal
    if told is INACTIVE and held is not None and await parts.zones.view(zone_id) is not held:
        return await respond(parts, zone_id, form, authorization=authorization, address=address)
    if isinstance(failure, StaleView):
        raise TemporarilyUnavailable(
            "please try again shortly", internal="the published epoch is ahead of the database"
        )
    if failure is not None:
        raise failure
    return told


async def _told(parts: Parts, view: ZoneView, form: Form, authorization: str | None, address: str) -> bytes:
    client = await authenticate_client(
        parts, view, form.values, authorization=authorization, address=address, guessing=GUESSING
    )
    token = form.values.get("token")
    if token is None:
        raise InvalidRequest("`token` is missing")
    return await introspect(parts, view, client, token, parts.clock())
