"""Long work in steps: whatever else the process serves goes on in between."""

import asyncio
from time import perf_counter
from weakref import WeakKeyDictionary

_AT_MOST_SECONDS = 0.01

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


class TimeSlice:
    """The pace of one long piece of work, which asks for a rest after each of its steps."""

    def __init__(self) -> None:
        self._since = perf_counter()

    async def rest(self) -> None:
        """Let others go first, when this has gone on for some milliseconds.

        Of all long work of the process one goes on after another. If all that rest went on at once, whoever
        waits for something short would wait for as many steps as there is long work, each time.
        """
        if perf_counter() - self._since >= _AT_MOST_SECONDS:
            async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
                await asyncio.sleep(0)
            self._since = perf_counter()
