"""Loads the root of a token exchange: session, user, memberships, consents and delegated grants."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import BindParameter, and_, bindparam, exists, literal, or_, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import USER
from runtime.domain.kinds.role import User
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.conversion import converter
from runtime.storage.sql.sessions import PREFIXED, SessionRecord, read_prefixed
from runtime.storage.sql.tables import METADATA, TABLES

_users = TABLES["User"]
_groups = TABLES["Group"]
_assignments = TABLES["RoleAssignment"]
_members = METADATA.tables["group_members"]
_sessions = METADATA.tables["sessions"]
_consents = METADATA.tables["consents"]
_bindings = METADATA.tables["policy_set_bindings"]
_delegated = METADATA.tables["delegated_grants"]
_withdrawn = METADATA.tables["withdrawn_in_sessions"]

# Statements of the hot path are made once: making one costs as much as running it.
_ZONE: BindParameter[str] = bindparam("zone")


@dataclass(frozen=True, slots=True)
class UserRecordsPresent:
    """What else there is to read about the user of a session.

    Attributes:
        own_policies: id of the policy set version that the user has made; None without one.
        has_withdrawn: the user has taken something back from what the session had led to.
    """

    has_memberships: bool
    has_delegated: bool
    own_policies: str | None = None
    has_withdrawn: bool = False


@dataclass(frozen=True, slots=True)
class Memberships:
    """Identifier, name and role identifiers of a user's groups; and the roles assigned directly."""

    groups: tuple[tuple[str, str, tuple[str, ...]], ...]
    roles: tuple[str, ...]
    group_ids: frozenset[str] = frozenset()


NO_MEMBERSHIPS = Memberships((), ())


@dataclass(frozen=True, slots=True)
class DelegatedGrantRecord:
    """What a user delegated for a resource, at one provider."""

    resource_id: str
    provider_id: str
    scopes: frozenset[str]
    status: str
    expires_at: datetime | None


_OWN_POLICIES = (
    _bindings.c.zone_id == _ZONE,
    _bindings.c.target_type == "user",
    _bindings.c.mode == "active",
)
_SESSION = (
    select(
        *PREFIXED,
        or_(
            exists().where(_members.c.zone_id == _ZONE, _members.c.user_id == _users.c.id),
            exists().where(_assignments.c.zone_id == _ZONE, _assignments.c.principal_id == _users.c.id),
        ).label("has_memberships"),
        exists()
        .where(_delegated.c.zone_id == _ZONE, _delegated.c.user_id == _users.c.id)
        .label("has_delegated"),
        select(_bindings.c.policy_set_version_id)
        .where(*_OWN_POLICIES, _bindings.c.target_id == _users.c.id)
        .scalar_subquery()
        .label("own_policies"),
        exists()
        .where(_withdrawn.c.zone_id == _ZONE, _withdrawn.c.session_id == _sessions.c.id)
        .label("has_withdrawn"),
        *_users.c,
    )
    .join(_users, and_(_users.c.id == _sessions.c.user_id, _users.c.zone_id == _sessions.c.zone_id))
    .where(_sessions.c.zone_id == _ZONE, _sessions.c.id == bindparam("session"))
)


async def session(
    conn: AsyncConnection, zone_id: str, session_id: str
) -> tuple[SessionRecord, User, UserRecordsPresent] | None:
    """A session of a user, whatever its status, that user, and what else there is to read."""
    found = await conn.execute(_SESSION, {"zone": zone_id, "session": session_id})
    row = found.mappings().one_or_none()
    if row is None:
        return None
    present = UserRecordsPresent(
        bool(row["has_memberships"]),
        bool(row["has_delegated"]),
        row["own_policies"],
        bool(row["has_withdrawn"]),
    )
    return read_prefixed(row), converter(USER).named(row), present


_ROOT_EPOCHS = union_all(
    select(literal("session").label("of"), _sessions.c.epoch).where(
        _sessions.c.zone_id == _ZONE, _sessions.c.id == bindparam("session")
    ),
    select(literal("user").label("of"), _users.c.epoch).where(
        _users.c.zone_id == _ZONE, _users.c.id == bindparam("user")
    ),
)


async def root_epochs(
    conn: AsyncConnection, zone_id: str, session_id: str, user_id: str
) -> tuple[int | None, int | None]:
    """The epochs of a session and of its user; None for one that is gone."""
    found = await conn.execute(_ROOT_EPOCHS, {"zone": zone_id, "session": session_id, "user": user_id})
    by_name = {row.of: row.epoch for row in found}
    return by_name.get("session"), by_name.get("user")


_OWN_POLICIES_OF = select(_bindings.c.policy_set_version_id).where(
    *_OWN_POLICIES, _bindings.c.target_id == bindparam("user")
)


async def own_policies(conn: AsyncConnection, zone_id: str, user_id: str) -> str | None:
    """The id of the policy set version that a user has made; None without one."""
    found: str | None = await conn.scalar(_OWN_POLICIES_OF, {"zone": zone_id, "user": user_id})
    return found


_HELD = (_assignments.c.zone_id == _ZONE, _assignments.c.scope_id.is_(None))
_MEMBERSHIPS = union_all(
    select(_groups.c.id, _groups.c.identifier, _groups.c.name, _assignments.c.role_identifier)
    .select_from(
        _members.join(
            _groups, and_(_groups.c.id == _members.c.group_id, _groups.c.zone_id == _members.c.zone_id)
        )
    )
    .outerjoin(
        _assignments,
        and_(_assignments.c.principal_type == "group", _assignments.c.principal_id == _groups.c.id, *_HELD),
    )
    .where(_members.c.zone_id == _ZONE, _members.c.user_id == bindparam("user")),
    select(literal(None), literal(None), literal(None), _assignments.c.role_identifier).where(
        _assignments.c.principal_type == "user", _assignments.c.principal_id == bindparam("user"), *_HELD
    ),
)


async def memberships(conn: AsyncConnection, zone_id: str, user_id: str) -> Memberships:
    """The groups and roles of a user, in one statement."""
    found = await conn.execute(_MEMBERSHIPS, {"zone": zone_id, "user": user_id})
    names: dict[str, str] = {}
    group_roles: dict[str, set[str]] = {}
    roles: set[str] = set()
    group_ids: set[str] = set()
    for group_id, identifier, name, role in found:
        if identifier is None:
            roles.add(role)
            continue
        group_ids.add(group_id)
        names[identifier] = name
        group_roles.setdefault(identifier, set()).update({role} if role else ())
    groups = tuple(
        (identifier, names[identifier], tuple(sorted(group_roles[identifier])))
        for identifier in sorted(names)
    )
    return Memberships(groups, tuple(sorted(roles)), frozenset(group_ids))


_DELEGATED = select(
    _delegated.c.resource_id,
    _delegated.c.provider_id,
    _delegated.c.scopes,
    _delegated.c.status,
    _delegated.c.expires_at,
).where(_delegated.c.zone_id == _ZONE, _delegated.c.user_id == bindparam("user"))


async def delegated(conn: AsyncConnection, zone_id: str, user_id: str) -> tuple[DelegatedGrantRecord, ...]:
    """Everything a user delegated, whether it still stands or not."""
    rows = await conn.execute(_DELEGATED, {"zone": zone_id, "user": user_id})
    return tuple(
        DelegatedGrantRecord(
            resource_id=row.resource_id,
            provider_id=row.provider_id,
            scopes=frozenset(row.scopes or ()),
            status=row.status,
            expires_at=row.expires_at,
        )
        for row in rows
    )


_CONSENTS = {
    name: select(_consents.c.scopes).where(
        _consents.c.zone_id == _ZONE,
        _consents.c.user_id == bindparam("user"),
        _consents.c[name] == bindparam("party"),
        _consents.c.resource_id == bindparam("resource"),
    )
    for name in ("application_id", "user_agent_id")
}


async def consent(
    conn: AsyncConnection, zone_id: str, user_id: str, client_ref: ClientRef, resource_id: str
) -> frozenset[str] | None:
    """The scopes a user allowed a client at a resource; None when nothing was allowed."""
    statement = _CONSENTS["application_id" if client_ref.application_id is not None else "user_agent_id"]
    scopes = await conn.scalar(
        statement, {"zone": zone_id, "user": user_id, "party": client_ref.id, "resource": resource_id}
    )
    return frozenset(scopes) if scopes is not None else None
