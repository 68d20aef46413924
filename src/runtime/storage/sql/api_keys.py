"""API keys: found by their id alone, together with the current role of the person who made them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, bindparam, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import API_KEY
from runtime.domain.kinds.api_key import ApiKey
from runtime.domain.kinds.values import OrganizationStatus, UserStatus
from runtime.storage.sql.conversion import converter
from runtime.storage.sql.prepared import PreparedStatement
from runtime.storage.sql.tables import TABLES

_keys, _people, _users = TABLES["ApiKey"], TABLES["OrganizationUser"], TABLES["User"]


@dataclass(frozen=True, slots=True)
class PresentedKey:
    """A key, and what has become of the person at whose word it was made.

    Attributes:
        person_role: what they are in the organization today; None when they, or their account at home, are
            gone or disabled, and for a key without such a person.
    """

    key: ApiKey
    person_role: str | None


_FINDING = PreparedStatement(
    select(*_keys.c, _people.c.role, _people.c.status, _users.c.status)
    .outerjoin_from(
        _keys,
        _people,
        and_(_people.c.organization_id == _keys.c.organization_id, _people.c.id == _keys.c.person_id),
    )
    # Where it is at home, the account is the user of that id.
    .outerjoin(_users, and_(_users.c.zone_id == _keys.c.person_zone_id, _users.c.id == _keys.c.person_id))
    .where(_keys.c.id == bindparam("key_id"))
)


async def find(conn: AsyncConnection, key_id: str) -> PresentedKey | None:
    """The key with that id, of whatever organization: it is the key that says which."""
    found = await _FINDING.rows(conn, {"key_id": key_id})
    if not found:
        return None
    (row,) = found
    *columns, role, status, account_status = row
    is_active = (status, account_status) == (OrganizationStatus.ACTIVE, UserStatus.ACTIVE)
    return PresentedKey(_read(columns), role if is_active else None)


async def made_by(conn: AsyncConnection, organization_id: str, makers: Collection[str]) -> list[ApiKey]:
    """The keys of an organization that any of these made, oldest first."""
    return await _some(conn, organization_id, _keys.c.created_by.in_(makers))


async def of_person(conn: AsyncConnection, organization_id: str, person_id: str) -> list[ApiKey]:
    """The keys of an organization that were made at a person's word, oldest first."""
    return await _some(conn, organization_id, _keys.c.person_id == person_id)


async def expired(conn: AsyncConnection, organization_id: str, by: datetime, *, limit: int) -> list[ApiKey]:
    """Keys of an organization whose time was over by then, oldest first."""
    return await _some(conn, organization_id, _keys.c.expires_at <= by, limit=limit)


async def organizations_with_expired(conn: AsyncConnection, by: datetime, *, limit: int) -> list[str]:
    """Ids of organizations with keys whose time was over by then."""
    found = select(_keys.c.organization_id).distinct().where(_keys.c.expires_at <= by).limit(limit)
    return [row[0] for row in await conn.execute(found)]


async def count(conn: AsyncConnection, organization_id: str) -> int:
    """How many keys an organization has, expired ones included."""
    query = select(func.count()).select_from(_keys).where(_keys.c.organization_id == organization_id)
    return int((await conn.execute(query)).scalar_one())


async def record_use(conn: AsyncConnection, key_id: str, *, now: datetime, every: timedelta) -> None:
    """Note that the key is in use, unless that was noted within *every*."""
    await conn.execute(
        update(_keys)
        .where(_keys.c.id == key_id, or_(_keys.c.last_used_at.is_(None), _keys.c.last_used_at <= now - every))
        .values(last_used_at=now)
    )


async def _some(
    conn: AsyncConnection, organization_id: str, where: ColumnElement[bool], limit: int | None = None
) -> list[ApiKey]:
    query = select(_keys).where(_keys.c.organization_id == organization_id, where)
    query = query.order_by(_keys.c.created_at, _keys.c.id).limit(limit)
    return [_read(row) for row in await conn.execute(query)]


def _read(row: Sequence[Any]) -> ApiKey:
    return converter(API_KEY).entity(row)
