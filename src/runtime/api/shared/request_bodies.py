"""Request timeouts: header and body have one deadline each, and large bodies a minimum rate.

Sanic itself measures the silence between two packets, and of a body not even that: a byte now and then would
hold a connection, and what was read for it, for ever. A large body has to come at a rate as well.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from time import monotonic, perf_counter
from typing import Any

from sanic.exceptions import RequestTimeout
from sanic.http import Stage
from sanic.request import Request
from sanic.server.protocols.http_protocol import HttpProtocol

# How long a server that stops waits for a next request, and for more of one that has begun to come.
_IDLE_SECONDS, _SILENCE_SECONDS = 0.5, 2.0

# A body that may be larger than requests usually are comes at such a rate; so long it may be behind.
MAX_LAG_SECONDS = 10.0
BYTES_A_SECOND = 512 * 1024


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


class TimedRequest(Request[Any, Any]):
    """A request whose body has to arrive in time.

    Attributes:
        arrived_at: when its head, and then all of its body was there, by `time.perf_counter`.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.arrived_at = perf_counter()

    async def receive_body(self) -> None:
        """Read the body. Raises RequestTimeout."""
        if self.body:
            return
        if _has_arrived(self):  # as it nearly always has
            stream: Any = self.stream
            self.body = await stream.read() or b""
            await stream.read()  # nothing: the stream takes note of the end
            self.arrived_at = perf_counter()
            return
        parts = list[bytes]()
        async with _arriving(self) as prolong:
            async for part in self.stream:  # type: ignore[union-attr]
                parts.append(part)
                prolong(len(part))
        self.body = b"".join(parts)
        self.arrived_at = perf_counter()


def _has_arrived(request: Request) -> bool:
    """Tell whether all of a body is there."""
    stream: Any = request.stream
    return stream.request_body is True and stream.request_bytes_left <= len(stream.recv_buffer)


@asynccontextmanager
async def _arriving(request: Request) -> AsyncIterator[Callable[[int], None]]:
    """A time in which a body is read; to be told how many bytes have come.

    Raises: RequestTimeout; the connection is closed after the answer, for the rest is not waited for either.
    """
    stream: Any = request.stream  # Sanic's own note of what sort of body there is has no one type
    config = request.app.config
    most = stream.request_bytes if stream.request_body is True else stream.request_max_size
    is_large = most > config.REQUEST_MAX_SIZE
    try:
        async with asyncio.timeout(MAX_LAG_SECONDS if is_large else config.REQUEST_TIMEOUT) as limit:
            yield partial(_prolong, limit) if is_large else lambda _: None
    except TimeoutError:
        stream.keep_alive, stream.request_body = False, None
        raise RequestTimeout("the body took too long to arrive") from None


def _prolong(limit: asyncio.Timeout, size: int) -> None:
    """What has come of a large body gives it time, never more than it had at first."""
    until, now = limit.when(), asyncio.get_running_loop().time()
    if until is not None and until > now:  # else it has ended
        limit.reschedule(min(until + size / BYTES_A_SECOND, now + MAX_LAG_SECONDS))
