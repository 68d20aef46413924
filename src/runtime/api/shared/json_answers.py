"""JSON answers of the endpoints that are asked most."""

from typing import Any

import orjson
from sanic.compat import Header
from sanic.response import HTTPResponse

_JSON = "application/json"


class JsonAnswer(HTTPResponse):
    """An answer with a JSON body."""

    def __init__(self, body: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> None:
        """Args:
        body: what orjson writes.
        """
        self.body = orjson.dumps(body)
        self.status, self.headers, self.content_type = status, Header(headers or {}), _JSON
        self.asgi, self.stream, self._cookies = False, None, None
