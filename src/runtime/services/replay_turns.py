"""Turns at replaying: each replay has up to 100,000 requests in memory, and one processor for all of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from runtime.logs import log

AT_ONCE = 8  # in a process; of an organization, one
WAIT_SECONDS = 20.0


class ReplayTurns:
    """The replays of a process, of which few are under way."""

    def __init__(self) -> None:
        self._of_process = asyncio.Semaphore(AT_ONCE)
        self._of_organizations: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, organization_id: str) -> AsyncIterator[bool]:
        """Wait for a turn, and keep it for the block; False when there was none in time."""
        mine = self._of_organizations.setdefault(organization_id, asyncio.Lock())
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await held.enter_async_context(mine)
                    await held.enter_async_context(self._of_process)
            except TimeoutError:
                await held.aclose()  # so that nobody waits for one who does without
                log.warning(
                    "recorded decisions are not replayed in a dry run",
                    organization_id=organization_id,
                    reason="no turn in time",
                )
                yield False
            else:
                yield True
