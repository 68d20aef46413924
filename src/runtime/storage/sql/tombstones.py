"""Tombstones: deleted entities of a configuration set, kept until it has acknowledged them."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import delete, insert, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import ZONE
from runtime.storage.sql.batches import among, batches
from runtime.storage.sql.tables import TABLES, tombstones

_NAMES = (
    "kind",
    "entity_id",
    "zone_id",
    "zone",
    "owner",
    "name",
    "revision",
    "deleted_at",
    "actor_type",
    "actor_id",
    "changeset_id",
)


@dataclass(frozen=True, slots=True)
class TombstoneRecord:
    """That something is gone, who managed it, and who deleted it.

    Attributes:
        zone: slug of the zone that it was in; None for zones and for what no zone owns.
        owner, name: as in its ownership record.
        revision: the one in which it went.
    """

    kind: str
    entity_id: str
    zone_id: str | None
    zone: str | None
    owner: str
    name: str
    revision: int
    deleted_at: datetime
    actor_type: str
    actor_id: str
    changeset_id: str | None


async def add(conn: AsyncConnection, organization_id: str, gone: Sequence[TombstoneRecord]) -> None:
    """Keep that these are gone."""
    rows = [{"organization_id": organization_id, **asdict(each)} for each in gone]
    for batch in batches(rows):
        await conn.execute(insert(tombstones), batch)


async def in_zones(
    conn: AsyncConnection, organization_id: str, zone_ids: Collection[str]
) -> list[TombstoneRecord]:
    """What is gone from these zones and from what is in none, by kind, zone and name.

    What was in a zone that is gone itself is told, too: nobody can ask for that zone.
    """
    zones = TABLES[ZONE.name]
    there = select(zones.c.id).where(zones.c.organization_id == organization_id)
    zone_id = tombstones.c.zone_id
    query = select(*(tombstones.c[name] for name in _NAMES)).where(
        tombstones.c.organization_id == organization_id,
        or_(zone_id.is_(None), among(zone_id, zone_ids), zone_id.not_in(there)),
    )
    order = (tombstones.c[name] for name in ("kind", "zone_id", "name", "entity_id"))
    return [TombstoneRecord(**row) for row in (await conn.execute(query.order_by(*order))).mappings()]


async def acknowledge(conn: AsyncConnection, organization_id: str, owner: str, *, until: int) -> None:
    """Forget what an owner has heard of: what was gone at the revision that it has planned from."""
    await conn.execute(
        delete(tombstones).where(
            tombstones.c.organization_id == organization_id,
            tombstones.c.owner == owner,
            tombstones.c.revision <= until,
        )
    )


async def forget(conn: AsyncConnection, *, before: datetime, limit: int) -> int:
    """Forget some that are older than an instant; how many that were."""
    old = select(tombstones.c.entity_id).where(tombstones.c.deleted_at < before).limit(limit)
    return (await conn.execute(delete(tombstones).where(tombstones.c.entity_id.in_(old)))).rowcount
