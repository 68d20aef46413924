"""Queries of wrapped keys: the data keys of zones, and the secrets that all processes share."""

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.storage.sql.organization_tables import service_secrets, zone_internals


async def zones(conn: AsyncConnection, *, after: str, limit: int) -> list[tuple[str, str, bytes]]:
    """Zones in the order of their ids, those after that one: id, organization and wrapped data key."""
    columns = zone_internals.c
    found = await conn.execute(
        select(columns.zone_id, columns.organization_id, columns.data_key_wrapped)
        .where(columns.zone_id > after)
        .order_by(columns.zone_id)
        .limit(limit)
    )
    return [(row.zone_id, row.organization_id, row.data_key_wrapped) for row in found]


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
