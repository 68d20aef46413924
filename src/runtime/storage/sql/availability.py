"""Recognizes database errors that mean the database is unavailable.

Whoever asked did nothing wrong, and may ask again: starting, recovering, out of connections, memory or disk,
a standby, a file that is locked or cannot be written, tables that are being restored. All of them become
`Unavailable`, whatever the driver calls them.
"""

import sqlite3
from collections.abc import Iterator

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import Unavailable

# The beginnings of PostgreSQL's states: no connection; no resources (connections, memory, disk); shut down,
# crashed, or not started yet; failing disks; nobody let in; a database that is being restored.
_AWAY_STATES = ("08", "28", "53", "57P", "58", "3D000")
_NO_CONNECTIONS = "55000"  # of a database with `ALLOW_CONNECTIONS false`, to who connects
_DISK_FULL = "53100"
# Canceled by a limit of time, or by somebody who runs the database; ended, being idle in a transaction.
_GIVEN_UP = ("57014", "25P03")
_NO_ROOM_OF_SQLITE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)  # the latter with a quota
_DATA_STATES = ("22",)  # a value that cannot be converted, is out of range, or has a NUL
# A write on what is a standby by now; a transaction that was begun for reading has it, too.
_READ_ONLY = ("25006", "attempt to write a readonly database")
TAKES_NO_WRITES = "the database takes no writes"
LACKS_TABLES = "the database lacks tables"
_NO_TABLE = ("42P01", "3F000")
_NO_PRIVILEGE = "42501"
# What is told of a table that has been made anew since the connection got to know it.
_OUTDATED = ("cached statement", "cached plan", "cache lookup failed", "could not open relation with OID")
_DISK_ERROR = "disk I/O error"  # SQLite's for a quota that is used up, too, and for files that it cannot make
# Where a driver has one class of error for nearly everything: its words -> what callers are told.
_IN_WORDS = {
    "connection is closed": "the database does not answer",
    # asyncpg, once the server has said that it ends the connection, until the connection has ended.
    "another operation (2) is in progress": "the database does not answer",
    "database is locked": "the database does not answer",
    "database or disk is full": TAKES_NO_WRITES,
    "no such table": LACKS_TABLES,
    _DISK_ERROR: TAKES_NO_WRITES,
    "unable to open database file": "the database cannot be used",
}

# A table on the disk of the database's own, whatever else is set for temporary ones, with a MiB that nothing
# between here and the disk makes smaller. Whoever executes this rolls it back.
MAY_TRY_ROOM = "SELECT has_database_privilege(current_database(), 'TEMPORARY')"
ROOM_TRIAL = (
    "SET LOCAL temp_tablespaces = ''",
    "CREATE TEMPORARY TABLE room_trial (filling bytea)",
    """
    INSERT INTO room_trial
    SELECT string_agg(decode(md5(random()::text), 'hex'), ''::bytea) FROM generate_series(1, 65536)
    """,
)


def unavailable_connecting(failure: Exception) -> Unavailable | None:
    """What to raise when no connection could be had; None where the failure says something else."""
    if isinstance(failure, OSError | PoolTimeout):
        return Unavailable("the database cannot be reached", internal=str(failure) or type(failure).__name__)
    for cause in _causes(failure):
        if getattr(cause, "sqlstate", None) == _NO_CONNECTIONS:
            return Unavailable("the database takes no connections", internal=str(cause))
    return unavailable_using(failure)


def unavailable_using(failure: Exception, *, for_reading: bool = False) -> Unavailable | None:
    """What to raise in place of what a statement, or a commit, has raised; None for a refusal, or a bug.

    Args:
        for_reading: its transaction was to write nothing, so that it could not is no news.
    """
    if isinstance(failure, Unavailable):
        return failure
    for cause in _causes(failure):
        if (told := _reason(cause, for_reading=for_reading)) is not None:
            return Unavailable(told, internal=str(cause))
    return None


def found_no_room(failure: Exception) -> bool:
    """Whether there was no room on the disk for a write; what needs less, or none, may still be written."""
    told = failure.__cause__ if isinstance(failure, Unavailable) else failure
    return told is not None and any(
        getattr(each, "sqlstate", None) == _DISK_FULL
        or getattr(each, "sqlite_errorcode", None) in _NO_ROOM_OF_SQLITE
        for each in _causes(told)
    )


async def connections_allowed(conn: AsyncConnection) -> int:
    """How many connections PostgreSQL allows to accounts that are no superuser's."""
    names = ("max_connections", "superuser_reserved_connections")
    most, reserved = [int(await conn.scalar(text(f"SHOW {name}")) or 0) for name in names]
    return most - reserved


def is_about_data(failure: DBAPIError) -> bool:
    """Whether a statement failed for a value in it: the same statement fails each time."""
    states = (getattr(cause, "sqlstate", None) for cause in _causes(failure))
    return any(str(state).startswith(_DATA_STATES) for state in states)


def _reason(cause: BaseException, *, for_reading: bool) -> str | None:
    state = getattr(cause, "sqlstate", None)
    if state == _READ_ONLY[0] or (state is None and _READ_ONLY[1] in str(cause)):
        return None if for_reading else TAKES_NO_WRITES
    if state is None and for_reading and _DISK_ERROR in str(cause):
        return "the database cannot be reached"
    if state is None:
        return next((told for words, told in _IN_WORDS.items() if words in str(cause)), None)
    if state == _DISK_FULL:
        return TAKES_NO_WRITES
    if state in _NO_TABLE:
        return LACKS_TABLES
    if state in _GIVEN_UP:
        return "the database does not answer"
    if state == _NO_PRIVILEGE:
        return "the database account lacks privileges"
    if any(words in str(cause) for words in _OUTDATED):
        return "the database's tables were recreated"
    return "the database cannot be reached" if str(state).startswith(_AWAY_STATES) else None


def _causes(failure: BaseException) -> Iterator[BaseException]:
    """What the driver has raised, as it comes: by itself, or wrapped once or twice."""
    if isinstance(failure, DBAPIError):
        if failure.orig is not None:
            yield from _causes(failure.orig)
    elif _is_of_a_driver(failure):
        yield failure
        if failure.__cause__ is not None:
            yield from _causes(failure.__cause__)


def _is_of_a_driver(failure: BaseException) -> bool:
    package = type(failure).__module__.partition(".")[0]
    return package in ("asyncpg", "sqlite3") or "asyncpg" in type(failure).__module__
