"""How long a request may take to arrive: head and body each have Sanic's request timeout, however they drip.

Sanic itself measures the silence between two packets, and of a body not even that: a byte now and then would
hold a connection, and what was read for it, for ever.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sanic.exceptions import RequestTimeout
from sanic.http import Stage
from sanic.request import Request
from sanic.server.protocols.http_protocol import HttpProtocol


class PromptProtocol(HttpProtocol):
    """HTTP connections on which the head of a request has to arrive in time from its first byte."""

    __slots__ = ()

    def data_received(self, data: bytes) -> None:
        """Take what has come; in the midst of a head it changes nothing about when that has begun."""
        began, http = self._time, self.http
        super().data_received(data)
        if http is not None and http.stage is Stage.REQUEST:
            self._time = began


class PromptRequest(Request[Any, Any]):
    """A request whose body has to arrive in time."""

    async def receive_body(self) -> None:
        """Read the body. Raises RequestTimeout."""
        async with arriving(self):
            await super().receive_body()  # type: ignore[no-untyped-call]


@asynccontextmanager
async def arriving(request: Request) -> AsyncIterator[None]:
    """A time in which a body is read. What may be larger than usual may take longer in proportion.

    Raises: RequestTimeout; the connection is closed after the answer, for the rest is not waited for either.
    """
    stream: Any = request.stream  # Sanic's own note of what sort of body there is has no one type
    config = request.app.config
    if stream.request_body is True and stream.request_bytes_left <= len(stream.recv_buffer):
        yield  # it is all there, as it nearly always is
        return
    share = stream.request_max_size / config.REQUEST_MAX_SIZE
    limit = config.REQUEST_TIMEOUT * max(share, 1)
    try:
        async with asyncio.timeout(limit):
            yield
    except TimeoutError:
        stream.keep_alive, stream.request_body = False, None
        raise RequestTimeout("the body took too long to arrive") from None
