"""The users of organizations: found by account in every organization, administrators counted in one."""

from collections.abc import Collection

from sqlalchemy import ColumnElement, and_, exists, func, not_, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds.organization import OrganizationUser
from runtime.domain.kinds.policy import ActorUser
from runtime.domain.kinds.values import OrganizationRole, OrganizationStatus, OwnerType, UserStatus, ZoneRole
from runtime.storage.sql.batches import among
from runtime.storage.sql.tables import METADATA, TABLES

_people = TABLES["OrganizationUser"]
_users = TABLES["User"]
_assignments = TABLES["RoleAssignment"]
_members = METADATA.tables["group_members"]
_organizations = TABLES["Organization"]


async def of_account(
    conn: AsyncConnection, organization_id: str, *, issuer: str, subject: str
) -> OrganizationUser | None:
    """The organization's user who presents tokens of that issuer about that subject."""
    return await _one(
        conn, organization_id, _people.c.account_issuer == issuer, _people.c.account_subject == subject
    )


async def of_zone_user(
    conn: AsyncConnection, organization_id: str, zone_user_id: str
) -> OrganizationUser | None:
    """The organization's user whom that user of the organization's home zone stands for."""
    return await _one(conn, organization_id, _people.c.zone_user_id == zone_user_id)


async def _one(
    conn: AsyncConnection, organization_id: str, *where: ColumnElement[bool]
) -> OrganizationUser | None:
    query = select(_people).where(_people.c.organization_id == organization_id, *where)
    row = (await conn.execute(query)).mappings().one_or_none()
    return None if row is None else OrganizationUser.model_validate(dict(row))


async def actors(conn: AsyncConnection, organization_id: str, ids: Collection[str]) -> dict[str, ActorUser]:
    """Those of these ids that are users of the organization, each as the user of its home zone."""
    found = await conn.execute(
        select(_people.c.id, _people.c.zone_user_id, _people.c.email, _organizations.c.zone_id)
        .join(_organizations, _organizations.c.id == _people.c.organization_id)
        .where(_people.c.organization_id == organization_id, _people.c.id.in_(ids))
    )
    return {row.id: ActorUser(id=row.zone_user_id, email=row.email, zone_id=row.zone_id) for row in found}


def belongs_to(*, home_id: str, source: str | None, **account: str) -> ColumnElement[bool]:
    """The condition that an organization is one for which an account acts, not disabled there.

    Args:
        home_id: of the organization that the account belongs to.
        source: only others that know the account by that issuer's sign-ins; None for all.
    """
    mine = select(_people.c.organization_id).where(*_is(**account))
    if source is not None:
        mine = mine.where(or_(_people.c.organization_id == home_id, _people.c.source == source))
    return _organizations.c.id.in_(mine)


def _is(*, account_id: str, issuer: str, subject: str) -> tuple[ColumnElement[bool], ...]:
    """The conditions that somebody is that account and is not disabled.

    Issuer and subject are what there is an index for; the id tells an account from a later one of that name.
    """
    return (
        _people.c.account_issuer == issuer,
        _people.c.account_subject == subject,
        _people.c.id == account_id,
        _people.c.status == OrganizationStatus.ACTIVE,
    )


async def zone_roles(conn: AsyncConnection, zone_user_id: str, *, zone_id: str) -> dict[str, tuple[str, ...]]:
    """Zone id -> the platform's roles that a user of an organization's home zone has there.

    They are assignments with that zone as their scope, to the user or to a group of theirs.

    Args:
        zone_id: the organization's home zone.
    """
    groups = select(_members.c.group_id).where(
        _members.c.zone_id == zone_id, _members.c.user_id == zone_user_id
    )
    direct = and_(_assignments.c.principal_type == "user", _assignments.c.principal_id == zone_user_id)
    inherited = and_(_assignments.c.principal_type == "group", _assignments.c.principal_id.in_(groups))
    found = await conn.execute(
        select(_assignments.c.scope_id, _assignments.c.role_identifier)
        .where(
            _assignments.c.zone_id == zone_id,
            _assignments.c.role_owner_type == OwnerType.PLATFORM,
            _assignments.c.scope_type == "zone",
            or_(direct, inherited),
        )
        .distinct()
        .order_by(_assignments.c.role_identifier)
    )
    roles: dict[str, tuple[str, ...]] = {}
    for scope_id, role in found:
        roles[scope_id] = (*roles.get(scope_id, ()), role)
    return roles


def is_membership(organization_id: str, home_zone_id: str, zone_ids: Collection[str]) -> ColumnElement[bool]:
    """The condition that a role assignment makes somebody a member of one of these zones, once in each.

    Who has both zone roles there is a member by the one that allows more.
    """
    better = _assignments.alias()
    both = exists().where(
        better.c.zone_id == home_zone_id,
        better.c.principal_type == "user",
        better.c.principal_id == _assignments.c.principal_id,
        better.c.role_owner_type == OwnerType.PLATFORM,
        better.c.scope_id == _assignments.c.scope_id,
        better.c.role_identifier == ZoneRole.MANAGER,
    )
    return and_(
        _assignments.c.principal_type == "user",
        _assignments.c.role_owner_type == OwnerType.PLATFORM,
        _assignments.c.scope_type == "zone",
        among(_assignments.c.scope_id, zone_ids),
        or_(_assignments.c.role_identifier == ZoneRole.MANAGER, not_(both)),
        _assignments.c.principal_id.in_(
            select(_people.c.zone_user_id).where(_people.c.organization_id == organization_id)
        ),
    )


async def by_zone_user(
    conn: AsyncConnection, organization_id: str, zone_user_ids: Collection[str]
) -> dict[str, str]:
    """User of the organization's home zone -> organization user, both by id."""
    found = await conn.execute(
        select(_people.c.zone_user_id, _people.c.id).where(
            _people.c.organization_id == organization_id, _people.c.zone_user_id.in_(zone_user_ids)
        )
    )
    return {row.zone_user_id: row.id for row in found}


async def count_other_admins(conn: AsyncConnection, organization_id: str, user_id: str) -> int:
    """How many administrators besides that organization user are active, as users of the zone too."""
    found = await conn.scalar(
        select(func.count())
        .select_from(_people.join(_users, _users.c.id == _people.c.zone_user_id))
        .where(
            _users.c.status == UserStatus.ACTIVE,
            _people.c.organization_id == organization_id,
            _people.c.id != user_id,
            _people.c.role == OrganizationRole.ADMIN,
            _people.c.status == OrganizationStatus.ACTIVE,
        )
    )
    return int(found or 0)


async def change_email(conn: AsyncConnection, organization_id: str, zone_user_id: str, email: str) -> None:
    """Take over the address that the user of the organization's home zone has now."""
    await conn.execute(
        update(_people)
        .where(_people.c.organization_id == organization_id, _people.c.zone_user_id == zone_user_id)
        .values(email=email)
    )


async def acts_elsewhere(
    conn: AsyncConnection, organization_id: str, *, issuer: str, subject: str, agreed: str | None
) -> bool:
    """Tell whether an account acts for another organization than that one.

    Args:
        agreed: those do not count that know the account by that issuer's sign-ins; None where all do.
    """
    elsewhere = [
        _people.c.account_issuer == issuer,
        _people.c.account_subject == subject,
        _people.c.organization_id != organization_id,
    ]
    if agreed is not None:
        elsewhere.append(_people.c.source != agreed)
    found = await conn.execute(select(_people.c.id).where(*elsewhere).limit(1))
    return found.first() is not None


async def change_source(conn: AsyncConnection, organization_id: str, zone_user_id: str, source: str) -> None:
    """Note which provider signs in whoever that user of the organization's home zone stands for."""
    await conn.execute(
        update(_people)
        .where(_people.c.organization_id == organization_id, _people.c.zone_user_id == zone_user_id)
        .values(source=source)
    )
