"""How long a request may take to arrive: head and body each have Sanic's request timeout, however they drip.

Sanic itself measures the silence between two packets, and of a body not even that: a byte now and then would
hold a connection, and what was read for it, for ever.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

from sanic.exceptions import RequestTimeout
from sanic.http import Stage
from sanic.request import Request
from sanic.server.protocols.http_protocol import HttpProtocol

# How long a server that stops waits for a next request, and for more of one that has begun to come.
_IDLE_SECONDS, _SILENCE_SECONDS = 0.5, 2.0


class PromptProtocol(HttpProtocol):
    """HTTP connections on which the head of a request has to arrive in time from its first byte."""

    __slots__ = ()

    def data_received(self, data: bytes) -> None:
        """Take what has come; in the midst of a head it changes nothing about when that has begun."""
        began, http = self._time, self.http
        super().data_received(data)
        if http is not None and http.stage is Stage.REQUEST:
            self._time = began

    def finish(self) -> None:
        """Close with the answer that is under way, or once nothing comes that could be answered.

        To be called again and again until the connection is gone.
        """
        http = self.http
        if http is None or self.transport is None:
            return  # it is about to begin, or has ended
        silence = monotonic() - self._time
        if http.stage is Stage.IDLE:
            # A request may be on its way, which would be lost: its sender has not been told to go.
            is_over = silence > _IDLE_SECONDS and not self.recv_buffer
        else:
            http.keep_alive = False
            is_arriving = http.stage is Stage.REQUEST or (http.stage is Stage.HANDLER and http.request_body)
            is_over = is_arriving and silence > _SILENCE_SECONDS
        if is_over:
            self.close()


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
