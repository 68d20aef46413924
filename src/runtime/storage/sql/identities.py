"""An organization's users and invitations as one list, in one statement."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Subquery, and_, case, func, literal, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import INVITATION, ORGANIZATION_USER
from runtime.domain.kinds.values import IdentityType, InvitationStatus
from runtime.storage.sql.directory import any_text
from runtime.storage.sql.paging import KeyColumn, Keyset, Page, Position, fetch, values_of
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
) -> Page[dict[str, Any]]:
    """One page, the oldest first.

    Args:
        after: the page starts behind this position.
        before: the page ends in front of this position; not together with `after`.
    """
    every = _all(wanted)
    return await fetch(
        conn,
        select(every),
        Keyset((KeyColumn(every.c.created_at), KeyColumn(every.c.id))),
        lambda row: dict(row._mapping),
        limit=limit,
        after=values_of(after),
        before=values_of(before),
    )


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
