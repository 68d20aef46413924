"""An organization's users and invitations as one list, by one statement however many there are."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Subquery, and_, case, func, literal, or_, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import INVITATION, ORGANIZATION_USER
from runtime.domain.kinds.values import IdentityType, InvitationStatus
from runtime.storage.sql.directory import any_text
from runtime.storage.sql.paging import Position
from runtime.storage.sql.tables import TABLES

_people = TABLES["OrganizationUser"]
_invitations = TABLES["Invitation"]


@dataclass(frozen=True, slots=True)
class IdentityFilter:
    """Whose identities, and which of them.

    Attributes:
        issuer: what is told as the source of an invitation.
        now: decides which invitations have expired.
        emails: texts of which the address contains one, in any case; empty for all.
        role: None for all.
    """

    organization_id: str
    issuer: str
    now: datetime
    emails: Sequence[str] = ()
    role: str | None = None


async def page(
    conn: AsyncConnection,
    wanted: IdentityFilter,
    *,
    limit: int,
    after: Position | None,
    before: Position | None,
) -> tuple[list[dict[str, Any]], bool, bool]:
    """One page, the oldest first, with whether more follow and whether some precede.

    Args:
        after: the page starts behind this position.
        before: the page ends in front of this position; not together with `after`.
    """
    every = _all(wanted)
    key = every.c.created_at, every.c.id
    ordered = [each.desc() for each in key] if before else [each.asc() for each in key]
    query = select(every).order_by(*ordered).limit(limit + 1)
    if start := before or after:
        query = query.where(_beyond(every, start, backwards=before is not None))
    found = [dict(row) for row in (await conn.execute(query)).mappings()]
    more, found = len(found) > limit, found[:limit]
    behind = False
    if start:
        edge = Position(found[0]["created_at"], found[0]["id"]) if found else start
        other = select(every.c.id).where(_beyond(every, edge, backwards=before is None, inclusive=not found))
        behind = (await conn.execute(other.limit(1))).first() is not None
    if before:
        found.reverse()
        return found, behind, more
    return found, more, behind


async def count(conn: AsyncConnection, wanted: IdentityFilter) -> int:
    """How many there are in all."""
    return int(await conn.scalar(select(func.count()).select_from(_all(wanted))) or 0)


def _all(wanted: IdentityFilter) -> Subquery:
    has_expired = and_(
        _invitations.c.status == InvitationStatus.PENDING, _invitations.c.expires_at <= wanted.now
    )
    people = select(
        _people.c.created_at,
        _people.c.id,
        _people.c.email,
        _people.c.role,
        _people.c.source,
        _people.c.status,
        literal(IdentityType.USER.value).label("type"),
        _people.c.updated_at,
    ).where(_people.c.organization_id == wanted.organization_id)
    invited = select(
        _invitations.c.created_at,
        _invitations.c.id,
        _invitations.c.email,
        _invitations.c.role,
        literal(wanted.issuer).label("source"),
        case((has_expired, InvitationStatus.EXPIRED.value), else_=_invitations.c.status).label("status"),
        literal(IdentityType.INVITATION.value).label("type"),
        _invitations.c.updated_at,
    ).where(_invitations.c.organization_id == wanted.organization_id)
    if wanted.emails:
        people = people.where(any_text(ORGANIZATION_USER, ("email",), wanted.emails))
        invited = invited.where(any_text(INVITATION, ("email",), wanted.emails))
    if wanted.role is not None:
        people = people.where(_people.c.role == wanted.role)
        invited = invited.where(_invitations.c.role == wanted.role)
    return union_all(people, invited).subquery()


def _beyond(
    every: Subquery, place: Position, *, backwards: bool, inclusive: bool = False
) -> ColumnElement[bool]:
    """What stands behind a position, or in front of it; with the position itself when *inclusive*."""
    at, one = every.c.created_at, every.c.id
    if backwards:
        strict = or_(at < place.value, and_(at == place.value, one < place.id))
    else:
        strict = or_(at > place.value, and_(at == place.value, one > place.id))
    return or_(strict, and_(at == place.value, one == place.id)) if inclusive else strict
