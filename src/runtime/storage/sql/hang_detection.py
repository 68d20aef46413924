"""Detection of a PostgreSQL that hangs: callers are cut off within three seconds, whatever they wait for.

A statement may take long because there is much to do, or because another's lock is in the way: that is no
reason to give up. So whoever waits longer than a moment has the server asked something small on a connection
of its own. Only when that stays without an answer, too, the one that waits is cut off.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

SUSPECT_SECONDS = 1.5
ANSWER_SECONDS = 1.0
_LAG_SECONDS = 0.1  # of this process: an answer may have arrived, and not been looked at yet


class HangDetector:
    """Finds out whether a server answers at all, once for everybody who waits for it."""

    def __init__(self, ask: Callable[[], Awaitable[None]]) -> None:
        """
        Args:
            ask: asks the server something small, and ends by itself in a few seconds, answered or not.
        """
        self._ask = ask
        self._asking: asyncio.Future[None] | None = None

    async def hangs(self) -> bool:
        """Tell whether the server leaves a question without any answer, be it a refusal."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._ask())
            self._asking.add_done_callback(_consume_result)
        asking = self._asking
        await asyncio.wait({asking}, timeout=ANSWER_SECONDS)
        if not asking.done():
            await asyncio.sleep(_LAG_SECONDS)
        return not asking.done()


class GuardedWait:
    """Somebody who has a connection, or waits for one; cut off when the server hangs.

    Attributes:
        connecting: the timeout around the wait for a connection.
        driver: the driver's connection, once there is one.
    """

    __slots__ = ("_looking", "_timer", "_watch", "connecting", "driver")

    def __init__(self, watch: HangDetector) -> None:
        self._watch = watch
        self.connecting = asyncio.timeout(None)
        self.driver: Any = None
        self._looking: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(SUSPECT_SECONDS, self._suspect)

    def end(self) -> None:
        """Nobody waits any more."""
        self._timer.cancel()
        if self._looking is not None:
            self._looking.cancel()

    def _suspect(self) -> None:
        self._looking = asyncio.get_running_loop().create_task(self._ping())

    async def _ping(self) -> None:
        if not await self._watch.hangs():
            self._timer = asyncio.get_running_loop().call_later(SUSPECT_SECONDS, self._suspect)
        elif self.driver is None:
            self.connecting.reschedule(asyncio.get_running_loop().time())
        else:
            self.driver.terminate()


def _consume_result(asking: asyncio.Future[None]) -> None:
    """Whatever was answered: a refusal is for who asks for something, not for a question in between."""
    if not asking.cancelled():
        asking.exception()
