"""Long work in steps: whatever else the process serves goes on in between."""

import asyncio
from time import perf_counter

_AT_MOST_SECONDS = 0.01


class Pace:
    """The pace of one long piece of work, which asks for a rest after each of its steps."""

    def __init__(self) -> None:
        self._since = perf_counter()

    async def rest(self) -> None:
        """Let others go first, when this has gone on for some milliseconds."""
        if perf_counter() - self._since >= _AT_MOST_SECONDS:
            await asyncio.sleep(0)
            self._since = perf_counter()
