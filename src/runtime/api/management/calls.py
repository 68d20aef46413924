"""A management API request: the caller, the matched route, and the parsed path, query and body."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api.management.list_queries import list_query
from runtime.api.shared.cursors import Cursors
from runtime.api.shared.json_bodies import MAX_BODY_BYTES, read_json
from runtime.api.shared.queries import one
from runtime.api.shared.request_ids import request_id_of
from runtime.contract.routes import Route
from runtime.services.container import Services
from runtime.services.management.access.caller import Caller
from runtime.services.management.listing import ListQuery
from runtime.services.management.unit_of_work import UnitOfWork, read_only, unit_of_work
from runtime.services.zone_keys import PreparedKeys

# What the path calls its parameters -> what services call them.
_NAMES = {
    "zoneId": "zone_id",
    "groupId": "group_id",
    "userId": "user_id",
    "roleId": "role_id",
    "dependencyId": "resource_id",
    "organizationUserId": "organization_user_id",
}


@dataclass
class Call:
    """A request whose caller is known.

    Attributes:
        path: the path parameters by the names that services use: `zone_id`, `policy_id`, `id`, ...
        query: the query parameters, each checked by itself.
    """

    request: Request
    services: Services
    caller: Caller
    route: Route
    path: Mapping[str, str]
    query: Mapping[str, tuple[str, ...]]

    @property
    def id(self) -> str:
        """The id of the entity that the path ends in."""
        kind = self.route.kind
        return self.path[path_name(kind.item)] if kind else self.path["id"]

    @cached_property
    def expands(self) -> frozenset[str]:
        """The expand values that were asked for and mean something here."""
        return frozenset(self.query.get("expand[]", ())) & frozenset(self.route.expands)

    def parameter(self, name: str, *older: str) -> str | None:
        """The one value of a query parameter."""
        return one(self.query, name, *older)

    @cached_property
    def cursors(self) -> Cursors:
        """The cursors of the list that this request asks for."""
        chosen = {
            name: sorted(values)
            for name, values in self.query.items()
            if name not in ("after", "before", "cursor", "limit", "expand[]", "format")
        }
        bound_to = repr(
            (
                self.route.operation_id,
                self.caller.organization_id,
                sorted(self.path.items()),
                sorted(chosen.items()),
            )
        )
        return Cursors(self.services.cursors, sha256(bound_to.encode()).hexdigest(), self.services.clock())

    def list_query(self) -> ListQuery:
        """What the list is asked. Raises ValidationFailed."""
        return list_query(self.route, self.query, self.expands, self.cursors)

    def body(self, *, limit: int = MAX_BODY_BYTES) -> Any:
        """The JSON value of the body. Raises BadRequest, TooLarge."""
        return read_json(self.request.body, self.request.headers.get("content-type"), limit=limit)

    @property
    def if_match(self) -> str | None:
        """The ETag that the caller has seen."""
        return self.request.headers.get("if-match")

    @property
    def request_id(self) -> str:
        """The id under which this request is logged and recorded."""
        return request_id_of(self.request)

    def reading(self, *, brief: bool = False) -> AbstractAsyncContextManager[UnitOfWork]:
        """A unit for what changes nothing.

        Args:
            brief: a few statements, each about a few rows found by their keys.
        """
        return read_only(self.services, self.caller, self.request_id, brief=brief)

    def writing(self, prepared: PreparedKeys | None = None) -> AbstractAsyncContextManager[UnitOfWork]:
        """A unit that commits when its block ends well.

        Args:
            prepared: the keys of zones that it makes or changes.
        """
        zone_ids = [self.path["zone_id"]] if "zone_id" in self.path else []
        return unit_of_work(self.services, self.caller, self.request_id, prepared=prepared, zone_ids=zone_ids)


# None: the handler has sent its answer itself, line by line.
Handler = Callable[[Call], Awaitable[HTTPResponse | None]]


def path_name(parameter: str) -> str:
    """What services call a path parameter."""
    return _NAMES.get(parameter, parameter)
