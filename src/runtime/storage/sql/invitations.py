"""Invitations: found by token or by address, with their current status."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import and_, delete, func, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds.invitation import Invitation
from runtime.domain.kinds.values import InvitationStatus, OrganizationRole, OrganizationStatus, UserStatus
from runtime.storage.sql.tables import TABLES

_invitations = TABLES["Invitation"]
_organizations = TABLES["Organization"]
_people = TABLES["OrganizationUser"]
_keys, _users = TABLES["ApiKey"], TABLES["User"]


async def forget_expired(conn: AsyncConnection, *, before: datetime, limit: int) -> int:
    """Forget invitations that expired before that instant, accepted or not; how many, *limit* at most."""
    key = (_invitations.c.organization_id, _invitations.c.id)
    old = select(*key).where(_invitations.c.expires_at < before).limit(limit)
    gone = await conn.execute(delete(_invitations).where(tuple_(*key).in_(old.subquery().select())))
    return gone.rowcount


async def by_token(
    conn: AsyncConnection, token_hash: bytes, *, now: datetime
) -> tuple[Invitation, str] | None:
    """The invitation with that token, of whatever organization, and the organization's name."""
    found = await conn.execute(
        select(_invitations, _organizations.c.name.label("organization_name"))
        .join(_organizations, _organizations.c.id == _invitations.c.organization_id)
        .where(_invitations.c.token_hash == token_hash)
    )
    row = found.mappings().one_or_none()
    if row is None:
        return None
    stored = dict(row)
    name = str(stored.pop("organization_name"))
    (invitation,) = await with_current_status(conn, [Invitation.model_validate(stored)], now=now)
    return invitation, name


async def lock(conn: AsyncConnection, invitation: Invitation, *, now: datetime) -> Invitation | None:
    """The invitation, locked until the transaction ends (`SELECT ... FOR UPDATE`); None when it is gone."""
    found = await conn.execute(
        select(_invitations)
        .where(
            _invitations.c.organization_id == invitation.organization_id, _invitations.c.id == invitation.id
        )
        .with_for_update()
    )
    row = found.mappings().one_or_none()
    if row is None:
        return None
    (current,) = await with_current_status(conn, [Invitation.model_validate(dict(row))], now=now)
    return current


async def pending(
    conn: AsyncConnection, organization_id: str, address: str, *, now: datetime
) -> Invitation | None:
    """The invitation of that address, in lower case, that can be accepted."""
    found = await conn.execute(
        select(_invitations)
        .where(
            _invitations.c.organization_id == organization_id,
            _invitations.c.address == address,
            _invitations.c.status == InvitationStatus.PENDING,
            _invitations.c.expires_at > now,
        )
        .order_by(_invitations.c.created_at)
    )
    stored = [Invitation.model_validate(dict(row)) for row in found.mappings()]
    standing = await with_current_status(conn, stored, now=now)
    return next((one for one in standing if one.status is InvitationStatus.PENDING), None)


async def with_current_status(
    conn: AsyncConnection, found: Sequence[Invitation], *, now: datetime
) -> list[Invitation]:
    """The same invitations, of one organization; revoked while whoever sent them could not send them now.

    Else somebody who is about to lose their role keeps it, by inviting themselves at another address.
    """
    inviters = {one.created_by for one in found if one.status is InvitationStatus.PENDING}
    if not inviters:
        return list(found)
    able = await _administrators(conn, found[0].organization_id, inviters, now)
    return [
        one
        if one.status is not InvitationStatus.PENDING or one.created_by in able
        else one.model_copy(update={"status": InvitationStatus.REVOKED})
        for one in found
    ]


async def _administrators(
    conn: AsyncConnection, organization_id: str, ids: set[str], now: datetime
) -> set[str]:
    """Those of these ids that are of active administrators, or of their API keys: nobody else invites."""
    active = and_(
        _people.c.role == OrganizationRole.ADMIN,
        _people.c.status == OrganizationStatus.ACTIVE,
        _users.c.status == UserStatus.ACTIVE,
    )
    people = (
        select(_people.c.id)
        .join(_users, _users.c.id == _people.c.zone_user_id)
        .where(_people.c.organization_id == organization_id, _people.c.id.in_(ids), active)
    )
    behind = and_(_people.c.organization_id == _keys.c.organization_id, _people.c.id == _keys.c.person_id)
    keys = (
        select(_keys.c.id)
        .outerjoin(_people, behind)
        .outerjoin(_users, _users.c.id == _people.c.zone_user_id)
        .where(_keys.c.organization_id == organization_id, _keys.c.id.in_(ids))
        .where(_keys.c.role == OrganizationRole.ADMIN, or_(_keys.c.person_id.is_(None), active))
        .where(or_(_keys.c.expires_at.is_(None), _keys.c.expires_at > now))
    )
    return set((await conn.execute(people.union(keys))).scalars())


async def is_user(conn: AsyncConnection, organization_id: str, address: str) -> bool:
    """Tell whether somebody with that address, in lower case, acts for the organization."""
    found = await conn.execute(
        select(_people.c.id)
        .where(_people.c.organization_id == organization_id, func.lower(_people.c.email) == address)
        .limit(1)
    )
    return found.first() is not None
