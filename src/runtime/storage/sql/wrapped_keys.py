"""Queries of wrapped keys: the data keys of zones, and the secrets that all processes share."""

from collections.abc import Collection
from dataclasses import dataclass, field

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.storage.sql.organization_tables import service_secrets, zone_internals
from runtime.storage.sql.tables import TABLES

_AT_ONCE = 500  # ids in one statement


@dataclass(frozen=True, slots=True)
class WrappedOfZone:
    """The data key of a zone.

    Attributes:
        arn: the zone's own key-encryption key; None for the service's.
    """

    zone_id: str
    organization_id: str
    stored: bytes = field(repr=False)
    arn: str | None


async def zones(conn: AsyncConnection, *, after: str, limit: int) -> list[WrappedOfZone]:
    """Data keys of zones in the order of their ids, those after that one."""
    columns, own = zone_internals.c, TABLES["Zone"].c
    found = await conn.execute(
        select(columns.zone_id, columns.organization_id, columns.data_key_wrapped, own.encryption_key)
        .join(TABLES["Zone"], own.id == columns.zone_id)
        .where(columns.zone_id > after)
        .order_by(columns.zone_id)
        .limit(limit)
    )
    return [
        WrappedOfZone(
            row.zone_id,
            row.organization_id,
            row.data_key_wrapped,
            row.encryption_key["arn"] if row.encryption_key else None,
        )
        for row in found
    ]


async def of_zones(conn: AsyncConnection, zone_ids: Collection[str]) -> dict[str, bytes]:
    """The wrapped data keys of these zones, by their ids."""
    columns = zone_internals.c
    found: dict[str, bytes] = {}
    wanted = list(zone_ids)
    for first in range(0, len(wanted), _AT_ONCE):
        some = wanted[first : first + _AT_ONCE]
        rows = await conn.execute(
            select(columns.zone_id, columns.data_key_wrapped).where(columns.zone_id.in_(some))
        )
        found |= {row.zone_id: row.data_key_wrapped for row in rows}
    return found


async def replace_of_zone(conn: AsyncConnection, zone_id: str, before: bytes, after: bytes) -> bool:
    """Keep a zone's data key as it is wrapped now; False when it is not wrapped as it was."""
    columns = zone_internals.c
    done = await conn.execute(
        update(zone_internals)
        .where(columns.zone_id == zone_id, columns.data_key_wrapped == before)
        .values(data_key_wrapped=after)
    )
    return done.rowcount == 1


async def of_service(conn: AsyncConnection) -> dict[str, bytes]:
    """The wrapped secrets that all processes share, by name."""
    found = await conn.execute(select(service_secrets.c.name, service_secrets.c.wrapped))
    return {row.name: row.wrapped for row in found}


async def replace_of_service(conn: AsyncConnection, name: str, before: bytes, after: bytes) -> bool:
    """Keep a secret of the service as it is wrapped now; False when it is not wrapped as it was."""
    columns = service_secrets.c
    done = await conn.execute(
        update(service_secrets).where(columns.name == name, columns.wrapped == before).values(wrapped=after)
    )
    return done.rowcount == 1
