"""A timeout for remote calls that does not count time in which this process itself was starved."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_STEP_SECONDS = 0.02
_MOST = 4  # times the limit, however little this process gets on


@asynccontextmanager
async def lag_tolerant_timeout(seconds: float) -> AsyncIterator[None]:
    """Raise TimeoutError when what is done inside takes longer than that, and others are why.

    A process that gets few turns on a busy machine hears late what was said in time, and would blame who said
    it. So time is counted in short steps, each by no more than twice what it should have taken.
    """
    loop = asyncio.get_running_loop()
    began = last = loop.time()
    counted = 0.0
    step: asyncio.TimerHandle
    async with asyncio.timeout(None) as limit:

        def count() -> None:
            nonlocal counted, last, step
            now = loop.time()
            counted += min(now - last, 2 * _STEP_SECONDS)
            last = now
            if counted >= seconds or now - began >= seconds * _MOST:
                limit.reschedule(now)
            else:
                step = loop.call_later(_STEP_SECONDS, count)

        step = loop.call_later(_STEP_SECONDS, count)
        try:
            yield
        finally:
            step.cancel()
