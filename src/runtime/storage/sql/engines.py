"""Engines: the pools of connections to SQLite and PostgreSQL, and what every connection of them has."""

import asyncio
from collections.abc import Mapping
from sqlite3 import OperationalError
from typing import Any, cast
from urllib.parse import quote

import orjson
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, ExceptionContext
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import PoolResetState, QueuePool
from sqlalchemy.util import await_only

from runtime.domain.errors import Unavailable
from runtime.metrics import DATABASE_FAILURES, DATABASE_STATEMENTS
from runtime.storage.sql import availability
from runtime.storage.sql.sqlite import BEGIN, Driver

BUSY_SECONDS = 15
CONNECT_SECONDS = 5
POOL_SECONDS = 10.0
GIVEN_UP_SECONDS = 2  # for PostgreSQL to say that it has given up a statement
# A process that hangs in a transaction holds its locks no longer; twice what the reader of an answer may lag.
IDLE_SECONDS = 120
WATCHING_SECONDS = 1.8  # for a small question on the connection that is kept for those
_DRY_RUN_POOL_SECONDS = 60
_DRY_RUN_PAGES = 65_536  # of 4 KiB: what SQLite keeps in memory for one of them

_READS = "zonewright_reads"


def sqlite(address: URL, connections: int, *, migrating: bool) -> AsyncEngine:
    """The engine of a SQLite file for requests.

    Args:
        connections: that are kept; as many again are made when they are needed.
        migrating: no foreign key is looked after.
    """
    engine = _sqlite(address, connections)
    event.listen(engine.sync_engine, "connect", _on_sqlite_connect)
    if migrating:
        event.listen(engine.sync_engine, "connect", _without_references)
    return engine


def sqlite_for_dry_runs(address: URL, connections: int) -> AsyncEngine:
    """The engine of connections that write to nothing but temporary tables."""
    engine = _sqlite(
        address.set(database=f"file:{quote(address.database or '')}", query={"mode": "ro", "uri": "true"}),
        connections,
        more=0,
        timeout=_DRY_RUN_POOL_SECONDS,
        execution_options={_READS: True},
    )
    event.listen(engine.sync_engine, "connect", _on_sqlite_dry_run_connect)
    return engine


def postgresql(address: URL, connections: int, *, statement_timeout: float | None) -> AsyncEngine:
    """The engine of a PostgreSQL for requests.

    Args:
        connections: that are kept; as many again are made when they are needed.
        statement_timeout: in seconds; None for no end.
    """
    return _within_time(address, connections, statement_timeout)


def postgresql_for_dry_runs(
    address: URL, connections: int, *, statement_timeout: float | None
) -> AsyncEngine:
    """The engine of connections on which nothing is ever committed."""
    return _within_time(address, connections, statement_timeout, more=0, timeout=_DRY_RUN_POOL_SECONDS)


def postgresql_for_watching(address: URL) -> AsyncEngine:
    """The engine of the one connection that must not wait behind requests."""
    limits = {"timeout": WATCHING_SECONDS, "command_timeout": WATCHING_SECONDS}
    return _postgresql(address, limits, 1, more=0, timeout=WATCHING_SECONDS, isolation_level="AUTOCOMMIT")


def size(engine: AsyncEngine) -> int:
    """How many connections an engine keeps."""
    return _pool(engine).size()


def most(engine: AsyncEngine) -> int:
    """How many connections an engine for requests has at most."""
    return 2 * size(engine)


def in_use(engine: AsyncEngine) -> int:
    """How many connections of an engine somebody has."""
    return _pool(engine).checkedout()


def _pool(engine: AsyncEngine) -> QueuePool:
    return cast(QueuePool, engine.pool)  # as `_pooled` makes it


def _sqlite(address: URL, size: int, **options: Any) -> AsyncEngine:
    # The connection that was used last: what it has in memory is still so, unless another has written since.
    engine = _pooled(
        address.set(drivername="sqlite+aiosqlite"), size, module=Driver(), pool_use_lifo=True, **options
    )
    event.listen(engine.sync_engine, "begin", _on_sqlite_begin)
    return engine


def _within_time(
    address: URL, connections: int, statement_timeout: float | None, **options: Any
) -> AsyncEngine:
    """An engine whose statements and forgotten transactions PostgreSQL itself ends in time.

    A connection that is closed meanwhile does not end its statement, which would go on to hold its locks; nor
    does one of a process that has been stopped, or whose machine is gone.
    """
    longest = None if statement_timeout is None else statement_timeout + GIVEN_UP_SECONDS
    limits = {"timeout": CONNECT_SECONDS, "command_timeout": longest}
    engine = _postgresql(address, limits, connections, **options)
    if statement_timeout is not None:
        limits_of_session = (
            f"SET statement_timeout = {round(statement_timeout * 1000)};"
            f"SET idle_in_transaction_session_timeout = {round(IDLE_SECONDS * 1000)}"
        )

        # Not among the options of the connection: poolers in between refuse those that they do not know.
        def limit(connection: Any, _record: Any) -> None:
            connection.run_async(lambda driver: driver.execute(limits_of_session))

        event.listen(engine.sync_engine, "connect", limit)
    return engine


def _postgresql(address: URL, limits: dict[str, Any], size: int, **options: Any) -> AsyncEngine:
    options = {"isolation_level": "READ COMMITTED", **options}
    engine = _pooled(address.set(drivername="postgresql+asyncpg"), size, connect_args=limits, **options)
    event.listen(engine.sync_engine, "checkout", _on_postgres_checkout)
    event.listen(engine.sync_engine, "reset", _on_postgres_reset)
    return engine


def _pooled(
    address: URL, size: int, *, more: int | None = None, timeout: float = POOL_SECONDS, **options: Any
) -> AsyncEngine:
    """An engine.

    Args:
        more: connections beyond the pool's size; as many again when it is left out.
        timeout: how long one waits for a connection, in seconds.
    """
    engine = create_async_engine(
        address,
        json_serializer=_dumps,
        json_deserializer=orjson.loads,
        hide_parameters=True,  # in what failures say: they are logged
        pool_size=size,
        max_overflow=size if more is None else more,
        pool_timeout=timeout,
        **options,
    )
    event.listen(engine.sync_engine, "handle_error", _on_error)
    event.listen(engine.sync_engine, "before_cursor_execute", _on_statement)
    return engine


def _dumps(value: Any) -> str:
    return orjson.dumps(value).decode()


def _on_statement(*_: Any) -> None:
    DATABASE_STATEMENTS.inc()


def _on_error(context: ExceptionContext) -> None:
    """Tell a database that is away, or that another process keeps locked, from one that refuses."""
    failure = context.original_exception
    if not isinstance(failure, Exception):
        return  # whoever asked has been stopped
    if context.is_disconnect or isinstance(failure, TimeoutError):
        told = str(failure) or type(failure).__name__
        _cut_off(context)
        DATABASE_FAILURES.inc()
        raise Unavailable("the database does not answer", internal=told) from failure
    options = context.connection.get_execution_options() if context.connection is not None else {}
    raise_if_away(failure, availability.unavailable_using(failure, for_reading=is_for_reading(options)))


def is_for_reading(options: Mapping[str, Any]) -> bool:
    """Tell whether these are execution options of connections that are to write nothing."""
    return bool(options.get("postgresql_readonly") or options.get(_READS))


def _cut_off(context: ExceptionContext) -> None:
    """Let go of a connection that gave no answer in time: closing it politely would be one more wait."""
    if context.dialect.name == "postgresql" and context.connection is not None:
        driver: Any = context.connection.connection.driver_connection
        if driver is not None:
            driver.terminate()


def raise_if_away(failure: Exception, told: Unavailable | None) -> None:
    """Raise what to tell of a failure, where it means that the database is away.

    One that was told already was counted there, if it is one of the database's at all.
    """
    if told is not None and told is not failure:
        DATABASE_FAILURES.inc()
        raise told from failure


def _on_postgres_checkout(connection: Any, _record: Any, _fairy: Any) -> None:
    # The driver has noticed when the server went away; asking the server each time would cost a round trip.
    if connection.driver_connection.is_closed():
        raise DisconnectionError


def _on_postgres_reset(connection: Any, record: Any, state: PoolResetState) -> None:
    """End what the driver has begun on a connection that comes back, before the pool does.

    Where the server has gone since the last answer, nobody lacks anything: the pool would log a traceback.
    """
    if not state.asyncio_safe or state.transaction_was_reset:
        return
    try:
        connection.rollback()
    except Exception as failure:
        is_closed = connection.driver_connection.is_closed()
        if record is None or not (is_closed or availability.unavailable_connecting(failure)):
            raise
        record.invalidate(failure)


def _on_sqlite_connect(connection: Any, _record: Any) -> None:
    cursor = _settled(connection)
    _switch_to_wal(cursor)
    cursor.close()


def _on_sqlite_dry_run_connect(connection: Any, _record: Any) -> None:
    cursor = _settled(connection)
    cursor.execute(f"PRAGMA temp.max_page_count = {_DRY_RUN_PAGES}")
    cursor.close()


def _settled(connection: Any) -> Any:
    """A cursor of a new SQLite connection, which has what every one has."""
    # No transaction control by the driver: `_on_sqlite_begin` decides how one starts.
    connection.isolation_level = None
    # SQLite's own lower() knows ASCII only.
    connection.create_function("lower", 1, _lower, deterministic=True)
    cursor = connection.cursor()
    for setting in (
        f"busy_timeout = {BUSY_SECONDS * 1000}",
        "synchronous = NORMAL",
        "foreign_keys = ON",
        "cache_size = -32768",
        "temp_store = MEMORY",
    ):
        cursor.execute(f"PRAGMA {setting}")
    return cursor


def _without_references(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys = OFF")
    cursor.close()


def _switch_to_wal(cursor: Any) -> None:
    """Let readers not wait for the writer. SQLite itself does not wait when two switch a file at once."""
    for _ in range(BUSY_SECONDS * 100):
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except OperationalError as error:
            if "locked" not in str(error):
                raise
            await_only(asyncio.sleep(0.01))
        else:
            return


def _on_sqlite_begin(connection: Connection) -> None:
    if begin := connection.get_execution_options().get(BEGIN, "BEGIN"):
        connection.exec_driver_sql(begin)


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value
