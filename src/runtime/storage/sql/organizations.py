"""Organizations, found by id or label across tenants."""

from sqlalchemy import exists, select
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import ORGANIZATION
from runtime.domain.kinds.organization import Organization
from runtime.domain.kinds.values import OwnerType
from runtime.storage.sql import entities
from runtime.storage.sql.tables import TABLES

_organizations = TABLES["Organization"]
_resources = TABLES["Resource"]


async def find(conn: AsyncConnection, id_or_label: str) -> Organization | None:
    """The organization with that id, or else with that label."""
    for member in ("id", "label"):
        found = await entities.find_by(conn, ORGANIZATION, member, id_or_label, within={})
        if isinstance(found, Organization):
            return found
    return None


async def without_resource(conn: AsyncConnection, identifier: str) -> list[tuple[str, str]]:
    """(organization, home zone) of those whose home zone lacks the platform's resource of that identifier."""
    there = exists().where(
        _resources.c.zone_id == _organizations.c.zone_id,
        _resources.c.identifier == identifier,
        _resources.c.owner_type == OwnerType.PLATFORM,
    )
    found = await conn.execute(
        select(_organizations.c.id, _organizations.c.zone_id)
        .where(_organizations.c.zone_id.is_not(None), ~there)
        .order_by(_organizations.c.created_at)
    )
    return [(row.id, row.zone_id) for row in found]
