"""The cache tags that the latest changes of each zone were about, by the epoch that a change made.

A change is written in the transaction that bumps the epoch, which locks the zone's row: so the epochs of a
zone have no gaps, and whoever reads an epoch reads every change up to it. A change that has no row, an older
release's for example, is one of everything.
"""

from collections.abc import Collection, Mapping

from sqlalchemy import BigInteger, bindparam, delete, insert, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.storage.sql.epochs import SECONDS_NOW
from runtime.storage.sql.job_tables import zone_changes as _changes

_BETWEEN = (
    select(_changes.c.epoch, _changes.c.tags)
    .where(
        _changes.c.zone_id == bindparam("zone"),
        _changes.c.epoch > bindparam("after"),
        _changes.c.epoch <= bindparam("until"),
    )
    .order_by(_changes.c.epoch)
)


async def add(conn: AsyncConnection, epochs: Mapping[str, int], tags: Mapping[str, Collection[str]]) -> None:
    """Keep what a transaction changes, in it.

    Args:
        epochs: zone id -> the epoch that it made.
        tags: zone id -> the tags that it changes.
    """
    noted_at = literal_column(f"CAST({SECONDS_NOW[conn.dialect.name]} AS bigint)", BigInteger)
    rows = [
        {"zone_id": zone_id, "epoch": epochs[zone_id], "tags": sorted(tags[zone_id])}
        for zone_id in sorted(tags.keys() & epochs.keys())
    ]
    if rows:
        await conn.execute(insert(_changes).values(noted_at=noted_at), rows)


async def between(
    conn: AsyncConnection, zone_id: str, after: int, until: int
) -> list[tuple[int, frozenset[str]]]:
    """Epoch and tags of the changes of a zone after an epoch and up to another one, in order."""
    found = await conn.execute(_BETWEEN, {"zone": zone_id, "after": after, "until": until})
    return [(int(row.epoch), frozenset(row.tags)) for row in found]


async def prune(conn: AsyncConnection, *, older_than_seconds: int) -> int:
    """Delete old changes; the number of rows. Whoever has not read one reads its zone again."""
    now = literal_column(f"CAST({SECONDS_NOW[conn.dialect.name]} AS bigint)", BigInteger)
    gone = await conn.execute(delete(_changes).where(_changes.c.noted_at < now - older_than_seconds))
    return gone.rowcount
