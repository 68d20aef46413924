"""Shares of the connections to a database: whoever waits, or reads much, leaves some for everybody else.

A request of one tenant may wait with its connection for a lock that another request of that tenant holds, or
read for seconds. However many of those there are, they have the share of one tenant.
"""

import asyncio
from contextlib import AsyncExitStack, nullcontext
from weakref import WeakValueDictionary

from runtime.domain.errors import Unavailable

SHARE_SECONDS = 10.0
TENANT_SECONDS = 30.0  # for others of the same tenant: as long as a statement may wait for their locks
MOST_WAITING = 256  # of a tenant: what they were sent is in memory meanwhile


class ShareTaken(Unavailable):
    """Others have all of a share, and did not give any of it back in time."""

    def __init__(self, reason: str) -> None:
        super().__init__("too many requests wait for the database", internal=reason)


class Share:
    """So many connections at the same time; the next waits until one of them is given back."""

    def __init__(self, most: int, *, seconds: float = SHARE_SECONDS, most_waiting: int | None = None) -> None:
        """Args:
        most: connections.
        seconds: how long one waits for one.
        most_waiting: how many wait at the same time; None for any number.
        """
        self._free = asyncio.Semaphore(most)
        self._seconds = seconds
        self._most_waiting = most_waiting
        self._waiting = 0

    async def take(self, until: AsyncExitStack) -> None:
        """Have one until the stack is left. Raises ShareTaken."""
        is_taken = self._free.locked()
        if is_taken and self._waiting == self._most_waiting:
            raise ShareTaken(f"{self._waiting} wait already")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._seconds) if is_taken else nullcontext():
                await self._free.acquire()
        except TimeoutError:
            raise ShareTaken(f"none was given back in {self._seconds:.0f} seconds") from None
        finally:
            self._waiting -= 1
        until.callback(self._give_back)

    def _give_back(self) -> None:
        self._free.release()


class TenantShares:
    """So many connections for each tenant at the same time, out of what all of them have."""

    def __init__(self, of_one: int, *of_all: Share, seconds: float = TENANT_SECONDS) -> None:
        """Args:
        of_one: how many a tenant has.
        of_all: what is taken as well, in this order.
        seconds: how long one waits for others of the same tenant.
        """
        self._of_one, self._of_all, self._seconds = of_one, of_all, seconds
        self._of: WeakValueDictionary[str, Share] = WeakValueDictionary()  # whoever has or wants one holds it
        self._holders: set[asyncio.Task[object] | None] = set()

    async def take(self, tenant: str, until: AsyncExitStack) -> None:
        """Have one until the stack is left.

        Raises:
            ShareTaken: others have all of them.
            RuntimeError: this task has one already; when many have one and want another, all wait for ever.
        """
        task = asyncio.current_task()
        if task in self._holders:
            raise RuntimeError("this task has a connection to the database already; pass it on")
        self._holders.add(task)
        until.callback(self._holders.discard, task)
        share = self._of.get(tenant)
        if share is None:
            share = Share(self._of_one, seconds=self._seconds, most_waiting=MOST_WAITING)
            self._of[tenant] = share
        await share.take(until)
        for each in self._of_all:
            await each.take(until)
