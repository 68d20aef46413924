"""The entities that a secret may belong to: they are of several kinds, so there is no foreign key."""

from sqlalchemy import ColumnElement, literal, or_, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import SECRET_OWNERS
from runtime.domain.kinds.values import OwnerType
from runtime.storage.sql.tables import TABLES

_secrets = TABLES["Secret"]


async def exists(conn: AsyncConnection, entity_id: str, *, zone_id: str) -> bool:
    """Tell whether the zone has an entity with that id which can own secrets."""
    owners = (
        select(literal(1)).where(table.c.zone_id == zone_id, table.c.id == entity_id)
        for table in (TABLES[name] for name in SECRET_OWNERS)
    )
    return (await conn.execute(union_all(*owners))).first() is not None


def managed_by(owner_type: OwnerType, zone_id: str) -> ColumnElement[bool]:
    """The condition that the owner of a secret has that `owner_type`; users count as the customer's."""
    return or_(
        *(
            _secrets.c.entity_id.in_(
                select(table.c.id).where(
                    table.c.zone_id == zone_id,
                    *([table.c.owner_type == owner_type.value] if "owner_type" in table.c else []),
                )
            )
            for table in (TABLES[name] for name in SECRET_OWNERS)
            if "owner_type" in table.c or owner_type is OwnerType.CUSTOMER
        )
    )
