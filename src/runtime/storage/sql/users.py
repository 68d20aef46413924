"""Users for sign-in: found by provider and subject, or by address and password; created and changed."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.identifiers import new_id
from runtime.domain.kinds import USER
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import PrincipalType, UserStatus
from runtime.storage.sql import accountability, entities
from runtime.storage.sql.tables import METADATA, TABLES

_users = TABLES["User"]
_providers = TABLES["Provider"]
_credentials = METADATA.tables["user_credentials"]
_invitees = METADATA.tables["group_invitees"]
_members = METADATA.tables["group_members"]
_assignments = TABLES["RoleAssignment"]
_internals = METADATA.tables["zone_internals"]
_MOST_NAMED = 10  # of those with one address, to choose from


@dataclass(frozen=True, slots=True)
class PasswordUser:
    """A user with the hash of the password that signs them in."""

    user: User
    password_hash: str


@dataclass(frozen=True, slots=True)
class ListedUser:
    """A user as a list of many shows them.

    Attributes:
        signs_in_with: `password` and `provider`; neither for somebody who has not signed in yet.
    """

    id: str
    email: str
    identifier: str
    status: str
    authenticated_at: datetime | None
    signs_in_with: tuple[str, ...]


async def get(conn: AsyncConnection, user_id: str, *, zone_id: str) -> User:
    """The user with that id in that zone. Raises NotFound."""
    return await entities.get(conn, USER, user_id, within={"zone_id": zone_id})


async def find_by_subject(conn: AsyncConnection, *, zone_id: str, issuer: str, subject: str) -> User | None:
    """The user whom that issuer knows under that subject."""
    user_id = await conn.scalar(
        select(_credentials.c.user_id).where(
            _credentials.c.zone_id == zone_id,
            _credentials.c.type == "federation",
            _credentials.c.issuer == issuer,
            _credentials.c.subject == subject,
        )
    )
    return None if user_id is None else await get(conn, user_id, zone_id=zone_id)


async def find_by_password(conn: AsyncConnection, *, zone_id: str, email: str) -> PasswordUser | None:
    """The user with that address who signs in with a password; upper and lower case make no difference."""
    found = await conn.execute(
        select(_users.c.id, _credentials.c.password_hash)
        .join(_credentials, _credentials.c.user_id == _users.c.id)
        .where(
            _users.c.zone_id == zone_id,
            _credentials.c.zone_id == zone_id,
            _credentials.c.type == "password",
            func.lower(_users.c.email) == email.lower(),
        )
        .order_by(_users.c.created_at, _users.c.id)
        .limit(1)
    )
    row = found.one_or_none()
    if row is None or row.password_hash is None:
        return None
    return PasswordUser(await get(conn, row.id, zone_id=zone_id), row.password_hash)


async def with_password(conn: AsyncConnection, user_id: str, *, zone_id: str) -> PasswordUser | None:
    """The user of that id, if a password signs them in."""
    hashed = await conn.scalar(
        select(_credentials.c.password_hash).where(
            _credentials.c.zone_id == zone_id,
            _credentials.c.user_id == user_id,
            _credentials.c.type == "password",
        )
    )
    return None if hashed is None else PasswordUser(await get(conn, user_id, zone_id=zone_id), hashed)


async def has_password(conn: AsyncConnection, found: PasswordUser) -> bool:
    """Tell whether the user's password is still the one that was looked up."""
    current = await with_password(conn, found.user.id, zone_id=found.user.zone_id)
    return current is not None and current.password_hash == found.password_hash


async def named(conn: AsyncConnection, name: str, *, zone_id: str) -> list[User]:
    """The user with that id; else those with that identifier or, upper and lower case alike, address."""
    if (by_id := await _ids(conn, zone_id, _users.c.id == name)) == []:
        by_id = await _ids(
            conn, zone_id, or_(_users.c.identifier == name, func.lower(_users.c.email) == name.lower())
        )
    return [await get(conn, each, zone_id=zone_id) for each in by_id]


async def _ids(conn: AsyncConnection, zone_id: str, condition: ColumnElement[bool]) -> list[str]:
    found = select(_users.c.id).where(_users.c.zone_id == zone_id, condition).order_by(_users.c.id)
    return list(await conn.scalars(found.limit(_MOST_NAMED)))


async def listed(
    conn: AsyncConnection, *, zone_id: str, email: str | None, after: str, limit: int
) -> list[ListedUser]:
    """Users by id, those after that one; of an address only, if one is given."""
    wanted = select(_users).where(_users.c.zone_id == zone_id, _users.c.id > after)
    if email is not None:
        wanted = wanted.where(func.lower(_users.c.email) == email.lower())
    rows = (await conn.execute(wanted.order_by(_users.c.id).limit(limit))).all()
    known = await conn.execute(
        select(_credentials.c.user_id, _credentials.c.type)
        .where(_credentials.c.zone_id == zone_id, _credentials.c.user_id.in_([row.id for row in rows]))
        .distinct()
    )
    types: dict[str, set[str]] = {}
    for user_id, type_ in known:
        types.setdefault(user_id, set()).add("provider" if type_ == "federation" else type_)
    return [
        ListedUser(
            row.id,
            row.email,
            row.identifier,
            row.status,
            row.authenticated_at,
            tuple(sorted(types.get(row.id, ()))),
        )
        for row in rows
    ]


async def has_verified(conn: AsyncConnection, *, zone_id: str, address: str) -> bool:
    """Tell whether a user has that address, in lower case, and it is verified."""
    found = await conn.execute(
        select(_users.c.id)
        .where(
            _users.c.zone_id == zone_id,
            _users.c.email_verified.is_(True),
            func.lower(_users.c.email) == address,
        )
        .limit(1)
    )
    return found.first() is not None


async def local_with_verified(conn: AsyncConnection, *, zone_id: str, address: str) -> list[User]:
    """Users with that verified address, in lower case, whom no provider signs in and who stand for nobody."""
    federated = select(_credentials.c.user_id).where(
        _credentials.c.zone_id == zone_id, _credentials.c.type == "federation"
    )
    found = await conn.execute(
        select(_users.c.id).where(
            _users.c.zone_id == zone_id,
            _users.c.email_verified.is_(True),
            _users.c.issuer.is_(None),
            func.lower(_users.c.email) == address,
            _users.c.id.not_in(federated),
        )
    )
    return [await get(conn, row.id, zone_id=zone_id) for row in found.all()]


async def without_credential(conn: AsyncConnection, user_id: str, *, zone_id: str) -> User | None:
    """The user, if there is one and nothing signs them in yet."""
    credentials = select(_credentials.c.user_id).where(_credentials.c.zone_id == zone_id)
    found = await conn.scalar(
        select(_users.c.id).where(
            _users.c.zone_id == zone_id, _users.c.id == user_id, _users.c.id.not_in(credentials)
        )
    )
    return None if found is None else await get(conn, user_id, zone_id=zone_id)


async def add(conn: AsyncConnection, user: User) -> None:
    """Keep a new user. Raises Conflict when the identifier is, or was, somebody else's."""
    await entities.insert(conn, USER, user)


async def add_federation(
    conn: AsyncConnection, user: User, *, provider_id: str, issuer: str, subject: str, now: datetime
) -> None:
    """Let a user sign in at a provider."""
    await _add_credential(
        conn, user, "federation", now, provider_id=provider_id, issuer=issuer, subject=subject
    )


async def add_password(conn: AsyncConnection, user: User, *, password_hash: str, now: datetime) -> None:
    """Let a user sign in with a password."""
    await _add_credential(conn, user, "password", now, password_hash=password_hash)


async def replace_password(
    conn: AsyncConnection, found: PasswordUser, *, password_hash: str, now: datetime
) -> bool:
    """Keep another hash in place of the one that was looked up; False when it has been replaced since."""
    replaced = await conn.execute(
        update(_credentials)
        .where(
            _credentials.c.zone_id == found.user.zone_id,
            _credentials.c.user_id == found.user.id,
            _credentials.c.type == "password",
            _credentials.c.password_hash == found.password_hash,
        )
        .values(password_hash=password_hash, updated_at=now)
    )
    return bool(replaced.rowcount)


async def renew_provider(
    conn: AsyncConnection, user: User, *, provider_id: str, issuer: str, subject: str, now: datetime
) -> None:
    """Note which provider speaks for that issuer now: the one before may have been deleted and made anew."""
    await conn.execute(
        update(_credentials)
        .where(
            _credentials.c.zone_id == user.zone_id,
            _credentials.c.user_id == user.id,
            _credentials.c.issuer == issuer,
            _credentials.c.subject == subject,
        )
        .values(provider_id=provider_id, updated_at=now)
    )


async def hold_active(conn: AsyncConnection, user: User) -> bool:
    """Let nobody change a user before the transaction ends; False for one who is disabled, or gone."""
    found = await conn.execute(
        select(_users.c.id)
        .where(
            _users.c.zone_id == user.zone_id,
            _users.c.id == user.id,
            _users.c.status == UserStatus.ACTIVE.value,
        )
        .with_for_update(key_share=True)
    )
    return found.first() is not None


async def hold_provider(conn: AsyncConnection, provider: Provider) -> bool:
    """Let nobody change a provider before the transaction ends; False when it is not what it was.

    Whoever locks users or sessions too locks the provider first.
    """
    found = await conn.execute(
        select(_providers.c.id)
        .where(
            _providers.c.zone_id == provider.zone_id,
            _providers.c.id == provider.id,
            _providers.c.revision == provider.revision,
        )
        .with_for_update(read=True)
    )
    return found.first() is not None


async def change(conn: AsyncConnection, user: User, **values: Any) -> None:
    """Write some members of a user; how they are called, only `entities.replace` changes."""
    if "identifier" in values:
        raise ValueError("a name is taken by `entities.replace`")
    await conn.execute(
        update(_users).where(_users.c.id == user.id, _users.c.zone_id == user.zone_id).values(**values)
    )


async def bind_invitations(conn: AsyncConnection, user: User, *, now: datetime) -> int:
    """Turn what waits for the user's address into theirs: memberships, roles, accountability; how much.

    Only for a verified address: whoever can claim any address would otherwise join any group.
    """
    joined = await _join_groups(conn, user, now)
    return joined + await _take_roles(conn, user) + await accountability.bind_address(conn, user)


async def _join_groups(conn: AsyncConnection, user: User, now: datetime) -> int:
    pending = list(
        await conn.scalars(
            delete(_invitees)
            .where(_invitees.c.zone_id == user.zone_id, _invitees.c.email == user.email.lower())
            .returning(_invitees.c.group_id)
        )
    )
    standing = set(
        await conn.scalars(
            select(_members.c.group_id).where(
                _members.c.zone_id == user.zone_id, _members.c.user_id == user.id
            )
        )
    )
    if wanted := [group_id for group_id in pending if group_id not in standing]:
        await conn.execute(
            insert(_members),
            [
                {"zone_id": user.zone_id, "group_id": group_id, "user_id": user.id, "created_at": now}
                for group_id in wanted
            ],
        )
    return len(wanted)


async def _take_roles(conn: AsyncConnection, user: User) -> int:
    """What was given to the user's address is theirs."""
    taken = await conn.execute(
        update(_assignments)
        .where(
            _assignments.c.zone_id == user.zone_id,
            _assignments.c.principal_type == PrincipalType.USER.value,
            _assignments.c.principal_id == user.email.lower(),
        )
        .values(principal_id=user.id)
    )
    return int(taken.rowcount)


async def lock_zone(conn: AsyncConnection, zone_id: str) -> None:
    """Let no other registration of the zone pass until the transaction ends: addresses stay unique."""
    await conn.execute(select(_internals.c.zone_id).where(_internals.c.zone_id == zone_id).with_for_update())


async def _add_credential(
    conn: AsyncConnection, user: User, type_: str, now: datetime, **values: Any
) -> None:
    await conn.execute(
        insert(_credentials).values(
            id=new_id(),
            zone_id=user.zone_id,
            user_id=user.id,
            type=type_,
            created_at=now,
            updated_at=now,
            **values,
        )
    )
