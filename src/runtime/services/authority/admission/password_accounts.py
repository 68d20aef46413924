"""Local accounts: sign-in with a password, registration, and registration with an invitation."""

from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import Conflict, SignInRefused
from runtime.domain.kinds.zone import Zone
from runtime.services.authority.admission.checks import (
    INVITATION_OVER,
    INVITATION_USED,
    add_user,
    hold_active,
    new_user,
    require_local,
    require_open_invitation,
    require_open_registration,
)
from runtime.services.authority.admission.requests import (
    AdmittedUser,
    FirstPassword,
    InvitedMember,
    InvitedRegistration,
    PasswordRegistration,
    PasswordSignIn,
    RegisteredBy,
)
from runtime.storage.sql import invitations
from runtime.storage.sql import users as storage
from runtime.storage.sql.users import PasswordUser


async def by_password(conn: AsyncConnection, zone: Zone, by: PasswordSignIn, now: datetime) -> AdmittedUser:
    """Raises SignInRefused, also where the password was replaced since it was compared."""
    require_local(zone)
    await hold_active(conn, by.user)
    if by.password_hash is not None:
        compared = PasswordUser(by.user, by.password_hash)
        if not await storage.has_password(conn, compared):
            raise SignInRefused("the password has just been changed; sign in with the new one")
    await storage.change(conn, by.user, authenticated_at=now)
    return AdmittedUser(by.user)


async def by_registration(
    conn: AsyncConnection, zone: Zone, by: PasswordRegistration, now: datetime
) -> AdmittedUser:
    if by.registrar is RegisteredBy.THEMSELVES:
        require_open_registration(zone)
    return await _create_with_password(conn, zone, by.email, by.password_hash, now, verified=by.verified)


async def by_invited_registration(
    conn: AsyncConnection, zone: Zone, by: InvitedRegistration, now: datetime
) -> AdmittedUser:
    require_local(zone)
    current = await invitations.lock(conn, by.invitation, now=now)
    if current is None or current.organization_id != zone.organization_id:
        raise SignInRefused(INVITATION_OVER)
    require_open_invitation(current, now, joins=False)
    return await _create_with_password(conn, zone, current.email, by.password_hash, now, verified=True)


async def _create_with_password(
    conn: AsyncConnection, zone: Zone, email: str, password_hash: str, now: datetime, *, verified: bool
) -> AdmittedUser:
    """Somebody new. Raises Conflict for an address that has a user with a password."""
    await storage.lock_zone(conn, zone.id)
    if await storage.find_by_password(conn, zone_id=zone.id, email=email) is not None:
        raise Conflict(f"a user with the e-mail address `{email}` exists already")
    user = new_user(zone, email, now, verified=verified)
    await add_user(conn, user, now)
    await storage.add_password(conn, user, password_hash=password_hash, now=now)
    return AdmittedUser(user)


async def by_invited_member(
    conn: AsyncConnection, zone: Zone, by: InvitedMember, now: datetime
) -> AdmittedUser:
    await storage.lock_zone(conn, zone.id)
    if await storage.has_verified(conn, zone_id=zone.id, address=by.email.lower()):
        raise Conflict(
            "an account with this e-mail address exists already: sign in, then accept the invitation"
        )
    user = new_user(zone, by.email, now, verified=True, id=by.user_id)
    await add_user(conn, user, now)
    return AdmittedUser(user)


async def by_first_password(
    conn: AsyncConnection, zone: Zone, by: FirstPassword, now: datetime
) -> AdmittedUser:
    require_local(zone)
    require_open_invitation(by.invitation, now, joins=True)
    user = await storage.without_credential(conn, by.user_id, zone_id=zone.id)
    if user is None:
        raise SignInRefused(INVITATION_USED)
    await hold_active(conn, user)
    await storage.add_password(conn, user, password_hash=by.password_hash, now=now)
    return AdmittedUser(user)
