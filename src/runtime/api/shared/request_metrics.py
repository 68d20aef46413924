"""Latency of requests by endpoint and outcome, both of which have values from short lists.

The endpoint is a path as its route has it (`/oauth/token`), or `management` with an operation. The operations
that each kind of entity has alike are one endpoint each, as `management create`. The outcome is the code of a
refusal (`invalid_grant`), else the class of the status (`2xx`).
"""

from functools import lru_cache
from time import perf_counter
from typing import Any

from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.domain.kinds import ALL
from runtime.metrics import request_seconds

_MANAGEMENT = "management_"
_NO_ROUTE = "none"
_OPERATIONS = frozenset(kind.operations.replace("-", "_") for kind in ALL)
_VERBS = ("create", "list", "retrieve", "update", "delete")
_ZONE, _INSERTED = "/z/<name:str>", ".insertion"
_CLASSES = {number: f"{number}xx" for number in range(1, 6)}


class RefusalResponse(HTTPResponse):
    """An answer that refuses.

    Attributes:
        code: of the refusal, one of `runtime.domain.errors`; for metrics.
    """

    def __init__(self, *given: Any, code: str, **named: Any) -> None:
        super().__init__(*given, **named)
        self.code = code


@lru_cache(maxsize=1_024)
def endpoint_of(name: str, path: str) -> str:
    """What the metrics call a route.

    Args:
        name, path: of the route, as the router has them.
    """
    name = name.rpartition(_MANAGEMENT)[2] if _MANAGEMENT in name else ""
    if not name:
        whole = f"/{path}".replace("//", "/").replace("/<nothing:strorempty>", "")
        return whole.replace(_ZONE, "") or "/"
    operations, _, verb = name.rpartition("_")
    return f"management {verb if operations in _OPERATIONS and verb in _VERBS else name}"


def endpoint_of_request(request: Request) -> str:
    """What the metrics call the route of a request."""
    route = request.route
    return _NO_ROUTE if route is None else endpoint_of(route.name, route.path)


def outcome_of(response: Any) -> str:
    """What the metrics call the outcome of an answer.

    Too many requests are told apart from what is away, though OAuth has one code for both.
    """
    if response.status == 429:
        return "too_many_requests"
    return response.code if isinstance(response, RefusalResponse) else _CLASSES[response.status // 100]


def observe(request: Request, response: Any, began_at: float) -> None:
    """Count an answer, and the seconds since *began_at* on the clock of `time.perf_counter`."""
    seconds = perf_counter() - began_at
    request_seconds(endpoint_of_request(request), outcome_of(response)).observe(seconds)
