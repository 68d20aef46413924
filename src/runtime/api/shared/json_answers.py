"""JSON answers of the endpoints that are asked most; header lines that they share are encoded once."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import orjson
from sanic.response import HTTPResponse

_JSON = "application/json"
# Headers that have one of a few values, as they are spelt here and by Sanic.
_ALIKE = frozenset(
    {
        "Access-Control-Allow-Origin",
        "Access-Control-Expose-Headers",
        "Cache-Control",
        "connection",
        "content-type",
    }
)


class JsonAnswer(HTTPResponse):
    """An answer with a JSON body. Sanic itself encodes and cleans each header of each answer."""

    def __init__(self, body: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> None:
        """Args:
        body: what orjson writes.
        """
        super().__init__(orjson.dumps(body), status=status, headers=headers, content_type=_JSON)

    @property
    def processed_headers(self) -> Iterator[tuple[bytes, bytes]]:
        """The header lines, as Sanic asks for them when it sends the answer."""
        self.headers.setdefault("content-type", self.content_type)
        lines = [
            _settled(name, value) if name in _ALIKE else (_settled(name, "")[0], _encoded(f"{value}"))
            for name, value in self.headers.items()
        ]
        return iter(lines)


def _encoded(text: str) -> bytes:
    """A name or a value on the wire, without what would begin another line."""
    return HTTPResponse._sanitize_header_value(text).encode(errors="surrogateescape")


@lru_cache(maxsize=256)
def _settled(name: str, value: str) -> tuple[bytes, bytes]:
    return _encoded(name), _encoded(value)
