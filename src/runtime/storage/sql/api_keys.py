"""API keys: looked up by id, recognised by a hash."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.storage.sql.tables import METADATA

_keys = METADATA.tables["api_keys"]


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is kept: without the secret."""

    id: str
    organization_id: str
    name: str
    role: str
    secret_hash: bytes
    created_at: datetime
    last_used_at: datetime | None = None


async def find(conn: AsyncConnection, key_id: str) -> ApiKey | None:
    """The key with that id, of whatever organization: it is the key that says which."""
    row = (await conn.execute(select(_keys).where(_keys.c.id == key_id))).mappings().one_or_none()
    return ApiKey(**row) if row else None


async def add(conn: AsyncConnection, key: ApiKey) -> None:
    """Keep a new key."""
    await conn.execute(
        insert(_keys).values(
            id=key.id,
            organization_id=key.organization_id,
            name=key.name,
            role=key.role,
            secret_hash=key.secret_hash,
            created_at=key.created_at,
            last_used_at=key.last_used_at,
        )
    )


async def record_use(conn: AsyncConnection, key_id: str, *, now: datetime, every: timedelta) -> None:
    """Note that the key is in use, unless that was noted within *every*."""
    await conn.execute(
        update(_keys)
        .where(_keys.c.id == key_id, or_(_keys.c.last_used_at.is_(None), _keys.c.last_used_at <= now - every))
        .values(last_used_at=now)
    )
