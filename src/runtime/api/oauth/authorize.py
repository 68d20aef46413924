"""The authorization endpoint. Spec: RFC 6749 section 4.1.1, RFC 9207, RFC 8707; OpenID Connect Core 3.1.2."""

from typing import Any
from urllib.parse import unquote_plus, urlencode

from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api.oauth.browser import answering_pages, browser_of, follow
from runtime.api.oauth.zone_routes import bind_zone_route
from runtime.domain.errors import BadLink, OAuthError, TemporarilyUnavailable, Unavailable
from runtime.domain.oauth.forms import CONTENT_TYPE
from runtime.services.authorization import next_step, pushed_authorization_requests, requests, throttling
from runtime.services.authorization.next_step import NextStep
from runtime.services.authorization.requests import Parameters
from runtime.services.client_types import Client
from runtime.services.container import Services
from runtime.services.decision_log import current_decision
from runtime.services.login import flow
from runtime.services.zones import CachedZone

_MAX_BYTES = 64 * 1024
_MAX_PARAMETERS = 200


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the authorization endpoint of every zone."""
    bind_zone_route(app, authorize, "/oauth/authorize", methods=("GET", "POST"))


@answering_pages
async def authorize(request: Request, services: Services, zone: CachedZone) -> HTTPResponse:
    """Begin a sign-in: a redirect that goes on or says what is wrong, a page when nobody can be answered.

    A form that another site sends comes without cookies: after one the browser comes back with what it said.
    """
    browser = browser_of(request, zone)
    try:
        parameters = await pushed_authorization_requests.resolve_request_uri(
            services, zone, read_parameters(request)
        )
        client, address = await requests.resolve_client(services, zone, parameters)
        current_decision().name_client(client)
    except BadLink:
        await throttling.check_authorization_request_rate(services, zone, "", browser.address)
        raise
    try:
        if request.method == "POST" and browser.session is None:
            await throttling.check_stored_request_rate(services, zone, client, browser.address)
            kept = await pushed_authorization_requests.store_request(services, zone, client, parameters)
            return follow(NextStep(_address(zone, client, kept)), services, zone)
        wanted = await requests.check(services, zone, parameters, client=client, address=address)
        step = await flow.start_authorization(services, zone, wanted, browser)
    except OAuthError as failure:
        await throttling.check_authorization_request_rate(services, zone, client.client_id, browser.address)
        step = await next_step.refused(services, zone, client, address, failure, browser)
    except Unavailable:
        refusal = TemporarilyUnavailable("please try again shortly")
        step = await next_step.refused(services, zone, client, address, refusal, browser)
    return follow(step, services, zone)


def _address(zone: CachedZone, client: Client, request_uri: str) -> str:
    """Where a request that is kept here goes on."""
    named = urlencode({"client_id": client.client_id, "request_uri": request_uri})
    return f"{zone.entity.protocols.oauth2.authorization_endpoint}?{named}"


def read_parameters(request: Request) -> Parameters:
    """The parameters of the query, or of the form that came instead. Raises BadLink."""
    encoded = request.query_string
    if request.method == "POST":
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type != CONTENT_TYPE:
            raise BadLink("the content type must be `application/x-www-form-urlencoded`")
        encoded = request.body.decode("utf-8", "replace")
    if len(encoded) > _MAX_BYTES:
        raise BadLink("the request is too long")
    pieces = [piece for piece in encoded.split("&") if piece]
    if len(pieces) > _MAX_PARAMETERS:
        raise BadLink("the request cannot be read")
    try:
        pairs = [_pair(piece) for piece in pieces]
    except UnicodeDecodeError:
        raise BadLink("the request cannot be read") from None
    if any("\0" in name or "\0" in value for name, value in pairs):  # PostgreSQL stores none
        raise BadLink("a parameter has a NUL character (`%00`); go back to the application and try again")
    return Parameters(pairs)


def _pair(piece: str) -> tuple[str, str]:
    """Name and value of a parameter. Raises UnicodeDecodeError. Most have nothing to decode."""
    name, _, value = piece.partition("=")
    return _decoded(name), _decoded(value)


def _decoded(encoded: str) -> str:
    return unquote_plus(encoded, errors="strict") if "%" in encoded or "+" in encoded else encoded
