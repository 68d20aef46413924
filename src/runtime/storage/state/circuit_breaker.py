"""A circuit breaker: after one request without an answer, none is sent until a probe has been answered.

While it is open, requests are refused at once. No request finds out whether that is over: a probe in the
background does, one at a time. (Libraries such as pybreaker let a request through as the probe, which waits.)
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

PROBE_EVERY_SECONDS = 0.25
# An answer may have arrived that this process has not come to yet: it is given that long to look.
_LAG_SHARE = 0.2


class CircuitBreaker:
    """Closed at first: everything passes.

    Attributes:
        is_open: whether nothing is to be asked now.
        cause: what opened it last.
    """

    def __init__(
        self,
        probe: Callable[[], Awaitable[object]],
        *,
        failures: tuple[type[Exception], ...],
        timeout_seconds: float,
    ) -> None:
        """Args:
        probe: asks something small; returns when that was answered.
        failures: what it raises otherwise, besides TimeoutError.
        timeout_seconds: how long one probe may take.
        """
        self._probe = probe
        self._failures: tuple[type[Exception], ...] = (*failures, TimeoutError)
        self._timeout_seconds = timeout_seconds
        self._probing: asyncio.Task[None] | None = None
        self.cause: Exception | None = None

    @property
    def is_open(self) -> bool:
        return self._probing is not None and not self._probing.done()

    def trip(self, cause: Exception) -> None:
        """Open, until a probe is answered."""
        if not self.is_open:
            self.cause = cause
            self._probing = asyncio.get_running_loop().create_task(self._probe_until_answered())

    async def close(self) -> None:
        """End the probes."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)

    async def _probe_until_answered(self) -> None:
        while True:
            try:
                async with answered_within(self._timeout_seconds):
                    await self._probe()
            except self._failures:
                await asyncio.sleep(PROBE_EVERY_SECONDS)
            else:
                return


@asynccontextmanager
async def answered_within(seconds: float) -> AsyncIterator[None]:
    """Around one request. Raises TimeoutError without an answer in that time, however busy this process is.

    The last part of the time begins anew when its turn comes: a process that was held up looks at what has
    arrived meanwhile before it gives up.
    """
    loop, last = asyncio.get_running_loop(), seconds * _LAG_SHARE
    async with asyncio.timeout(None) as limit:
        timer = loop.call_later(seconds - last, lambda: limit.reschedule(loop.time() + last))
        try:
            yield
        finally:
            timer.cancel()
