"""The database: engines, and the ways to hold a connection, each for one sort of work."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext, suppress
from functools import partial
from time import monotonic, perf_counter
from typing import Any

from sqlalchemy import literal_column, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from runtime import files
from runtime.domain.errors import Unavailable
from runtime.metrics import (
    DATABASE_CONNECTIONS,
    DATABASE_CONNECTIONS_MOST,
    DATABASE_FAILURES,
    DATABASE_WAIT_SECONDS,
    DATABASE_WAITING,
)
from runtime.storage.sql import availability, engines, hang_detection
from runtime.storage.sql.columns import METADATA
from runtime.storage.sql.dry_runs import DryRuns
from runtime.storage.sql.group_commit import GroupCommit
from runtime.storage.sql.shares import ConnectionShares, ShareTaken, Take
from runtime.storage.sql.sqlite import BEGIN, CommitWatch, files_of

DIALECTS = ("sqlite", "postgresql")
# Longer than any statement takes, another's lock included. That a server hangs is found out sooner.
STATEMENT_TIMEOUT_SECONDS = 30
TRIAL_SECONDS = 2.0
_CLOSE_SECONDS = 2.0  # for connections to say goodbye
TRIAL_EVERY_SECONDS = 10.0
# After a write that found no room on the disk: a trial needs less, or none, and would say all is well.
NO_ROOM_SECONDS = 30.0

# Dry runs that a process works on at the same time; the next waits for one of them to end.
DRY_RUNS = 4


class UnsupportedDatabase(ValueError):
    """A URL names a database that this service does not work with."""


class Database:
    """An open database. What it is asked raises `Unavailable` while it is away.

    PostgreSQL runs READ COMMITTED for writes and repeatable read for consistent reads.
    SQLite has one writer: write transactions of this process queue here, other processes' at the file.
    """

    def __init__(
        self, engine: AsyncEngine, for_dry_runs: AsyncEngine, *, watching: AsyncEngine | None = None
    ) -> None:
        self.engine = engine
        self._watching = watching
        own = files_of(engine.url)
        self._file = own[0] if own else None
        self._commits = CommitWatch(self._file) if self._file else None
        self._watch = None if watching is None else hang_detection.HangDetector(self._ask)
        self._dry_runs = DryRuns(for_dry_runs, self._connected)
        self.dialect = engine.dialect.name
        self._writer: asyncio.Lock | None = asyncio.Lock() if self.dialect == "sqlite" else None
        self._holder: asyncio.Task[Any] | None = None
        self._groups = GroupCommit(partial(self.transaction, brief=True))
        self._takes_no_writes = self._lacks_tables = False
        self.refusal: Unavailable | None = None  # in place of whatever this is asked, while there is one
        self._try_write_at = self._has_room_at = 0.0
        self._room_then = 0  # bytes, when a write found that this was not enough
        self._waiting = 0
        self._shares = ConnectionShares(
            engines.size(engine),
            engines.most(engine),
            dry_runs=DRY_RUNS,
            has_one_writer=self._writer is not None,
        )
        self._at_one_instant: dict[asyncio.Task[Any] | None, AsyncConnection] = {}
        # The same connections, each used in another way; made once, since making one takes time.
        if self._writer:
            self._writing = engine.execution_options(**{BEGIN: "BEGIN IMMEDIATE"})
            self._reading = engine.execution_options(**{BEGIN: "BEGIN"})
            self._querying = engine.execution_options(**{BEGIN: ""})
        else:
            self._writing = engine
            self._reading = engine.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
            self._querying = engine.execution_options(isolation_level="AUTOCOMMIT")

    @classmethod
    def open(
        cls,
        url: str,
        *,
        pool_size: int = 16,
        migrating: bool = False,
        statement_timeout_seconds: float = STATEMENT_TIMEOUT_SECONDS,
    ) -> "Database":
        """The database at a SQLAlchemy URL; connections are made as they are needed.

        Args:
            migrating: SQLite changes a table by making it anew; dropping the old one must not take along
                the rows that refer to it. A statement may then take as long as it likes.
            statement_timeout_seconds: how long PostgreSQL may leave one statement without an answer.
        Raises:
            UnsupportedDatabase: the URL names a database that is neither SQLite nor PostgreSQL.
        """
        address = make_url(url)
        dialect = address.get_backend_name()
        if dialect not in DIALECTS:
            raise UnsupportedDatabase(
                f"unknown database `{dialect}`; use one of sqlite+aiosqlite, postgresql+asyncpg"
            )
        if dialect == "sqlite":
            engine = engines.sqlite(address, pool_size, migrating=migrating)
            return cls(engine, engines.sqlite_for_dry_runs(address, DRY_RUNS))
        timeout = None if migrating else statement_timeout_seconds
        return cls(
            engines.postgresql(address, pool_size, statement_timeout=timeout),
            engines.postgresql_for_dry_runs(address, DRY_RUNS, statement_timeout=timeout),
            watching=engines.postgresql_for_watching(address),
        )

    @asynccontextmanager
    async def transaction(
        self, *, tenant: str | None = None, is_exclusive: bool = False, brief: bool = False
    ) -> AsyncIterator[AsyncConnection]:
        """A connection in a write transaction, committed when the block ends, rolled back when it raises.

        A second one inside the first would wait for itself on SQLite, so that is refused.

        Args:
            tenant: the organization whose request it is, which others need not wait for; None for work of
                the service itself.
            is_exclusive: those of a tenant wait for each other in the database.
            brief: a few statements, each about a few rows found by their keys.
        """
        if self._writer is None:
            share = self._shares.write(tenant, is_exclusive=is_exclusive)
            async with self._connected(self._writing, share=share) as connection, connection.begin():
                yield connection
            return
        self._refuse_second_transaction()
        async with (
            self._taking(self._shares.write(tenant, is_exclusive=is_exclusive)),
            self._write_turn(self._writer),
            self._connected(self._writing) as connection,
            connection.begin(),
        ):
            # Beginning may wait for another process, and committing for the disk: not so the rest.
            with _at_hand(connection) if brief else nullcontext():
                yield connection

    def _refuse_second_transaction(self) -> None:
        if self._holder is not None and self._holder is asyncio.current_task():
            raise RuntimeError("this task is in a write transaction already; pass its connection on")

    @asynccontextmanager
    async def _write_turn(self, writer: asyncio.Lock) -> AsyncIterator[None]:
        """Be the one task of this process that writes to SQLite."""
        with self._wait():
            await writer.acquire()
        try:
            with self._held_by_this_task():
                yield
        finally:
            writer.release()

    @contextmanager
    def _held_by_this_task(self) -> Iterator[None]:
        """Note that this task is the one that writes."""
        before, self._holder = self._holder, asyncio.current_task()
        try:
            yield
        finally:
            self._holder = before

    @asynccontextmanager
    async def reading(
        self, *, tenant: str | None = None, apart: bool = False, brief: bool = False
    ) -> AsyncIterator[AsyncConnection]:
        """A connection whose statements all see the database at one instant; it writes nothing.

        Args:
            tenant: the organization that may ask for as much as it likes; None for a few rows.
            apart: for those of which a tenant has few at a time already: they take long.
            brief: a few statements, each about a few rows found by their keys, in their order.
        """
        if (connection := self._held()) is not None:
            yield connection
            return
        share = self._shares.long.take if apart else self._shares.read(tenant)
        if not brief or self._writer is None:
            async with self._connected(self._reading, share=share) as connection:
                yield connection
            return
        async with self._connected(self._querying, share=share) as connection:
            with _at_hand(connection) as driver, driver.snapshot():
                yield connection

    @asynccontextmanager
    async def at_one_instant(self, *, apart: bool = False) -> AsyncIterator[None]:
        """Let all that this task reads until the block ends be of one instant: that of its first statement.

        `reading` and `querying` give it one connection. What it writes meanwhile it does not see.

        Args:
            apart: for those of whom there are few at a time already.
        """
        task = asyncio.current_task()
        async with AsyncExitStack() as stack:
            if not apart:
                with self._wait():
                    await self._shares.instants.take(stack)
            connected = self._connected(self._reading, share=self._shares.long.take)
            self._at_one_instant[task] = await stack.enter_async_context(connected)
            try:
                yield
            finally:
                del self._at_one_instant[task]

    @contextmanager
    def reading_from(self, connection: AsyncConnection) -> Iterator[None]:
        """Let all that this task reads until the block ends come from that connection: of a dry run."""
        task = asyncio.current_task()
        before = self._at_one_instant.get(task)
        self._at_one_instant[task] = connection
        try:
            yield
        finally:
            if before is None:
                del self._at_one_instant[task]
            else:
                self._at_one_instant[task] = before

    def _held(self) -> AsyncConnection | None:
        return self._at_one_instant.get(asyncio.current_task()) if self._at_one_instant else None

    @asynccontextmanager
    async def querying(self, *, apart: bool = False) -> AsyncIterator[AsyncConnection]:
        """A connection without a transaction, for hot paths that run one small query. It cannot stream.

        Args:
            apart: for what must not wait behind those, or would keep them waiting.
        """
        if (held := self._held()) is not None:
            yield held
            return
        share = None if apart or self._watch is None else self._shares.query
        async with self._connected(self._querying, share=share) as connection:
            with _at_hand(connection) if self._writer else nullcontext():
                yield connection

    @asynccontextmanager
    async def watching(self, *, though_refused: bool = False) -> AsyncIterator[AsyncConnection]:
        """As `querying`, for what must not wait behind requests: PostgreSQL has one connection for that.

        Args:
            though_refused: for whoever finds out whether a refusal still holds.
        """
        engine = self._querying if self._watching is None else self._watching
        async with self._connected(engine, though_refused=though_refused) as connection:
            with _at_hand(connection) if self._writer else nullcontext():
                yield connection

    @asynccontextmanager
    async def writing_once(self, *, tenant: str | None = None) -> AsyncIterator[AsyncConnection]:
        """A connection for one small write of a hot path, all of it or nothing.

        On PostgreSQL it has to be one statement, which commits by itself: that saves two round trips. On
        SQLite, writes that come together are committed together. Refused inside a transaction, as another is.

        Args:
            tenant: the organization whose request it is, which others need not wait for.
        """
        if self._writer is None:
            async with self._connected(self._querying, share=self._shares.brief_write(tenant)) as connection:
                yield connection
            return
        self._refuse_second_transaction()
        async with self._groups.write() as connection:
            with self._held_by_this_task(), self._telling(self._writing):
                yield connection

    @asynccontextmanager
    async def dry_run(
        self, organization_id: str, zone_ids: Collection[str], names: Collection[str] = ()
    ) -> AsyncIterator[AsyncConnection]:
        """A connection on which an organization's configuration can be written, and nothing is.

        Nobody waits for it, and it waits for nobody but other dry runs.

        Args:
            zone_ids: the zones that the dry run is about; of others, it sees only that they are there.
            names: what applications are going to be called in them.
        """
        async with (
            self._taking(self._shares.dry_run(organization_id)),
            self._dry_runs.begin(organization_id, zone_ids, names) as connection,
        ):
            yield connection

    @asynccontextmanager
    async def _connected(
        self, engine: AsyncEngine, *, though_refused: bool = False, share: Take | None = None
    ) -> AsyncIterator[AsyncConnection]:
        if self.refusal is not None and not though_refused:
            DATABASE_FAILURES.inc()
            raise Unavailable(self.refusal.detail, internal=self.refusal.internal)
        async with AsyncExitStack() as stack:
            try:
                if engine is self._watching:
                    connection = await _taken(engine, stack)
                elif self._watch is None:
                    with self._wait():
                        connection = await _taken(engine, stack, share)
                else:
                    waiting = hang_detection.GuardedWait(self._watch)
                    stack.callback(waiting.end)
                    async with waiting.connecting:
                        with self._wait():
                            connection = await _taken(engine, stack, share)
                    waiting.driver = connection.sync_connection.connection.driver_connection  # type: ignore[union-attr]
            except ShareTaken:  # which says nothing of the database
                raise
            except Exception as error:
                engines.raise_if_away(error, availability.unavailable_connecting(error))
                raise
            with self._telling(engine):
                yield connection

    @asynccontextmanager
    async def _taking(self, share: Take | None) -> AsyncIterator[None]:
        """Have a share, if any, until the block ends."""
        async with AsyncExitStack() as stack:
            if share is not None:
                with self._wait():
                    await share(stack)
            yield

    @contextmanager
    def _telling(self, engine: AsyncEngine) -> Iterator[None]:
        """Tell a database that is away from one that refuses, where no statement of the engine has."""
        try:
            yield
        except Exception as error:  # the driver's own
            for_reading = engines.is_for_reading(engine.sync_engine.get_execution_options())
            told = availability.unavailable_using(error, for_reading=for_reading)
            self._takes_no_writes |= told is not None and told.detail == availability.TAKES_NO_WRITES
            self._lacks_tables |= told is not None and told.detail == availability.LACKS_TABLES
            if availability.found_no_room(error):
                self._has_room_at, self._room_then = monotonic() + NO_ROOM_SECONDS, self._room()
            engines.raise_if_away(error, told)
            raise

    @contextmanager
    def _wait(self) -> Iterator[None]:
        """Count who waits for a connection, and measure for how long."""
        self._waiting += 1
        began_at = perf_counter()
        try:
            yield
        finally:
            self._waiting -= 1
            DATABASE_WAIT_SECONDS.observe(perf_counter() - began_at)

    def measure(self) -> None:
        """Set the metrics of the connections for requests."""
        DATABASE_CONNECTIONS.set(engines.in_use(self.engine))
        DATABASE_CONNECTIONS_MOST.set(engines.most(self.engine))
        DATABASE_WAITING.set(self._waiting)

    def version(self) -> int | None:
        """A number that differs after a commit of anybody; None where the database does not tell of them."""
        return self._commits.version() if self._commits is not None else None

    async def ping(self) -> None:
        """Return when the database answers, and does again what it has refused. Raises `Unavailable`."""
        async with self.querying(apart=True) as connection:
            asked = "SHOW transaction_read_only" if self.dialect == "postgresql" else "SELECT 'off'"
            is_read_only = await connection.scalar(text(asked)) == "on"
        if is_read_only:
            raise Unavailable(availability.TAKES_NO_WRITES, internal="a standby, or set to be read-only")
        if self._lacks_tables:
            await self.try_tables()
        if monotonic() < self._has_room_at and self._room() <= self._room_then:
            raise Unavailable(availability.TAKES_NO_WRITES, internal="its disk had no room for a write")
        if self._takes_no_writes:
            await self.try_write()

    async def check(self) -> None:
        """As `ping`, and find out now and then whether the database takes writes. Raises `Unavailable`.

        A full disk refuses nothing but writes, and a node that nobody asks to write would not notice.
        """
        await self.ping()
        now = monotonic()
        if now < self._try_write_at or (self._writer is not None and self._writer.locked()):
            return  # whoever writes just now finds out
        self._try_write_at = now + TRIAL_EVERY_SECONDS
        try:
            await self._commit_nothing()
        except TimeoutError:
            if self._writer is None:  # SQLite lets one wait for another process's write, which is one
                self._takes_no_writes = True
                raise Unavailable(availability.TAKES_NO_WRITES, internal="no commit in time") from None

    async def try_tables(self) -> None:
        """Return when every table is there. Raises `Unavailable`."""
        async with self.querying(apart=True) as connection:
            for table in METADATA.sorted_tables:
                await connection.execute(select(literal_column("1")).select_from(table).limit(0))
        self._lacks_tables = False

    async def try_write(self) -> None:
        """Return when the database has committed a write, one that changes nothing. Raises `Unavailable`."""
        try:
            await self._commit_nothing()
        except TimeoutError:
            raise Unavailable(availability.TAKES_NO_WRITES, internal="no commit in time") from None

    async def try_room(self) -> None:
        """Return when PostgreSQL has found room for a MiB where its tables are. Raises `Unavailable`.

        The write of `try_write` needs none. Without the privilege for temporary tables nothing is tried.
        """
        async with self.transaction() as connection:
            if await connection.scalar(text(availability.MAY_TRY_ROOM)):
                for statement in availability.ROOM_TRIAL:
                    await connection.execute(text(statement))
                await connection.rollback()

    def _room(self) -> int:
        """What is left on the disk of SQLite's file, in bytes; 0 where that is not known."""
        with suppress(OSError):
            return files.room_of(self._file.parent)[1] if self._file else 0
        return 0

    async def _commit_nothing(self) -> None:
        async with asyncio.timeout(TRIAL_SECONDS), self.transaction(brief=True) as connection:
            await connection.execute(text("UPDATE service_secrets SET name = name"))
        self._takes_no_writes = False

    async def _ask(self) -> None:
        """What a server answers at once that does anything at all."""
        async with self.watching(though_refused=True) as connection:
            await connection.execute(text("SELECT 1"))

    async def close(self) -> None:
        """Close all connections; where the database hangs, leave them to the end of the process."""
        if self._commits is not None:
            self._commits.close()
        closing = [self._dry_runs.close, self.engine.dispose]
        for close in [*closing, self._watching.dispose] if self._watching is not None else closing:
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await close()


async def _taken(engine: AsyncEngine, until: AsyncExitStack, share: Take | None = None) -> AsyncConnection:
    """A connection of the engine's pool, which has it back when the stack is left."""
    if share is not None:
        await share(until)
    connection = await engine.connect()
    until.push_async_callback(_give_back, connection)
    return connection


async def _give_back(connection: AsyncConnection) -> None:
    """Give a connection back to its pool, at once where that takes no waiting.

    The engine does it in a task, a turn of the event loop later. By then thirty requests can have taken a
    connection each to SQLite, more than the pool keeps: one after the other was opened, and closed again.
    """
    sync: Any = connection.sync_connection
    if not sync.invalidated and _needs_no_waiting(sync):
        await connection.close()
    else:
        await connection.__aexit__(None, None, None)


def _needs_no_waiting(connection: Any) -> bool:
    """Tell whether a connection is given back without a word to the database."""
    adapter = connection.connection.dbapi_connection
    if connection.dialect.name == "sqlite":
        return bool(adapter.is_idle)
    return bool(adapter.autocommit and connection.engine.pool.overflow() <= 0)


@contextmanager
def _at_hand(connection: AsyncConnection) -> Iterator[Any]:
    """Let the statements of a SQLite connection, the driver's, run on the event loop: a thread costs more."""
    driver: Any = connection.sync_connection.connection.dbapi_connection  # type: ignore[union-attr]
    driver.at_hand = True
    try:
        yield driver
    finally:
        driver.at_hand = False
