"""The table of token events on PostgreSQL: partitions by time, which are made ahead and dropped as a whole.

Together they take an event of any time: `token_events_past` has everything up to the first bound, partitions
of one width follow without gaps, and the default partition takes what is later. That is empty while
partitions are made ahead, and all there is in a database that was just migrated: `close_default` makes it the
past, however large it is, without a look at its rows while anybody waits.

Every change of the tables waits a moment for its locks and gives up, since those who read and write queue up
behind it. Spec: PostgreSQL, "Table Partitioning", and the locks of ALTER TABLE ... ATTACH PARTITION.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.storage.sql import autovacuum
from runtime.storage.sql.database import Database
from runtime.storage.sql.engines import GIVEN_UP_SECONDS

TABLE, DEFAULT, PAST = "token_events", "token_events_default", "token_events_past"
WIDEST = timedelta(days=28)
_MONDAY = datetime(1970, 1, 5, tzinfo=UTC)
_LOCK_TIMEOUT = "300ms"
_CLOSED = "token_events_default_closed"  # the check by which PostgreSQL knows what a partition has
_DEADLOCK = "40P01"
_VALIDATION_SECONDS = 3_600
# Both at once and in the order in which whoever adds events takes them; partitions refer to organizations.
_LOCK = f"LOCK TABLE ONLY {TABLE}, organizations IN ACCESS EXCLUSIVE MODE"
_BOUND = re.compile(r"FOR VALUES FROM \((MINVALUE|'[^']+')\) TO \('([^']+)'\)")
_CHILDREN = text(
    "SELECT child.relname, pg_get_expr(child.relpartbound, child.oid) AS bound"
    " FROM pg_inherits JOIN pg_class child ON child.oid = inhrelid"
    " WHERE inhparent = to_regclass('token_events')"
)


class Busy(Exception):
    """A lock was not to be had in time: somebody reads or writes for long. Nothing has changed."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition with bounds.

    Attributes:
        since: its first instant; None where it has everything before its end.
        until: the first instant that it does not have.
    """

    name: str
    since: datetime | None
    until: datetime


def boundary_after(at: datetime, width: timedelta) -> datetime:
    """The first instant after that one where a partition of a width may end; weeks end on Mondays, UTC."""
    return at - (at - _MONDAY) % width + width


def partition_statements(name: str, bound: str) -> tuple[str, str]:
    """The statements that make an empty partition. Ids have the time in them: one is unique."""
    return (
        f"CREATE TABLE {name} (LIKE {TABLE} INCLUDING DEFAULTS, PRIMARY KEY (organization_id, id))",
        f"ALTER TABLE {TABLE} ATTACH PARTITION {name} {bound}",
    )


async def partitions(conn: AsyncConnection) -> list[Partition]:
    """Those with bounds, in the order of time."""
    found = await conn.execute(_CHILDREN)
    bounded = [(row.relname, _BOUND.fullmatch(row.bound)) for row in found]
    return sorted(
        (
            Partition(name, None if bound[1] == "MINVALUE" else _instant(bound[1][1:-1]), _instant(bound[2]))
            for name, bound in bounded
            if bound is not None
        ),
        key=lambda each: each.until,
    )


async def past_until(conn: AsyncConnection) -> datetime | None:
    """The end of the partition that has everything before; None where no partition has bounds yet."""
    return next((each.until for each in await partitions(conn) if each.since is None), None)


async def has_rows(conn: AsyncConnection, partition: str) -> bool:
    """Tell whether a partition has any."""
    return bool(await conn.scalar(text(f"SELECT EXISTS (SELECT 1 FROM {partition})")))  # noqa: S608 - a name of ours


async def latest(conn: AsyncConnection) -> datetime | None:
    """The instant of the latest event of the default partition."""
    found: datetime | None = await conn.scalar(text(f"SELECT max(at) FROM {DEFAULT}"))  # noqa: S608 - a constant
    return found


async def close_default(database: Database, since: datetime | None, until: datetime) -> None:
    """Make the default partition one with bounds, and an empty one the default. Raises Busy.

    What makes this cheap is a check that was validated before: attaching then reads no row. From the check
    on, the default takes no event from *until* on, so that has to be far enough ahead.
    """
    name = PAST if since is None else _name(since)
    lower = "MINVALUE" if since is None else _literal(since)
    is_within = f"at < {_literal(until)}" + ("" if since is None else f" AND at >= {lower}")
    drop = f"ALTER TABLE {DEFAULT} DROP CONSTRAINT IF EXISTS {_CLOSED}"
    await _change(
        database, drop, f"ALTER TABLE {DEFAULT} ADD CONSTRAINT {_CLOSED} CHECK ({is_within}) NOT VALID"
    )
    try:
        await _validate(database)
        await _change(
            database,
            f"ALTER TABLE {TABLE} DETACH PARTITION {DEFAULT}",
            f"ALTER TABLE {DEFAULT} RENAME TO {name}",
            f"ALTER TABLE {TABLE} ATTACH PARTITION {name} FOR VALUES FROM ({lower}) TO ({_literal(until)})",
            f"ALTER TABLE {name} DROP CONSTRAINT {_CLOSED}",
            *partition_statements(DEFAULT, "DEFAULT"),
        )
    except BaseException:
        await _change(database, drop)
        raise


async def make(database: Database, since: datetime, until: datetime) -> None:
    """Make an empty partition that begins where the last ends. Raises Busy."""
    bound = f"FOR VALUES FROM ({_literal(since)}) TO ({_literal(until)})"
    await _change(database, *partition_statements(_name(since), bound))


async def drop(database: Database, past: list[Partition]) -> None:
    """Drop the oldest partitions, with all that they have; what is earlier than the others stays covered.

    Raises: Busy.
    """
    bound = f"FOR VALUES FROM (MINVALUE) TO ({_literal(past[-1].until)})"
    dropped = [f"DROP TABLE {each.name}" for each in past]
    await _change(database, *dropped, *partition_statements(PAST, bound))


async def _change(database: Database, *statements: str) -> None:
    """Change tables in one transaction."""
    try:
        async with database.transaction() as conn:
            for statement in (
                *autovacuum.keep_off([TABLE, "organizations"]),
                f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'",
                _LOCK,
                *statements,
            ):
                await conn.exec_driver_sql(statement)
    except DBAPIError as failure:
        if autovacuum.is_locked_out(failure) or getattr(failure.orig, "sqlstate", None) == _DEADLOCK:
            raise Busy(str(failure.orig)) from None
        raise


async def _validate(database: Database) -> None:
    """Have every row read, while others read and write; for longer than any other statement may take."""
    async with database.querying(apart=True) as conn:
        driver: Any = (await conn.get_raw_connection()).driver_connection
        async with driver.transaction():
            await driver.execute(f"SET LOCAL statement_timeout = '{_VALIDATION_SECONDS}s'")
            await driver.execute(
                f"ALTER TABLE {DEFAULT} VALIDATE CONSTRAINT {_CLOSED}",
                timeout=_VALIDATION_SECONDS + GIVEN_UP_SECONDS,
            )


def _name(since: datetime) -> str:
    return f"{TABLE}_{since:%Y_%m_%d}"


def _literal(at: datetime) -> str:
    return f"'{at.astimezone(UTC).isoformat()}'"


def _instant(literal: str) -> datetime:
    return datetime.fromisoformat(literal).astimezone(UTC)
