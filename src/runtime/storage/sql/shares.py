"""Shares of the connections to a database: whoever waits, or reads much, leaves some for everybody else.

A request of one tenant may wait with its connection for a lock that another request of that tenant holds, or
read for seconds. However many of those there are, they have the share of one tenant.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, nullcontext
from functools import partial
from weakref import WeakValueDictionary

from runtime.domain.errors import Unavailable

SHARE_SECONDS = 10.0
TENANT_SECONDS = 30.0  # for others of the same tenant: as long as a statement may wait for their locks
MOST_WAITING = 256  # of a tenant: what they were sent is in memory meanwhile
_DRY_RUN_WAIT_SECONDS = 60.0  # for others of the same organization
# Pieces of work as of one instant, done at the same time: each has a connection, and may take another.
MOST_INSTANTS = 4
_TWO = "this task has a connection to the database already; pass it on"

Take = Callable[[AsyncExitStack], Awaitable[None]]  # have a share until the stack is left; raises ShareTaken


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
            raise RuntimeError(_TWO)
        self._holders.add(task)
        until.callback(self._holders.discard, task)
        share = self._of.get(tenant)
        if share is None:
            share = Share(self._of_one, seconds=self._seconds, most_waiting=MOST_WAITING)
            self._of[tenant] = share
        await share.take(until)
        for each in self._of_all:
            await each.take(until)


class ConnectionShares:
    """Who may have how many connections of a database.

    Attributes:
        long: whatever may wait for somebody's lock, or read for seconds. A quarter is left for what takes a
            moment.
        instants: work as of one instant.
    """

    def __init__(self, kept: int, most: int, *, dry_runs: int, has_one_writer: bool) -> None:
        """Args:
        kept: connections that stay open.
        most: connections at the same time.
        dry_runs: connections for those, which are none of the others.
        has_one_writer: all wait for that without a connection; a tenant has as many turns as others.
        """

        def part(sixteenths: int) -> int:
            return max(1, most * sixteenths // 16)

        # Whoever waits for one to be given back waits less than for a new one.
        self._queries = Share(kept)
        self._brief_users: set[asyncio.Task[object] | None] = set()
        self.long, self.instants = Share(part(12)), Share(MOST_INSTANTS)
        self._readers = TenantShares(part(2), Share(part(4)), self.long)
        self._dry_runs = TenantShares(max(1, dry_runs // 2), seconds=_DRY_RUN_WAIT_SECONDS)
        if has_one_writer:
            self._writers = self._exclusive_writers = TenantShares(part(4))
        else:
            self._writers = TenantShares(part(4), Share(part(6)), self.long)
            self._exclusive_writers = TenantShares(part(1), Share(part(4)), self.long)

    def write(self, tenant: str | None, *, is_exclusive: bool) -> Take | None:
        """Of a transaction.

        Args:
            is_exclusive: those of a tenant wait for each other in the database.
        """
        return _of(tenant, self._exclusive_writers if is_exclusive else self._writers)

    def read(self, tenant: str | None) -> Take | None:
        """Of what may read as much as it likes."""
        return _of(tenant, self._readers)

    def dry_run(self, tenant: str) -> Take | None:
        """Of a dry run."""
        return _of(tenant, self._dry_runs)

    async def query(self, until: AsyncExitStack) -> None:
        """Use a connection for a moment, until the stack is left."""
        self._note_brief_use(until)
        await self._queries.take(until)

    def brief_write(self, tenant: str | None) -> Take:
        """The same for a write, which may wait for a lock."""
        share = self.write(tenant, is_exclusive=False)

        async def take(until: AsyncExitStack) -> None:
            self._note_brief_use(until)
            if share is not None:
                await share(until)

        return take

    def _note_brief_use(self, until: AsyncExitStack) -> None:
        """Note that this task uses a connection for a moment, until the stack is left.

        One who does so already is refused: under load, all would wait for each other.
        """
        task = asyncio.current_task()
        if task in self._brief_users:
            raise RuntimeError(_TWO)
        self._brief_users.add(task)
        until.callback(self._brief_users.discard, task)


def _of(tenant: str | None, shares: TenantShares) -> Take | None:
    """One of a tenant's; none for work of the service itself."""
    return None if tenant is None else partial(shares.take, tenant)
