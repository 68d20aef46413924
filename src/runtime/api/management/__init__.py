"""The HTTP handlers of the management API: every route of the contract, bound to its handler."""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import wraps
from typing import Any

from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api.management import (
    bundles,
    changes,
    decisions,
    generic,
    invitations,
    organizations,
    people,
    policies,
    sso,
    zone_members,
    zones,
)
from runtime.api.management.calls import Call, Handler, path_name
from runtime.api.management.tokens import create_token
from runtime.api.oauth.dpop_headers import presented_of
from runtime.api.shared.queries import read_query
from runtime.api.shared.request_ids import check_client_request_id
from runtime.contract.routes import ROUTES, Route
from runtime.domain.errors import NotFound
from runtime.services.management.authentication.callers import authenticate

Served = Callable[..., Coroutine[Any, Any, HTTPResponse | None]]
HANDLERS: dict[str, Handler] = {
    **organizations.HANDLERS,
    **sso.HANDLERS,
    **zone_members.HANDLERS,
    **zones.HANDLERS,
    **people.HANDLERS,
    **policies.HANDLERS,
    **changes.HANDLERS,
    **decisions.HANDLERS,
}
# Operations that need no credential: they read the request themselves.
OPEN: dict[str, Served] = {
    "service_account_token.create": create_token,
    "invitations.retrieve": invitations.retrieve,
    "invitations.accept": invitations.accept,
}
_MAX_PATH_VALUE = 255


def handler_of(route: Route) -> Handler | bundles.Handler:
    """The handler that serves a route. Raises KeyError for one that nothing serves."""
    if route.zone_token:
        return bundles.HANDLERS[route.operation_id]
    return _handler_of(route)


def _handler_of(route: Route) -> Handler:
    if route.verb is not None and route.kind is not None:
        return generic.handler_of(route.kind, route.verb)
    return HANDLERS[route.operation_id]


def bind(app: Sanic[Any, Any]) -> None:
    """Serve every route of the contract."""
    for route in ROUTES:
        if route.open:
            open_to_all = OPEN[route.operation_id]
            if open_to_all is not create_token:  # which tells it as OAuth does
                open_to_all = _with_known_parameters(route, open_to_all)
            _add(app, route, open_to_all)
        elif route.zone_token:
            served = _with_known_parameters(route, bundles.HANDLERS[route.operation_id])
            _add(app, route, served, streamed=bool(route.body))
        else:
            _bind(app, route, _handler_of(route))


def _bind(app: Sanic[Any, Any], route: Route, handler: Handler) -> None:
    uuid = route.path.startswith("/organizations")
    large = route.operation_id == "changesets.create"

    async def serve(request: Request, **path: str) -> HTTPResponse | None:
        services = request.app.ctx.services
        address = f"{services.settings.public_url}{request.path}"
        presented = presented_of(request, address)
        caller = await authenticate(services, presented)
        check_client_request_id(request, uuid=uuid)
        if any(len(value) > _MAX_PATH_VALUE for value in path.values()):
            raise NotFound("there is nothing at this address")
        named = {path_name(name): value for name, value in path.items()}
        # Before anything is done: a write that is refused for its parameters has written nothing.
        call = Call(request, services, caller, route, named, read_query(route, request.query_string))
        if not large:
            return await handler(call)
        async with changes.admitted(call):
            await request.receive_body()  # type: ignore[no-untyped-call]
            # That may have taken minutes, and the caller may be nobody any more, or have other roles.
            again = await authenticate(services, presented and replace(presented, proved=caller.jkt))
            return await handler(replace(call, caller=again))

    _add(app, route, serve, streamed=large)


def _with_known_parameters(route: Route, handler: Served) -> Served:
    """The handler of a route whose caller it finds out itself, for requests without any other parameter."""

    @wraps(handler)
    async def serve(request: Request, **path: str) -> HTTPResponse | None:
        read_query(route, request.query_string)
        return await handler(request, **path)

    return serve


def _add(app: Sanic[Any, Any], route: Route, served: Served, *, streamed: bool = False) -> None:
    path = route.path.replace("{", "<").replace("}", ":str>")
    app.add_route(served, path, methods=[route.method], name=_name(route), stream=streamed)


def _name(route: Route) -> str:
    return f"management_{route.operation_id.replace('.', '_')}"
