"""The identifiers of a zone's resources, for checks that two do not cover each other."""

from dataclasses import dataclass
from itertools import groupby

from sqlalchemy import and_, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds.values import ApplicationType
from runtime.domain.oauth.resource_overlaps import PlacedResource, ResourceOverlaps
from runtime.storage.sql.tables import TABLES

_resources = TABLES["Resource"]
_applications = TABLES["Application"]


@dataclass(frozen=True, slots=True)
class ProvidedResource:
    """A resource with the redirect URIs of the application that provides it."""

    id: str
    identifier: str
    application_type: ApplicationType
    application_id: str
    redirect_uris: tuple[str, ...]


async def provided(
    conn: AsyncConnection, zone_id: str, *, resource_id: str | None = None, application_id: str | None = None
) -> list[ProvidedResource]:
    """The resources of a zone that an application provides, oldest first; of one resource or application."""
    of_resource = _resources.c
    query = (
        select(
            of_resource.id,
            of_resource.identifier,
            of_resource.application_type,
            of_resource.application_id,
            _applications.c.protocols,
        )
        .join(
            _applications,
            and_(
                _applications.c.zone_id == of_resource.zone_id,
                _applications.c.id == of_resource.application_id,
            ),
        )
        .where(of_resource.zone_id == zone_id)
        .order_by(of_resource.created_at, of_resource.id)
    )
    if resource_id is not None:
        query = query.where(of_resource.id == resource_id)
    if application_id is not None:
        query = query.where(of_resource.application_id == application_id)
    return [
        ProvidedResource(
            row.id,
            row.identifier,
            ApplicationType(row.application_type),
            row.application_id,
            tuple(((row.protocols or {}).get("oauth2") or {}).get("redirect_uris") or ()),
        )
        for row in await conn.execute(query)
    ]


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
