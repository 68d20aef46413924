"""Cooperative scheduling: long work gives up the event loop every other millisecond."""

import asyncio
from time import perf_counter, thread_time
from weakref import WeakKeyDictionary

# A short request needs about eight turns of the loop, and waits for one slice at each.
_SLICE_SECONDS = 0.002

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


class TimeSlice:
    """Measures how long one piece of work has kept the event loop; asked after each of its steps."""

    def __init__(self) -> None:
        self._since, self._cpu_since = perf_counter(), thread_time()
        self._spent = 0.0

    @property
    def spent(self) -> float:
        """Seconds of processor time, whatever else the machine does, and but for what others did by turns."""
        return self._spent + thread_time() - self._cpu_since

    async def yield_if_due(self) -> None:
        """Give up the event loop when this work has kept it for two milliseconds.

        The long work of a process resumes one piece after another: if all of it resumed at once, a short
        request would wait for one step of each, every time.
        """
        if perf_counter() - self._since >= _SLICE_SECONDS:
            self._spent = self.spent
            async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
                await asyncio.sleep(0)
            self._since, self._cpu_since = perf_counter(), thread_time()
