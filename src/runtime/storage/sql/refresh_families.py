"""Refresh token families: one row for the chain of refresh tokens that began with one authorization code.

The row knows the current token, the one before it, and what the one before was exchanged for, so that a
client that repeats a request gets the same answer instead of a second branch.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, insert, select, tuple_, update
from sqlalchemy.engine import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.prepared import PreparedStatement
from runtime.storage.sql.tables import METADATA

_families = METADATA.tables["refresh_families"]

# Made once: making a statement costs more than running it.
_OF_ID = select(_families).where(
    _families.c.zone_id == bindparam("zone"), _families.c.id == bindparam("family")
)
_ADD = PreparedStatement(insert(_families).returning(_families.c.id))


@dataclass(frozen=True, slots=True)
class RefreshFamily:
    """A family as it is kept.

    Attributes:
        application_id, user_agent_id: whose it is; one of them is set.
        client_id: what the family was issued to; another credential of the application cannot use it.
        scopes: the sign-in scopes.
        resources: id of a resource the user authorized -> its scopes; narrowing happens per request.
        successor_sealed: the current token, sealed, for the holder of the previous one.
        rotated_at: when the previous token was used.
        jkt: thumbprint of the key that whoever uses it must have.
    """

    id: str
    zone_id: str
    client_id: str
    session_id: str
    user_id: str
    scopes: list[str]
    resources: dict[str, list[str]]
    current_hash: bytes
    expires_at: datetime
    created_at: datetime
    application_id: str | None = None
    user_agent_id: str | None = None
    previous_hash: bytes | None = None
    successor_sealed: bytes | None = None
    rotated_at: datetime | None = None
    status: str = "active"
    jkt: str | None = None

    @property
    def client_ref(self) -> ClientRef:
        """Whose it is."""
        return ClientRef(self.application_id, self.user_agent_id)


async def add(conn: AsyncConnection, family: RefreshFamily) -> None:
    """Keep a new family."""
    await _ADD.rows(conn, values(family))


def values(family: RefreshFamily) -> dict[str, Any]:
    """The columns of a family's row."""
    return {name: getattr(family, name) for name in RefreshFamily.__slots__}


async def find(conn: AsyncConnection, family_id: str, *, zone_id: str) -> RefreshFamily | None:
    """The family with that id in that zone, whatever its status."""
    found = await conn.execute(_OF_ID, {"zone": zone_id, "family": family_id})
    row = found.mappings().one_or_none()
    return None if row is None else _read(row)


async def rotate(
    conn: AsyncConnection,
    family: RefreshFamily,
    *,
    successor_hash: bytes,
    successor_sealed: bytes,
    now: datetime,
    expires_at: datetime,
) -> bool:
    """Put the successor in the current token's place; False when another request has done so already."""
    done = await conn.execute(
        update(_families)
        .where(
            _families.c.id == family.id,
            _families.c.zone_id == family.zone_id,
            _families.c.current_hash == family.current_hash,
            _families.c.status == "active",
        )
        .values(
            current_hash=successor_hash,
            previous_hash=family.current_hash,
            successor_sealed=successor_sealed,
            rotated_at=now,
            expires_at=expires_at,
            jkt=family.jkt,
        )
    )
    return done.rowcount == 1


async def revoke(conn: AsyncConnection, family_id: str, *, zone_id: str) -> None:
    """End a family: none of its tokens is worth anything afterwards."""
    await conn.execute(
        update(_families)
        .where(_families.c.id == family_id, _families.c.zone_id == zone_id)
        .values(status="revoked", successor_sealed=None)
    )


async def forget_expired(conn: AsyncConnection, *, before: datetime, limit: int) -> int:
    """Forget families that expired before that instant, whether their session stands or not; how many.

    A token of a family that is gone is refused as one of an expired family is.
    """
    key = (_families.c.zone_id, _families.c.id)
    old = select(*key).where(_families.c.expires_at < before).order_by(_families.c.expires_at).limit(limit)
    gone = await conn.execute(delete(_families).where(tuple_(*key).in_(old.subquery().select())))
    return gone.rowcount


def _read(row: RowMapping) -> RefreshFamily:
    values = {name: row[name] for name in RefreshFamily.__slots__}
    values["scopes"], values["resources"] = values["scopes"] or [], values["resources"] or {}
    return RefreshFamily(**values)
