"""Organization users: people who act for the organization.

Each has a user in the organization's home zone, which holds their groups and zone roles. The account is that
user, or one of another organization's home zone: then the user only stands for it, and never signs in.
"""

from collections.abc import Mapping
from typing import Any, cast

from runtime.domain.errors import Conflict
from runtime.domain.kinds import ORGANIZATION_USER, USER, Entity, Kind, Verb
from runtime.domain.kinds.organization import OrganizationUser
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import OrganizationRole, OrganizationStatus, UserStatus
from runtime.domain.kinds.zone import Zone
from runtime.services.authority import admission
from runtime.services.authority.admission import JoiningAccount, ManagementToken
from runtime.services.management import entities
from runtime.services.management.access.caller import HomeAccount
from runtime.services.management.entities import Parents
from runtime.services.management.people import users
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import entities as storage
from runtime.storage.sql import organization_users as people
from runtime.storage.sql import zone_data


async def home_zone(unit: UnitOfWork) -> Zone:
    """The zone in which the organization's users sign in."""
    organization = await entities.organization_of(unit, unit.organization_id)
    return await entities.zone_of(unit, cast(str, organization.zone_id))


def account_of(zone: Zone, user: User) -> HomeAccount:
    """The account of a user of an organization's home zone."""
    return HomeAccount(user.id, str(zone.protocols.oauth2.issuer), user.identifier)


async def joining_account(unit: UnitOfWork, token: ManagementToken, home: Zone, user: User) -> JoiningAccount:
    """An account of another organization, with how its home zone signs people in as of now."""
    provider_id = home.user_identity_provider_id
    provider = await zone_data.provider(unit.conn, home.id, provider_id) if provider_id else None
    return JoiningAccount(token, home, user, provider)


async def add_home_user(unit: UnitOfWork, user: User, role: OrganizationRole) -> OrganizationUser:
    """Make a user of the home zone a user of the organization. Raises Conflict when they are one.

    The unit is the organization's; whether its caller may do this has been decided.
    """
    zone = await home_zone(unit)
    account = account_of(zone, user)
    return await _add(unit, user, account, role, source=user.issuer or account.issuer)


async def add_external_account(
    unit: UnitOfWork, role: OrganizationRole, joining: JoiningAccount
) -> OrganizationUser:
    """Make the account of another organization a user of this one.

    Raises: Conflict when it does; SignInRefused for a sign-in that counts only at home.
    """
    zone, account = await home_zone(unit), account_of(joining.home, joining.user)
    await unit.next_revision()
    await _require_new(unit, account)
    admitted = await admission.admit(unit.conn, zone, joining, now=unit.now)
    stand_in = await entities.record_created(unit, USER, admitted.user)
    return await _add(unit, stand_in, account, role, source=joining.token.known_by)


async def _add(
    unit: UnitOfWork, user: User, account: HomeAccount, role: OrganizationRole, *, source: str
) -> OrganizationUser:
    revision = await unit.next_revision()
    await _require_new(unit, account)
    made = OrganizationUser(
        id=account.id,
        organization_id=unit.organization_id,
        created_at=unit.now,
        updated_at=unit.now,
        revision=revision,
        email=user.email,
        role=role,
        source=source,
        status=OrganizationStatus.ACTIVE,
        zone_user_id=user.id,
        account_issuer=account.issuer,
        account_subject=account.subject,
    )
    return await entities.add(unit, ORGANIZATION_USER, made)


async def _require_new(unit: UnitOfWork, account: HomeAccount) -> None:
    """Raise Conflict for an account that acts for the organization already."""
    found = await people.of_account(
        unit.conn, unit.organization_id, issuer=account.issuer, subject=account.subject
    )
    if found is not None:
        raise Conflict(f"OrganizationUser `{found.id}` acts for this organization already")


async def update(
    unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, patch: Mapping[str, Any]
) -> Entity:
    """Change a role or a status. A disabled user's sessions end, and none can begin.

    Raises: Conflict, when nobody would be left to administrate the organization.
    """
    scope, before = await _for_change(unit, parents, entity_id, Verb.UPDATE)
    after = await entities.patched(unit, ORGANIZATION_USER, scope, before, patch)
    if not _administrates(after):
        await _require_another_admin(unit, before)
    if after.status is not before.status:
        await _set_status(unit, before, UserStatus(after.status.value))
    return await entities.change(unit, ORGANIZATION_USER, scope, before, after)


async def delete(unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str) -> None:
    """Delete an organization user with their user in the home zone, its roles and its sessions.

    Raises: Conflict, when nobody would be left to administrate the organization.
    """
    scope, before = await _for_change(unit, parents, entity_id, Verb.DELETE)
    await _require_another_admin(unit, before)
    await entities.remove(unit, ORGANIZATION_USER, scope, before)
    if (user := await _zone_user(unit, before)) is not None:
        await users.remove(unit, user)


async def _for_change(
    unit: UnitOfWork, parents: Parents, entity_id: str, verb: Verb
) -> tuple[dict[str, str], OrganizationUser]:
    """The scope and the organization user as they stand while nobody else of the organization writes."""
    scope, _ = await entities.for_change(unit, ORGANIZATION_USER, parents, entity_id, verb)
    await unit.next_revision()
    found = await storage.get(unit.conn, ORGANIZATION_USER, entity_id, within=scope)
    return scope, found


def _administrates(user: OrganizationUser) -> bool:
    return user.role is OrganizationRole.ADMIN and user.status is OrganizationStatus.ACTIVE


async def _require_another_admin(unit: UnitOfWork, user: OrganizationUser) -> None:
    if _administrates(user) and not await people.count_other_admins(unit.conn, unit.organization_id, user.id):
        raise Conflict(f"OrganizationUser `{user.id}` is the last active `org_admin`: make another one first")


async def _set_status(unit: UnitOfWork, person: OrganizationUser, status: UserStatus) -> None:
    user = await _zone_user(unit, person)
    if user is not None and user.status is not status:
        await users.store(unit, user, user.model_copy(update={"status": status}))


async def _zone_user(unit: UnitOfWork, person: OrganizationUser) -> User | None:
    zone = await home_zone(unit)
    found = await storage.many(unit.conn, USER, [person.zone_user_id], within={"zone_id": zone.id})
    return found[0] if found else None
