"""The secret of a resource that token exchange hands out."""

from sqlalchemy import bindparam, select
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds.values import SecretType
from runtime.storage.sql.tables import TABLES

_secrets = TABLES["Secret"]

# Made once: making a statement costs more than running it.
_LATEST = (
    select(_secrets.c.id, _secrets.c.data)
    .where(
        _secrets.c.zone_id == bindparam("zone"),
        _secrets.c.entity_id == bindparam("resource"),
        _secrets.c.type == SecretType.TOKEN.value,
        _secrets.c.resource_identifier == bindparam("identifier"),
    )
    .order_by(_secrets.c.created_at.desc(), _secrets.c.id.desc())
    .limit(1)
)


async def latest_token(
    conn: AsyncConnection, *, zone_id: str, resource_id: str, identifier: str
) -> tuple[str, bytes] | None:
    """The id and the sealed value of the newest secret of type `token` of a resource; None without one.

    Args:
        identifier: of the resource; what was given while it had another one is for another address.
    """
    asked = {"zone": zone_id, "resource": resource_id, "identifier": identifier}
    row = (await conn.execute(_LATEST, asked)).one_or_none()
    return (row.id, row.data) if row is not None else None
