"""The identifiers of a zone's resources, for checks that two do not cover each other."""

from itertools import groupby

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.oauth.resource_overlaps import PlacedResource, ResourceOverlaps
from runtime.storage.sql.tables import TABLES

_resources = TABLES["Resource"]


async def placed(conn: AsyncConnection, zone_id: str, *, beginning: str = "") -> list[PlacedResource]:
    """The resources of a zone, oldest first; those whose identifiers begin so, in whatever case."""
    columns = _resources.c
    query = select(columns.id, columns.identifier, columns.prefix).where(columns.zone_id == zone_id)
    if beginning:
        query = query.where(func.lower(columns.identifier).startswith(beginning.lower(), autoescape=True))
    rows = await conn.execute(query.order_by(columns.created_at, columns.id))
    return [PlacedResource(row.id, row.identifier, row.prefix) for row in rows]


async def alike(conn: AsyncConnection) -> list[tuple[str, list[PlacedResource]]]:
    """Resources that are the same when compared as URLs, from before that was refused: each with its zone."""
    columns = _resources.c
    query = select(columns.zone_id, columns.id, columns.identifier, columns.prefix)
    rows = await conn.execute(query.order_by(columns.zone_id, columns.created_at, columns.id))
    zones = groupby(rows, key=lambda row: str(row.zone_id))
    return [
        (zone_id, twins)
        for zone_id, found in zones
        for twins in ResourceOverlaps(
            PlacedResource(row.id, row.identifier, row.prefix) for row in found
        ).equals()
    ]
