"""Users and groups for the management API: memberships, roles, credentials, counts.

Everything about the users or groups of one page is asked in one query each.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, func, insert, or_, select, update
from sqlalchemy.engine import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import Kind
from runtime.domain.kinds.role import (
    FederationCredential,
    UserCredential,
    UserGroup,
    UserPasswordCredential,
    UserRoleAssignment,
)
from runtime.storage.sql import insert_batches, revocations
from runtime.storage.sql.batches import among, batches
from runtime.storage.sql.filters import Contains, condition
from runtime.storage.sql.revocations import Revocation
from runtime.storage.sql.tables import METADATA, TABLES

_members = METADATA.tables["group_members"]
_invitees = METADATA.tables["group_invitees"]
_credentials = METADATA.tables["user_credentials"]
_sessions = METADATA.tables["sessions"]
_grants = METADATA.tables["delegated_grants"]
_families = METADATA.tables["refresh_families"]
_providers = TABLES["Provider"]
_users = TABLES["User"]
_groups = TABLES["Group"]
_assignments = TABLES["RoleAssignment"]


@dataclass(frozen=True, slots=True)
class EffectiveRole:
    """A role assignment with the user it is told to: their own, or that of a group they are in."""

    user_id: str
    told: UserRoleAssignment


def any_text(kind: Kind, members: Sequence[str], texts: Sequence[str]) -> ColumnElement[bool]:
    """The condition that one of the members contains one of the texts."""
    return or_(*(condition(kind, Contains(tuple(members), (text,))) for text in texts))


# --- groups


def in_group(group_id: str, zone_id: str) -> ColumnElement[bool]:
    """The condition that a user is a member of a group."""
    return in_groups([group_id], zone_id)


def in_groups(group_ids: Collection[str], zone_id: str) -> ColumnElement[bool]:
    """The condition that a user is a member of one of these groups."""
    return _users.c.id.in_(
        select(_members.c.user_id).where(_members.c.zone_id == zone_id, _members.c.group_id.in_(group_ids))
    )


def holds_role(identifiers: Collection[str], zone_id: str) -> ColumnElement[bool]:
    """The condition that one of these roles is assigned to the user directly."""
    return _users.c.id.in_(
        select(_assignments.c.principal_id).where(
            _assignments.c.zone_id == zone_id,
            _assignments.c.principal_type == "user",
            _assignments.c.role_identifier.in_(identifiers),
        )
    )


async def joined_at(
    conn: AsyncConnection, group_id: str, user_ids: Collection[str], *, zone_id: str
) -> dict[str, datetime]:
    """User id -> since when, for those of these users who are members."""
    if not user_ids:
        return {}
    found = await conn.execute(
        select(_members.c.user_id, _members.c.created_at).where(
            _members.c.zone_id == zone_id,
            _members.c.group_id == group_id,
            _members.c.user_id.in_(user_ids),
        )
    )
    return {row.user_id: row.created_at for row in found}


async def join(
    conn: AsyncConnection, group_id: str, user_ids: Iterable[str], *, zone_id: str, now: datetime
) -> None:
    """Make these users members; none of them is one yet."""
    rows = [
        {"zone_id": zone_id, "group_id": group_id, "user_id": user_id, "created_at": now}
        for user_id in user_ids
    ]
    if rows and not insert_batches.enqueue(conn, _members, rows):
        await conn.execute(insert(_members), rows)


async def leave(conn: AsyncConnection, group_id: str, user_id: str, *, zone_id: str) -> bool:
    """End a membership; tell whether there was one."""
    gone = await conn.execute(
        delete(_members).where(
            _members.c.zone_id == zone_id, _members.c.group_id == group_id, _members.c.user_id == user_id
        )
    )
    return bool(gone.rowcount)


async def member_emails(conn: AsyncConnection, group_id: str, *, zone_id: str) -> dict[str, str]:
    """User id -> e-mail address of every member."""
    found = await conn.execute(
        select(_users.c.id, _users.c.email)
        .join(_members, and_(_members.c.zone_id == _users.c.zone_id, _members.c.user_id == _users.c.id))
        .where(_members.c.zone_id == zone_id, _members.c.group_id == group_id)
    )
    return {row.id: row.email for row in found}


async def invited(conn: AsyncConnection, group_id: str, *, zone_id: str) -> set[str]:
    """Addresses, in lower case, of people who will be members once they have signed in."""
    found = await conn.scalars(
        select(_invitees.c.email).where(_invitees.c.zone_id == zone_id, _invitees.c.group_id == group_id)
    )
    return set(found)


async def invite(
    conn: AsyncConnection, group_id: str, emails: Iterable[str], *, zone_id: str, now: datetime
) -> None:
    """Remember these addresses, in lower case, for the group; none of them is remembered yet."""
    rows = [{"zone_id": zone_id, "group_id": group_id, "email": email, "created_at": now} for email in emails]
    if rows and not insert_batches.enqueue(conn, _invitees, rows):
        await conn.execute(insert(_invitees), rows)


async def disinvite(conn: AsyncConnection, group_id: str, emails: Collection[str], *, zone_id: str) -> None:
    """Forget these addresses for the group."""
    if emails:
        await conn.execute(
            delete(_invitees).where(
                _invitees.c.zone_id == zone_id,
                _invitees.c.group_id == group_id,
                among(_invitees.c.email, emails),
            )
        )


async def users_by_email(
    conn: AsyncConnection, emails: Collection[str], *, zone_id: str
) -> list[tuple[str, str, bool]]:
    """(user id, address in lower case, whether it is verified) of everyone with one of these addresses."""
    lowered, ordered = func.lower(_users.c.email), sorted(emails)
    found: list[tuple[str, str, bool]] = []
    for batch in batches(ordered):
        query = select(_users.c.id, lowered, _users.c.email_verified).where(
            _users.c.zone_id == zone_id, lowered.in_(batch)
        )
        found += [(user_id, email, bool(verified)) for user_id, email, verified in await conn.execute(query)]
    return found


async def identifiers_by_email(
    conn: AsyncConnection, emails: Collection[str], *, zone_id: str
) -> dict[str, str]:
    """Address in lower case -> identifier of the one user who has it; those of several users are left out."""
    lowered, ordered = func.lower(_users.c.email), sorted(emails)
    found: dict[str, list[str]] = {}
    for batch in batches(ordered):
        query = select(lowered, _users.c.identifier).where(_users.c.zone_id == zone_id, lowered.in_(batch))
        for email, identifier in await conn.execute(query):
            found.setdefault(email, []).append(identifier)
    return {email: identifiers[0] for email, identifiers in found.items() if len(identifiers) == 1}


async def count_members(conn: AsyncConnection, group_ids: Collection[str], *, zone_id: str) -> dict[str, int]:
    """Group id -> number of members; groups without any are left out."""
    found = await conn.execute(
        select(_members.c.group_id, func.count())
        .where(_members.c.zone_id == zone_id, _members.c.group_id.in_(group_ids))
        .group_by(_members.c.group_id)
    )
    return {row[0]: row[1] for row in found}


async def group_roles(
    conn: AsyncConnection, group_ids: Collection[str], *, zone_id: str
) -> dict[str, list[str]]:
    """Group id -> identifiers of its roles, each once."""
    found = await conn.execute(
        select(_assignments.c.principal_id, _assignments.c.role_identifier)
        .where(
            _assignments.c.zone_id == zone_id,
            _assignments.c.principal_type == "group",
            _assignments.c.principal_id.in_(group_ids),
        )
        .distinct()
        .order_by(_assignments.c.role_identifier)
    )
    roles: dict[str, list[str]] = {}
    for group_id, identifier in found:
        roles.setdefault(group_id, []).append(identifier)
    return roles


async def role_holders(
    conn: AsyncConnection, role_ids: Collection[str], *, zone_id: str, limit: int
) -> set[str]:
    """Ids of the users, groups and applications that have one of these roles.

    Args:
        limit: so many are enough, of those that there are.
    """
    found: set[str] = set()
    for batch in batches(sorted(role_ids)):
        query = select(_assignments.c.principal_id).where(
            _assignments.c.zone_id == zone_id, _assignments.c.role_id.in_(batch)
        )
        found.update(await conn.scalars(query.distinct().limit(limit)))
        if len(found) >= limit:
            break
    return found


# --- users


async def groups_of(
    conn: AsyncConnection, user_ids: Collection[str], *, zone_id: str
) -> dict[str, list[UserGroup]]:
    """User id -> the groups they are in."""
    found = await conn.execute(
        select(_members.c.user_id, _groups.c.id, _groups.c.identifier, _groups.c.name, _groups.c.external)
        .join(_groups, and_(_groups.c.zone_id == _members.c.zone_id, _groups.c.id == _members.c.group_id))
        .where(_members.c.zone_id == zone_id, _members.c.user_id.in_(user_ids))
        .order_by(_groups.c.identifier)
    )
    groups: dict[str, list[UserGroup]] = {}
    for user_id, group_id, identifier, name, external in found:
        told = UserGroup(id=group_id, identifier=identifier, name=name, external=external)
        groups.setdefault(user_id, []).append(told)
    return groups


async def roles_of(
    conn: AsyncConnection, user_ids: Collection[str], *, zone_id: str, source: str
) -> list[EffectiveRole]:
    """The roles of these users.

    Args:
        source: `user` for those assigned directly, `group` for those their groups hand down, or `all`.
    """
    assigned: list[EffectiveRole] = []
    if source in ("user", "all"):
        direct = select(_assignments, _assignments.c.principal_id.label("of_user")).where(
            _assignments.c.zone_id == zone_id,
            _assignments.c.principal_type == "user",
            _assignments.c.principal_id.in_(user_ids),
        )
        assigned += [_assigned(row, "user") for row in (await conn.execute(direct)).mappings()]
    if source in ("group", "all"):
        inherited = (
            select(_assignments, _members.c.user_id.label("of_user"))
            .join(
                _members,
                and_(
                    _members.c.zone_id == _assignments.c.zone_id,
                    _members.c.group_id == _assignments.c.principal_id,
                ),
            )
            .where(
                _assignments.c.zone_id == zone_id,
                _assignments.c.principal_type == "group",
                _members.c.user_id.in_(user_ids),
            )
        )
        assigned += [_assigned(row, "group") for row in (await conn.execute(inherited)).mappings()]
    return assigned


def _assigned(row: Any, source: str) -> EffectiveRole:
    scope = {"id": row["scope_id"], "type": row["scope_type"]} if row["scope_id"] is not None else None
    return EffectiveRole(
        row["of_user"],
        UserRoleAssignment.model_validate(
            {
                "group_id": row["principal_id"] if source == "group" else None,
                "role_id": row["role_id"],
                "role_identifier": row["role_identifier"],
                "role_owner_type": row["role_owner_type"],
                "scope": scope,
                "source": source,
            }
        ),
    )


async def credentials_of(
    conn: AsyncConnection, user_ids: Collection[str], *, zone_id: str
) -> dict[str, list[UserCredential]]:
    """User id -> how they authenticate, without the password."""
    found = await conn.execute(
        select(
            _credentials.c.user_id,
            _credentials.c.type,
            _credentials.c.provider_id,
            _credentials.c.issuer,
            _credentials.c.subject,
            _credentials.c.created_at,
            _credentials.c.updated_at,
        )
        .where(_credentials.c.zone_id == zone_id, _credentials.c.user_id.in_(user_ids))
        .order_by(_credentials.c.created_at, _credentials.c.id)
    )
    credentials: dict[str, list[UserCredential]] = {}
    for row in found.mappings():
        credentials.setdefault(row["user_id"], []).append(_user_credential(row))
    return credentials


def _user_credential(row: RowMapping) -> UserCredential:
    of = FederationCredential if row["type"] == "federation" else UserPasswordCredential
    return of.model_validate({name: row[name] for name in of.model_fields if name in row})


async def count_grants(conn: AsyncConnection, user_ids: Collection[str], *, zone_id: str) -> dict[str, int]:
    """User id -> number of delegated grants."""
    return await _count(conn, _grants, user_ids, zone_id)


async def count_sessions(conn: AsyncConnection, user_ids: Collection[str], *, zone_id: str) -> dict[str, int]:
    """User id -> number of sessions."""
    return await _count(conn, _sessions, user_ids, zone_id)


async def _count(
    conn: AsyncConnection, table: Any, user_ids: Collection[str], zone_id: str
) -> dict[str, int]:
    found = await conn.execute(
        select(table.c.user_id, func.count())
        .where(table.c.zone_id == zone_id, table.c.user_id.in_(user_ids))
        .group_by(table.c.user_id)
    )
    return {row[0]: row[1] for row in found}


async def end_sessions(
    conn: AsyncConnection, user_id: str, *, zone_id: str, now: datetime, keep: str | None = None
) -> dict[str, int]:
    """End the sessions and refresh families of a user; session id -> its new epoch.

    The caller changes the user's epoch in the same transaction.

    Args:
        keep: a session that stays, with those below it.
    """
    # Whoever is redeeming a code of theirs has the user locked: what they make of it is seen afterwards.
    await conn.execute(
        select(_users.c.id)
        .where(_users.c.zone_id == zone_id, _users.c.id == user_id)
        .with_for_update(key_share=True)
    )
    below = _sessions.alias()
    kept = select(below.c.id).where(
        below.c.zone_id == zone_id, or_(below.c.id == (keep or ""), below.c.parent_id == (keep or ""))
    )
    ended = await conn.execute(
        update(_sessions)
        .where(
            _sessions.c.zone_id == zone_id,
            _sessions.c.user_id == user_id,
            _sessions.c.status == "active",
            _sessions.c.id.not_in(kept),
        )
        .values(status="revoked", epoch=_sessions.c.epoch + 1, updated_at=now, provider_id_token=None)
        .returning(_sessions.c.id, _sessions.c.epoch, _sessions.c.expires_at)
    )
    rows = ended.all()
    await revocations.add(conn, zone_id, [Revocation(now, row.expires_at, {"sid": row.id}) for row in rows])
    await conn.execute(
        update(_families)
        .where(
            _families.c.zone_id == zone_id,
            _families.c.user_id == user_id,
            _families.c.session_id.not_in(kept),
        )
        .values(status="revoked", successor_sealed=None)
    )
    return {row.id: int(row.epoch) for row in rows}


async def end_provider_sessions(
    conn: AsyncConnection, provider_id: str, *, zone_id: str, now: datetime
) -> dict[str, int]:
    """End the sessions that a provider's sign-ins began, with those below them; session id -> new epoch.

    The caller has changed or detached the provider in the same transaction: it begins no others meanwhile.
    """
    begun = select(_sessions.c.id).where(
        _sessions.c.zone_id == zone_id, _sessions.c.provider_id == provider_id
    )
    # Whoever is redeeming a code below one of them has it locked: what they make of it is seen afterwards.
    await conn.execute(begun.where(_sessions.c.status == "active").order_by(_sessions.c.id).with_for_update())
    rests_on_it = or_(_sessions.c.id.in_(begun), _sessions.c.parent_id.in_(begun))
    theirs = select(_sessions.c.id).where(_sessions.c.zone_id == zone_id, rests_on_it)
    await conn.execute(
        update(_families)
        .where(_families.c.zone_id == zone_id, _families.c.session_id.in_(theirs))
        .values(status="revoked", successor_sealed=None)
    )
    ended = await conn.execute(
        update(_sessions)
        .where(_sessions.c.zone_id == zone_id, _sessions.c.status == "active", rests_on_it)
        .values(status="revoked", epoch=_sessions.c.epoch + 1, updated_at=now, provider_id_token=None)
        .returning(_sessions.c.id, _sessions.c.epoch, _sessions.c.expires_at)
    )
    rows = ended.all()
    await revocations.add(conn, zone_id, [Revocation(now, row.expires_at, {"sid": row.id}) for row in rows])
    return {row.id: int(row.epoch) for row in rows}


async def touch_provider(conn: AsyncConnection, *, zone_id: str, provider_id: str, revision: int) -> None:
    """Let a provider be another than it was: whoever has looked at it and holds it afterwards is refused."""
    await conn.execute(
        update(_providers)
        .where(_providers.c.zone_id == zone_id, _providers.c.id == provider_id)
        .values(revision=revision)
    )


async def detach_provider(conn: AsyncConnection, *, zone_id: str, provider_id: str) -> None:
    """Let users keep no trace of a provider that goes. Nobody signs in through it from here on."""
    await conn.execute(
        select(_providers.c.id)
        .where(_providers.c.zone_id == zone_id, _providers.c.id == provider_id)
        .with_for_update()
    )
    await conn.execute(
        update(_users)
        .where(_users.c.zone_id == zone_id, _users.c.provider_id == provider_id)
        .values(provider_id=None)
    )


# --- role assignments


async def find_assignments(
    conn: AsyncConnection,
    *,
    zone_id: str,
    principal_type: str,
    principal_id: str,
    role_id: str,
    scope: tuple[str, str] | None,
) -> list[str]:
    """The ids of the assignments of that role, with exactly that scope (type, id) or without any.

    There are two where somebody was given a role besides the one that waited for their address.
    """
    scope_type, scope_id = scope or (None, None)
    found = await conn.scalars(
        select(_assignments.c.id).where(
            _assignments.c.zone_id == zone_id,
            _assignments.c.principal_type == principal_type,
            _assignments.c.principal_id == principal_id,
            _assignments.c.role_id == role_id,
            _assignments.c.scope_type.is_not_distinct_from(scope_type),
            _assignments.c.scope_id.is_not_distinct_from(scope_id),
        )
    )
    return list(found)
