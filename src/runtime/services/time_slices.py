"""Cooperative scheduling: long work gives up the event loop every few milliseconds."""

import asyncio
from time import perf_counter
from weakref import WeakKeyDictionary

_SLICE_SECONDS = 0.01

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


class TimeSlice:
    """Measures how long one piece of work has kept the event loop; asked after each of its steps."""

    def __init__(self) -> None:
        self._since = perf_counter()

    async def yield_if_due(self) -> None:
        """Give up the event loop when this work has kept it for some milliseconds.

        The long work of a process resumes one piece after another: if all of it resumed at once, a short
        request would wait for one step of each, every time.
        """
        if perf_counter() - self._since >= _SLICE_SECONDS:
            async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
                await asyncio.sleep(0)
            self._since = perf_counter()
