"""Secrets that all processes of the service share, wrapped by the key-encryption key."""

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.storage.sql.organization_tables import service_secrets

TABLE = service_secrets.name


async def read_or_create(conn: AsyncConnection, name: str, wrapped: bytes) -> bytes:
    """The secret of that name as it is kept; *wrapped* is kept when there is none yet.

    Runs in a write transaction.
    """
    kept: bytes | None = await conn.scalar(
        select(service_secrets.c.wrapped).where(service_secrets.c.name == name)
    )
    if kept is not None:
        return kept
    await conn.execute(insert(service_secrets).values(name=name, wrapped=wrapped))
    return wrapped
