"""The path of a request as answers and logs may repeat it."""

import re

from sanic.request import Request

_PARAMETER = re.compile(r"<[^>]*>")  # of a route's template


def path_of(request: Request) -> str:
    """The path of a request, with `***` for what opens something to its readers: an invitation's token."""
    if "token" in request.match_info:
        return _PARAMETER.sub("***", str(request.uri_template))
    return request.path
