"""Routes of zones: by path (`/z/{zone}`) or by host.

In path mode zones stand at `/z/{zone}`; in host mode each has a host of its own. Handlers are the same:
they get the zone's id, and nothing they answer is made from the request's host. Of a zone that was moved that
only chooses which of the addresses it is that are stored with it.
"""

import re
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any
from urllib.parse import urlsplit

from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse, json

from runtime.api.shared.client_address import scheme_of
from runtime.domain import zone_addresses
from runtime.domain.errors import NotFound
from runtime.domain.zone_addresses import SentTo
from runtime.services.address_uses import ADDRESS_USES
from runtime.services.container import Services
from runtime.services.zones import ASKED, AskedAddress
from runtime.settings import Settings

ZoneHandler = Callable[[Request, str], Coroutine[Any, Any, HTTPResponse]]
Handler = Callable[..., Coroutine[Any, Any, HTTPResponse]]
CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "WWW-Authenticate, DPoP-Nonce, Retry-After, X-Request-ID",
}
_PREFLIGHT = {
    **CORS,
    "Access-Control-Allow-Methods": "GET, HEAD, POST, OPTIONS",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, DPoP, MCP-Protocol-Version",
    "Access-Control-Max-Age": "3600",
}


def host_pattern(settings: Settings) -> re.Pattern[str] | None:
    """What the host of a zone looks like; None when zones stand at paths."""
    return zone_addresses.host_pattern(settings.zone_url_template, settings.public_url)


def is_of_a_zone(request: Request) -> bool:
    """Tell whether an address is one of some zone's, served or not."""
    hosts = host_pattern(request.app.ctx.settings)
    if hosts is None:
        return request.path.startswith("/z/") or "/z/" in request.path.partition("/.well-known/")[2]
    return hosts.match(request.headers.get("host", "").lower()) is not None


def bind_zone_route(
    app: Sanic[Any, Any],
    handler: ZoneHandler,
    uri: str,
    *,
    methods: tuple[str, ...] = ("GET",),
    cors: bool = False,
    insertion: bool = False,
    elsewhere: Handler | None = None,
) -> None:
    """Serve a handler at `{issuer}{uri}` of every zone.

    Args:
        cors: answer any origin, without credentials.
        insertion: serve it at `{origin}{uri}{issuer path}` too, where path mode puts well-known documents.
        elsewhere: what answers at that address of the service itself, which is no zone's.
    """
    settings: Settings = app.ctx.settings
    hosts = host_pattern(settings)
    by_slug = "{slug}" in settings.zone_url_template
    name = f"{handler.__module__.rpartition('.')[2]}.{handler.__name__}{uri}".replace("/", ".")
    # What scripts read is a document, which whoever only wants to know of it may ask about.
    served = (*methods, *(("HEAD",) if "GET" in methods else ()), "OPTIONS") if cors else methods
    bound = _answering(handler, uri, by_slug=by_slug, cors=cors)
    if hosts is not None:
        own = urlsplit(settings.public_url).netloc.lower()
        at_host = _at_host(bound, hosts, own, elsewhere)
        if uri.startswith("//"):  # the router drops an empty first segment, unless it is a parameter
            at_host, uri = _after_nothing(at_host), f"/<nothing:strorempty>{uri[1:]}"
        app.add_route(at_host, uri, methods=served, name=f"{name}.host")
        return
    if elsewhere is not None:
        app.add_route(elsewhere, uri, methods=served, name=f"{name}.elsewhere")
    app.add_route(bound, f"/z/<name:str>{uri}", methods=served, name=name)
    if insertion:
        app.add_route(bound, f"{uri}/z/<name:str>", methods=served, name=f"{name}.insertion")


def for_any_origin(handler: Handler) -> Handler:
    """The handler for scripts of any origin, without credentials. Spec: Fetch, section 3.2 (CORS)."""

    @wraps(handler)
    async def answer(request: Request, *arguments: Any, **named: Any) -> HTTPResponse:
        if request.method == "OPTIONS":
            return HTTPResponse(status=204, headers=_PREFLIGHT)
        response = await handler(request, *arguments, **named)
        response.headers.update(CORS)
        return response

    return answer


def _answering(handler: ZoneHandler, uri: str, *, by_slug: bool, cors: bool) -> Handler:
    @wraps(handler)
    async def answer(request: Request, name: str | None) -> HTTPResponse:
        services: Services = request.app.ctx.services
        sent_to = SentTo(scheme_of(request), request.headers.get("host", ""))
        if name is None:
            zone_id = await services.zones.find_at(sent_to, "")
        else:
            zone_id = await services.zones.locate(name, sent_to) if by_slug else name
        asked = AskedAddress(sent_to, zone_id)
        before = ASKED.set(asked)
        try:
            return await handler(request, zone_id)
        finally:
            ASKED.reset(before)
            if asked.former is not None:
                ADDRESS_USES.record(services, asked, uri)

    return for_any_origin(answer) if cors else answer


def _at_host(bound: Handler, hosts: re.Pattern[str], own: str, elsewhere: Handler | None) -> Handler:
    @wraps(bound)
    async def answer(request: Request) -> HTTPResponse:
        host = request.headers.get("host", "").lower()
        if elsewhere is not None and host == own:  # first: the service's own host may look like a zone's
            return await elsewhere(request)
        found = hosts.match(host)
        return await bound(request, found[1] if found is not None else None)

    return answer


def _after_nothing(handler: Handler) -> Handler:
    @wraps(handler)
    async def answer(request: Request, nothing: str) -> HTTPResponse:
        if nothing:
            raise NotFound("there is nothing at this address")
        return await handler(request)

    return answer


def not_found() -> HTTPResponse:
    """The answer for a zone that does not exist, in the words of OAuth's metadata documents."""
    told = {"error": "not_found", "error_description": "there is no such zone"}
    return json(told, status=404, headers={"Cache-Control": "no-store"})
