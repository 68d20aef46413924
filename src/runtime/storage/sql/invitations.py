"""Invitations as those look for them who hold a token or an address."""

from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds.invitation import Invitation
from runtime.domain.kinds.values import InvitationStatus
from runtime.storage.sql.tables import TABLES

_invitations = TABLES["Invitation"]
_organizations = TABLES["Organization"]
_people = TABLES["OrganizationUser"]


async def by_token(conn: AsyncConnection, token_hash: bytes) -> tuple[Invitation, str] | None:
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
    return Invitation.model_validate(stored), name


async def held(conn: AsyncConnection, invitation: Invitation) -> Invitation | None:
    """The invitation as it stands, which nobody changes before the transaction ends; None when it is gone."""
    found = await conn.execute(
        select(_invitations)
        .where(
            _invitations.c.organization_id == invitation.organization_id, _invitations.c.id == invitation.id
        )
        .with_for_update()
    )
    row = found.mappings().one_or_none()
    return None if row is None else Invitation.model_validate(dict(row))


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
        .limit(1)
    )
    row = found.mappings().one_or_none()
    return None if row is None else Invitation.model_validate(dict(row))


async def is_user(conn: AsyncConnection, organization_id: str, address: str) -> bool:
    """Tell whether somebody with that address, in lower case, acts for the organization."""
    found = await conn.execute(
        select(_people.c.id)
        .where(_people.c.organization_id == organization_id, func.lower(_people.c.email) == address)
        .limit(1)
    )
    return found.first() is not None
