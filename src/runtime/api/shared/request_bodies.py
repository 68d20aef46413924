"""Request timeouts: header and body have one deadline each, and large bodies a minimum rate.

Sanic itself measures the silence between two packets, and of a body not even that: a byte now and then would
hold a connection, and what was read for it, for ever. A large body has to come at a rate as well.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from time import perf_counter
from typing import Any

from sanic.exceptions import RequestTimeout
from sanic.request import Request

# A body that may be larger than requests usually are comes at such a rate; so long it may be behind.
MAX_LAG_SECONDS = 10.0
BYTES_A_SECOND = 512 * 1024


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
        stream: Any = self.stream
        whole = stream.take_body()
        if whole is not None:  # as it nearly always is
            self.body, self.arrived_at = whole, perf_counter()
            return
        parts = list[bytes]()
        async with _arriving(self) as prolong:
            async for part in stream:
                parts.append(part)
                prolong(len(part))
        self.body = b"".join(parts)
        self.arrived_at = perf_counter()

    async def discard_body(self) -> None:
        """Read what is left of the body after the answer, in the time that it has to arrive.

        Raises: BadRequest, PayloadTooLarge; the connection is closed after both.
        """
        stream: Any = self.stream
        stream.request_max_size = min(stream.request_max_size, self.app.config.REQUEST_MAX_SIZE)
        if stream.take_body() is not None:
            return
        with suppress(RequestTimeout):
            async with _arriving(self):
                async for _ in stream:
                    pass


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
