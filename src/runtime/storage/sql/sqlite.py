"""The SQLite driver for the engine: aiosqlite with one thread hop for each statement, or none.

The adapter that SQLAlchemy brings asks a thread each to open a cursor, to execute, to fetch and to close.
That costs more than most statements do. So a connection that is only asked small things asks no thread: it is
`at_hand`, and its statements run where they are asked for.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import aiosqlite
from sqlalchemy.connectors.asyncio import AsyncAdapt_dbapi_connection, AsyncAdapt_dbapi_cursor
from sqlalchemy.dialects.sqlite.aiosqlite import (
    AsyncAdapt_aiosqlite_connection,
    AsyncAdapt_aiosqlite_cursor,
    AsyncAdapt_aiosqlite_dbapi,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from runtime import files

BEGIN = "zonewright_begin"  # execution option: the statement that begins a transaction; empty for none


class _Outcome(NamedTuple):
    """What is asked of a cursor when its statement is done."""

    description: Any
    rowcount: int
    lastrowid: int | None


class _Cursor(AsyncAdapt_aiosqlite_cursor):
    """A cursor that is opened, used and closed by the thread that executes its statement."""

    __slots__ = ()

    def __init__(self, adapt_connection: AsyncAdapt_dbapi_connection) -> None:
        self._adapt_connection = adapt_connection
        self._connection = adapt_connection._connection
        self._cursor: Any = _Outcome(None, -1, None)
        self._rows = deque()

    @property
    def description(self) -> Any:
        return self._cursor.description

    def close(self) -> None:
        self._rows.clear()

    async def _async_soft_close(self) -> None:
        """Nothing is open."""

    async def _execute_async(self, operation: Any, parameters: Any) -> None:
        await self._run(partial(_execute, operation, parameters or ()))

    async def _executemany_async(self, operation: Any, seq_of_parameters: Any) -> None:
        await self._run(partial(_executemany, operation, seq_of_parameters))

    async def _run(self, statement: "Callable[[sqlite3.Connection], tuple[_Outcome, list[Any]]]") -> None:
        adapter: Any = self._adapt_connection
        connection: Any = self._connection
        if adapter.at_hand:
            self._cursor, rows = statement(connection._conn)
        else:
            async with adapter._execute_mutex:
                self._cursor, rows = await connection._execute(statement, connection._conn)
        self._rows = deque(rows)


class _Connection(AsyncAdapt_aiosqlite_connection):
    """A connection of the pool.

    Attributes:
        at_hand: whether statements run on the event loop. Whoever has the connection sets it.
    """

    __slots__ = ("_streams", "at_hand")

    _cursor_cls = _Cursor

    def __init__(self, *arg: Any, **kw: Any) -> None:
        super().__init__(*arg, **kw)
        self.at_hand = False
        self._streams: list[Any] = []  # cursors that are read as their reader goes

    def cursor(self, server_side: bool = False) -> AsyncAdapt_dbapi_cursor:
        opened = super().cursor(server_side)
        if server_side:
            self._streams = [*(each for each in self._streams if each._cursor is not None), opened]
        return opened

    def rollback(self) -> None:
        """End the transaction, and what is read in it, as on every way back to the pool.

        A statement that nobody reads to its end outlives the transaction in SQLite: whoever has the
        connection next would see the database as it was then, and could not write.
        """
        for stream in self._streams:
            stream.close()
        self._streams.clear()
        if self._open and self.at_hand:
            connection: Any = self._connection
            connection._conn.rollback()
        elif self._open:
            super().rollback()

    def commit(self) -> None:
        if self._open:
            super().commit()

    @property
    def _open(self) -> bool:
        """Whether a transaction is: ending none would ask a thread for nothing."""
        connection: Any = self._connection
        return connection._connection is not None and connection.in_transaction

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open. SQLite itself ends one where it cannot go on."""
        return self._open

    @property
    def is_idle(self) -> bool:
        """Whether nothing has to be ended before somebody else has the connection."""
        return not self._open and not self._streams

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let a block read the database as it is at its first statement. The connection is `at_hand`."""
        connection: Any = self._connection
        connection._conn.execute("BEGIN")
        try:
            yield
        finally:
            self.rollback()

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what a block has written that raises, and not the transaction. The connection is `at_hand`."""
        connection: Any = self._connection
        connection._conn.execute("SAVEPOINT block")
        try:
            yield
        except BaseException:
            if self._open:
                connection._conn.execute("ROLLBACK TO block")
                connection._conn.execute("RELEASE block")
            raise
        if self._open:
            connection._conn.execute("RELEASE block")


class Driver(AsyncAdapt_aiosqlite_dbapi):
    """What `create_async_engine` takes as `module`."""

    def __init__(self) -> None:
        super().__init__(aiosqlite, sqlite3)

    def connect(self, *arg: Any, **kw: Any) -> AsyncAdapt_aiosqlite_connection:
        # One task has the connection at a time, and its thread does nothing while that task does.
        kw["check_same_thread"] = False
        return _Connection(self, super().connect(*arg, async_creator_fn=_opened, **kw)._connection)


class CommitWatch:
    """Tells whether anybody has committed to a SQLite file: this process, or another one such as a command.

    It is asked where it is called: that takes microseconds. Spec: SQLite, PRAGMA data_version.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def version(self) -> int | None:
        """A number that differs after a commit; None where the file cannot be read now."""
        try:
            if self._connection is None:
                address = f"file:{quote(str(self._path))}?mode=ro"
                self._connection = sqlite3.connect(address, timeout=0, uri=True, check_same_thread=False)
            (found,) = self._connection.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error:
            self.close()
            return None
        return int(found)

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def connect(path: Path, *, read_only: bool = False, wait_seconds: float = 5.0) -> sqlite3.Connection:
    """A connection of this thread to a SQLite file, without transactions of its own. Raises sqlite3.Error.

    Args:
        wait_seconds: how long a statement waits for the locks of others.
    """
    if not read_only:
        files.make_empty(path)
    address = f"file:{quote(str(path))}?mode={'ro' if read_only else 'rw'}"
    return sqlite3.connect(address, timeout=wait_seconds, uri=True, isolation_level=None)


def connect_alone(path: Path) -> sqlite3.Connection:
    """A connection that reads a file as it is, whatever lies beside it. Raises sqlite3.Error."""
    return sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)


def files_of(url: str | URL) -> tuple[Path, ...]:
    """The files that the database at a URL consists of, there or not yet; none for what is no such URL."""
    try:
        address = make_url(url)
    except ArgumentError:
        return ()
    database = address.database or ":memory:"
    if address.get_backend_name() != "sqlite" or database.startswith((":memory:", "file:")):
        return ()
    path = Path(database)
    return path, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm", "-journal"))


async def _opened(*arg: Any, **kw: Any) -> aiosqlite.Connection:
    """A new connection; when it cannot be made, its thread has ended with it.

    SQLite would make a file that is not there as the umask says, and those beside it with the same mode.
    """
    path = str(arg[0] if arg else kw["database"])
    if path and not kw.get("uri") and path != ":memory:":
        with suppress(OSError):  # SQLite says what is wrong with it
            files.make_empty(Path(path))
    opening: Any = aiosqlite.connect(*arg, **kw)
    opening._thread.daemon = True
    try:
        connection: aiosqlite.Connection = await opening
    except Exception:
        # The thread still tells the event loop that it ends; a loop that is closed by then would be one
        # traceback more, of a failure that is being told already.
        await asyncio.to_thread(opening._thread.join)
        raise
    return connection


def _execute(operation: str, parameters: Any, connection: sqlite3.Connection) -> tuple[_Outcome, list[Any]]:
    cursor = connection.execute(operation, parameters)
    rows = cursor.fetchall() if cursor.description else []
    return _closed(cursor), rows


def _executemany(operation: str, many: Any, connection: sqlite3.Connection) -> tuple[_Outcome, list[Any]]:
    return _closed(connection.executemany(operation, many)), []


def _closed(cursor: sqlite3.Cursor) -> _Outcome:
    outcome = _Outcome(cursor.description, cursor.rowcount, cursor.lastrowid)
    cursor.close()
    return outcome
