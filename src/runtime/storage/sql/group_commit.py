"""Group commit: small writes that arrive together share one transaction, and each is still all or nothing.

SQLite has one writer. A commit writes whole pages, and beginning and ending a transaction costs more than a
small write does; so whoever comes while a transaction waits for its turn, or is being committed, shares the
next one.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import Context
from typing import Any, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import Unavailable
from runtime.storage.sql.availability import TAKES_NO_WRITES

T = TypeVar("T")


class GroupCommit:
    """The transaction that writes can join, if there is one."""

    def __init__(self, transaction: Callable[[], AbstractAsyncContextManager[AsyncConnection]]) -> None:
        """
        Args:
            transaction: a write transaction whose statements run on the event loop.
        """
        self._transaction = transaction
        self._open: _Group | None = None
        self._running: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """A connection for one write, committed when the block has ended, undone when it raises.

        Nobody else writes during the block. Raises `Unavailable`; what the database raises.
        """
        group = self._open or self._begin()
        async with group.turn() as connection:
            yield connection
        await group.committed()

    def _begin(self) -> "_Group":
        group = self._open = _Group(self._close)
        # Of no request: what the first one is about is nothing to the others.
        task = asyncio.get_running_loop().create_task(group.run(self._transaction), context=Context())
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return group

    def _close(self, group: "_Group") -> None:
        if self._open is group:
            self._open = None


class _Group:
    """Writes that share a transaction. They have it one after the other, in the order in which they came."""

    def __init__(self, close: Callable[["_Group"], None]) -> None:
        """
        Args:
            close: lets nobody join any more.
        """
        self._close = close
        loop = asyncio.get_running_loop()
        self._began: asyncio.Future[AsyncConnection] = loop.create_future()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._lock = asyncio.Lock()
        self._members = 0  # that are not through with their block
        self._none_left = asyncio.Event()
        self._broken: Unavailable | None = None

    async def run(self, transaction: Callable[[], AbstractAsyncContextManager[AsyncConnection]]) -> None:
        """Begin the transaction, and commit it after the last block."""
        try:
            async with transaction() as connection:
                self._began.set_result(connection)
                await self._none_left.wait()
                if self._broken is not None:
                    raise self._broken
        except BaseException as failure:
            self._close(self)
            told = failure if isinstance(failure, Exception) else Unavailable("the service is stopping")
            for each in (self._began, self._ended):
                if not each.done():
                    each.set_exception(told)
                    each.exception()  # it may be that nobody is there to hear it
            if told is not failure:
                raise
        else:
            self._ended.set_result(None)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[AsyncConnection]:
        """The connection, for one member at a time."""
        self._members += 1
        try:
            connection = await _heard(self._began)
            async with self._lock:
                with self._undoing(connection):
                    yield connection
        finally:
            self._members -= 1
            if not self._members:
                self._close(self)
                self._none_left.set()

    async def committed(self) -> None:
        """Return when the transaction is committed. Raises what kept it from that."""
        await _heard(self._ended)

    @contextmanager
    def _undoing(self, connection: AsyncConnection) -> Iterator[None]:
        """Undo a block that raises, and nothing of the others."""
        driver: Any = connection.sync_connection.connection.dbapi_connection  # type: ignore[union-attr]
        try:
            if self._broken is None:
                with driver.savepoint():
                    yield
        finally:
            # A full disk may have ended the transaction, and undone what the others have written.
            if not driver.in_transaction:
                self._broken = Unavailable(TAKES_NO_WRITES, internal="a statement has ended the transaction")
        if self._broken is not None:
            raise Unavailable(self._broken.detail, internal=self._broken.internal)


async def _heard(future: "asyncio.Future[T]") -> T:
    """What a future that is others', too, comes to; what it raises is each listener's own."""
    try:
        return await asyncio.shield(future)
    except Unavailable as failure:
        raise Unavailable(failure.detail, internal=failure.internal) from failure
