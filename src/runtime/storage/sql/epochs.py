"""Epoch changes: written with each change of an epoch, and polled by every process about once a second.

A change is committed together with the epochs that it bumps, so it survives the process that wrote it and
the short-lived state. Readers read each change once, in the order in which commits became visible. PostgreSQL
snapshots give that order, since a transaction that began first may commit last; SQLite has one writer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Float,
    Select,
    String,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    select,
    text,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.identifiers import new_id
from runtime.storage.sql.job_tables import epoch_changes as _changes


@dataclass(frozen=True, slots=True)
class EpochChanges:
    """The epoch changes since an earlier reading.

    Attributes:
        seen: position to pass to the next reading.
        at: seconds since 1970, on the database's clock.
        newest: the id of the newest change in the database.
        is_complete: False when the database was restored to a state before the earlier reading.
        epochs: key -> the greatest epoch of the changes.
    """

    seen: str
    at: float
    newest: str | None
    is_complete: bool
    epochs: Mapping[str, int]


SECONDS_NOW = {
    "postgresql": "CAST(extract(epoch FROM clock_timestamp()) AS double precision)",
    "sqlite": "(julianday('now') - 2440587.5) * 86400.0",
}
# The transaction that writes; on SQLite the next number, which `prune` never lets begin anew.
_POSITION = {
    "postgresql": "CAST(CAST(pg_current_xact_id() AS text) AS bigint)",
    "sqlite": "(SELECT coalesce(max(position), 0) + 1 FROM epoch_changes)",
}
_SEEN = {
    "postgresql": "CAST(pg_current_snapshot() AS text)",
    "sqlite": "CAST((SELECT coalesce(max(position), 0) FROM epoch_changes) AS text)",
}
# The first half is for the index, the second for transactions that were under way at the earlier reading.
_IS_NEW = {
    "postgresql": """
        position >= CAST(CAST(pg_snapshot_xmin(CAST(CAST(:seen AS text) AS pg_snapshot)) AS text) AS bigint)
        AND NOT pg_visible_in_snapshot(
            CAST(CAST(position AS text) AS xid8), CAST(CAST(:seen AS text) AS pg_snapshot)
        )
    """,
    "sqlite": "position > CAST(:seen AS integer)",
}


# By its position, so that the index has it; `prune` leaves it.
_NEWEST = "(SELECT id FROM epoch_changes ORDER BY position DESC LIMIT 1)"
# A database that has lost epochs has lost their changes, too: a counter that continues would not show it.
_earlier = _changes.alias("earlier")
_IS_THERE = select(_earlier.c.id).where(_earlier.c.id == bindparam("known", type_=String)).exists()


def _reading(dialect: str, is_new: str) -> Select[Any]:
    """One statement, so that what it sees and what it tells of that are of one instant."""
    return select(
        literal_column(_SEEN[dialect], String).label("seen"),
        literal_column(SECONDS_NOW[dialect], Float).label("at"),
        literal_column(_NEWEST, String).label("newest"),
        _IS_THERE.label("is_there"),
        _changes.c.epochs,
    ).select_from(_ALWAYS.outerjoin(_changes, text(is_new)))


_ALWAYS = select(literal_column("1")).subquery("always")
_FIRST = {dialect: _reading(dialect, "1 = 0") for dialect in SECONDS_NOW}
_NEXT = {dialect: _reading(dialect, is_new) for dialect, is_new in _IS_NEW.items()}


async def database_time(conn: AsyncConnection) -> float:
    """The present on the database's clock, in seconds since 1970."""
    return float(await conn.scalar(select(literal_column(SECONDS_NOW[conn.dialect.name], Float))) or 0.0)


async def record_changes(conn: AsyncConnection, epochs: Mapping[str, int]) -> str:
    """Record these epochs (key -> epoch) in the transaction that bumps them; returns the id of the change."""
    dialect, note_id = conn.dialect.name, new_id()
    await conn.execute(
        insert(_changes).values(
            id=note_id,
            position=literal_column(_POSITION[dialect]),
            noted_at=literal_column(f"CAST({SECONDS_NOW[dialect]} AS bigint)"),
            epochs=dict(epochs),
        )
    )
    return note_id


async def read_changes(conn: AsyncConnection, seen: str | None, known: str | None = None) -> EpochChanges:
    """The changes since an earlier reading; none for a first one.

    Args:
        seen: of the earlier reading; None for the first.
        known: the id of a committed change: the newest of the earlier reading, or a newer one.
    """
    statements = _FIRST if seen is None else _NEXT
    values = {"known": known or ""} | ({} if seen is None else {"seen": seen})
    found = await conn.execute(statements[conn.dialect.name], values)
    rows = found.all()
    epochs: dict[str, int] = {}
    for row in rows:
        for key, epoch in (row.epochs or {}).items():
            epochs[key] = max(epoch, epochs.get(key, 0))
    row, now_seen = rows[0], str(rows[0].seen)
    is_complete = (seen is None or _end(now_seen) >= _end(seen)) and (known is None or bool(row.is_there))
    return EpochChanges(now_seen, float(row.at), row.newest, is_complete, epochs)


async def prune(conn: AsyncConnection, *, older_than_seconds: int) -> int:
    """Delete changes that every process has read; the number of rows.

    The newest stays: on SQLite the next one is numbered after it.
    """
    now = literal_column(f"CAST({SECONDS_NOW[conn.dialect.name]} AS bigint)", BigInteger)
    newest = select(func.max(_changes.c.position)).scalar_subquery()
    gone = await conn.execute(
        delete(_changes).where(_changes.c.noted_at < now - older_than_seconds, _changes.c.position < newest)
    )
    return gone.rowcount


def _end(seen: str) -> int:
    """How far a reading went: the second number of a snapshot, `xmin:xmax:...`, or the only one."""
    return int(seen.split(":")[1] if ":" in seen else seen)
