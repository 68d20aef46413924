"""Batched inserts: new rows of a dry run wait, and are written together before the next statement.

Only where nobody hears of a single row: on the connection of a dry run, whose caller tries again one by one
when the rows are refused. They are written before any other statement, so that every query sees them.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from sqlalchemy import Connection, Table, insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.storage.sql.batches import batches
from runtime.storage.sql.tables import METADATA

Row = Mapping[str, Any]  # column -> value

_PENDING = "zonewright_pending"


class BatchRejected(Exception):
    """The database does not take rows that were written together; one by one, it says which of them."""


@asynccontextmanager
async def batched(conn: AsyncConnection) -> AsyncIterator[None]:
    """Within the block new rows wait. At its end they are written. Raises BatchRejected, there or before."""
    conn.info[_PENDING] = {}
    try:
        yield
        await conn.run_sync(flush)
    finally:
        if not conn.invalidated:
            del conn.info[_PENDING]


def enqueue(conn: AsyncConnection, table: Table, rows: Iterable[Row]) -> bool:
    """Let new rows wait, where rows do; else tell that they have to be written now."""
    waiting: dict[str, list[Row]] | None = conn.info.get(_PENDING)
    if waiting is None:
        return False
    waiting.setdefault(table.name, []).extend(rows)
    return True


def flush(conn: Connection) -> None:
    """Write what waits, what others refer to before them. Raises BatchRejected."""
    waiting: dict[str, list[Row]] | None = conn.info.get(_PENDING)
    if not waiting:
        return
    written = dict(waiting)
    waiting.clear()
    for table in _parents_first():
        rows = written.get(table.name, ())
        for batch in batches(rows):
            try:
                conn.execute(insert(table), [dict(row) for row in batch])
            except DBAPIError as error:
                raise BatchRejected from error


@cache
def _parents_first() -> tuple[Table, ...]:
    return tuple(METADATA.sorted_tables)
