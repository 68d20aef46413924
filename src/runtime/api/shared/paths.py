"""The path of a request: what it leads to, and how answers and logs may repeat it."""

import re
from typing import Any

from sanic.exceptions import NotFound
from sanic.request import Request
from sanic.router import Router
from sanic_routing.route import Route

_PARAMETER = re.compile(r"<[^>]*>")  # of a route's template


class PathRouter(Router):
    """Sanic's own, which calls itself once more for each slash at the end of a path that leads nowhere.

    Of a path with some thousand of them that takes half a second, and a traceback of as many lines.
    """

    def get(self, path: str, method: str, host: str | None) -> tuple[Route, Any, dict[str, Any]]:  # type: ignore[override]
        """Find the route of a path. Raises NotFound, MethodNotAllowed."""
        if path.endswith("//"):
            raise NotFound("no path ends with several slashes")
        return super().get(path, method, host)


def path_of(request: Request) -> str:
    """The path of a request, with `***` for what opens something to its readers: an invitation's token."""
    if "token" in request.match_info:
        return _PARAMETER.sub("***", str(request.uri_template))
    return request.path
