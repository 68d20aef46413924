"""Users and members that an operator creates; there is no invitation to prove their address."""

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import NotFound
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import USER
from runtime.domain.kinds.organization import OrganizationUser
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import OrganizationRole
from runtime.services.authority import admission
from runtime.services.authority.admission import PasswordRegistration, RegisteredBy
from runtime.services.authority.credential_rules import checked_email, checked_password
from runtime.services.container import Services
from runtime.services.management import entities
from runtime.services.management.access.caller import SERVICE, Actor
from runtime.services.management.members import organization_users
from runtime.services.management.unit_of_work import UnitOfWork, unit_of_work
from runtime.services.zones import CachedZone
from runtime.storage.sql import directory, organizations
from runtime.storage.sql import users as user_storage


async def add(
    services: Services,
    organization: str,
    *,
    email: str,
    role: OrganizationRole,
    password: str | None,
    by: Actor = SERVICE,
) -> OrganizationUser:
    """Let somebody act for an organization, given by id or label.

    Args:
        password: of the new user of the organization's home zone; None for somebody who is one already.
    Raises: NotFound, also for nobody with that verified address; ValidationFailed for an address or password
        that will not do; Conflict when the address has a password there, or acts for the organization.
    """
    async with services.database.reading() as conn:
        found = await organizations.find(conn, organization)
    if found is None or found.zone_id is None:
        raise NotFound(f"there is no Organization `{organization}`")
    zone = await services.zones.get(found.zone_id)
    hashed = None
    if password is not None:
        email, chosen = checked_email(email), checked_password(password)
        hashed = await services.passwords.hash(chosen, tenant=zone.organization_id)
    async with unit_of_work(services, by.within(found.id), new_id()) as unit:
        await unit.next_revision()
        if hashed is None:
            user = await _known(unit.conn, zone.id, email)
        else:
            user = await _make(unit, zone, email, hashed)
        return await organization_users.add_home_user(unit, user, role)


async def add_user(
    services: Services, zone_id: str, *, email: str, password: str, by: Actor = SERVICE
) -> User:
    """Make a user of a zone who signs in with a password.

    Raises: ValidationFailed for an address or password that will not do; Conflict when the address has a
        user with a password; NotFound for an unknown zone.
    """
    address, chosen = checked_email(email), checked_password(password)
    zone = await services.zones.get(zone_id)
    hashed = await services.passwords.hash(chosen, tenant=zone.organization_id)
    async with unit_of_work(services, by.within(zone.organization_id), new_id()) as unit:
        unit.epochs.keeps_zones = True
        await unit.next_revision()
        return await _make(unit, zone, address, hashed)


async def _make(unit: UnitOfWork, zone: CachedZone, email: str, password_hash: str) -> User:
    by = PasswordRegistration(email, password_hash, RegisteredBy.OPERATOR, verified=True)
    admitted = await admission.admit(unit.conn, zone.entity, by, now=unit.now)
    return await entities.record_created(unit, USER, admitted.user)


async def _known(conn: AsyncConnection, zone_id: str, email: str) -> User:
    known = await directory.users_by_email(conn, [email.strip().lower()], zone_id=zone_id)
    verified = [user_id for user_id, _, is_verified in known if is_verified]
    if not verified:
        raise NotFound(
            f"the organization's home zone has no user with the verified address `{email}`: "
            "have the user sign in there first, or add the user with a password"
        )
    return await user_storage.get(conn, verified[0], zone_id=zone_id)
