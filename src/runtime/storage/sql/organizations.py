"""Organizations, found by whoever does not know which one is meant yet."""

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import ORGANIZATION
from runtime.domain.kinds.organization import Organization
from runtime.storage.sql import entities


async def named(conn: AsyncConnection, id_or_label: str) -> Organization | None:
    """The organization with that id, or else with that label."""
    for member in ("id", "label"):
        found = await entities.find_by(conn, ORGANIZATION, member, id_or_label, within={})
        if isinstance(found, Organization):
            return found
    return None
