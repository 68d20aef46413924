"""Names that are never reused: the `sub` of a zone's principals, the issuers, the labels of organizations.

`insert` and `retake` stand in the generic writes of `entities`: nothing is made or renamed around them, and
the primary keys of their tables decide between two who take a name at once.
"""

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from sqlalchemy import Insert, and_, bindparam, func, or_, select, update
from sqlalchemy import insert as insert_into
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain import names as rules
from runtime.domain.errors import Conflict, NameRetired, Problem, ValidationFailed
from runtime.domain.kinds import APPLICATION, ORGANIZATION, USER, ZONE, Kind
from runtime.domain.kinds.base import article
from runtime.domain.kinds.marks import Mark
from runtime.storage.sql import insert_batches
from runtime.storage.sql.name_tables import assigned_names, subjects
from runtime.storage.sql.tables import TABLES

Row = Mapping[str, Any]  # column -> value, as an entity is written

_INSERT: dict[str, Any] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}


def are_given(kind: Kind) -> bool:
    """Tell whether entities of that kind have names that are given once."""
    return _subject_member(kind) is not None or kind in (ZONE, ORGANIZATION)


async def insert(conn: AsyncConnection, kind: Kind, row: Row) -> None:
    """Write the row of a new entity, with the names in it; on PostgreSQL a principal takes one round trip.

    Raises: Conflict when a name is, or ever was, somebody else's; ValidationFailed for one that is kept back;
        what the database refuses besides.
    """
    member = _subject_member(kind)
    if member is None:
        await _assign(conn, kind, row)
        await conn.execute(insert_into(TABLES[kind.name]), row)
        return
    taken = _taken(kind, member, row)
    if insert_batches.enqueue(
        conn, subjects, [taken]
    ):  # a name that comes back is refused there, and then given
        insert_batches.enqueue(conn, TABLES[kind.name], [row])
        await _refuse_address(conn, kind, member, row)
        return
    if conn.dialect.name == "postgresql":
        written = await conn.execute(_inserted(kind), {**taken, **{f"row_{name}": row[name] for name in row}})
    else:
        written = await conn.execute(_subject_taken(conn.dialect.name), taken)
        if written.rowcount:
            await conn.execute(insert_into(TABLES[kind.name]), row)
    if written.rowcount == 0:
        raise await _refusal(conn, member, row[member], taken)
    await _refuse_address(conn, kind, member, row)


async def retake(conn: AsyncConnection, kind: Kind, row: Row) -> None:
    """Give an entity that is about to be written again the names in its row. Its former name stays its own.

    What has no name of its own, from before names were kept here, is written as it is called.

    Raises: as `insert`.
    """
    if (member := _subject_member(kind)) is None:
        if are_given(kind):
            await _assign(conn, kind, row)
        return
    of_it = (subjects.c.zone_id == row["zone_id"], subjects.c.holder_id == row["id"])
    keys = (rules.key_of(row[member]), rules.key_as_written(row[member]))
    held = select(subjects.c.key).where(*of_it, subjects.c.key.in_(keys), subjects.c.is_held.is_(True))
    if (await conn.execute(held)).first() is not None:
        return
    table = TABLES[kind.name]
    before = await conn.scalar(
        select(table.c[member]).where(table.c.zone_id == row["zone_id"], table.c.id == row["id"])
    )
    if before in (None, row[member]):
        return
    taken = _taken(kind, member, row)
    if (await conn.execute(_subject_taken(conn.dialect.name), taken)).rowcount == 0:
        raise await _refusal(conn, member, row[member], taken)
    await _refuse_address(conn, kind, member, row)
    await conn.execute(update(subjects).where(*of_it, subjects.c.key != keys[0]).values(is_held=False))


async def step_aside(conn: AsyncConnection, kind: Kind, entity_id: str, name: str, *, tenant_id: str) -> None:
    """Let a name of an entity that is about to be renamed, or to go, be taken by another before that."""
    if _subject_member(kind) is None:
        return
    keys = (rules.key_of(name), rules.key_as_written(name))
    of_it = (subjects.c.zone_id == tenant_id, subjects.c.holder_id == entity_id, subjects.c.key.in_(keys))
    await conn.execute(update(subjects).where(*of_it).values(is_held=False))


async def retire(conn: AsyncConnection, kind: Kind, entity_ids: Sequence[str], *, tenant_id: str) -> None:
    """Keep the names of deleted entities reserved: only the same entity, created again, may have its own.

    Args:
        entity_ids: at most a batch of them.
    """
    if _subject_member(kind) is None:
        return
    if kind is USER:
        for user_id in entity_ids:
            await _retire(conn, [user_id], tenant_id, await _identity(conn, user_id, tenant_id))
    else:
        await _retire(conn, entity_ids, tenant_id, None)


async def _retire(
    conn: AsyncConnection, holder_ids: Sequence[str], zone_id: str, identity: str | None
) -> None:
    await conn.execute(
        update(subjects)
        .where(subjects.c.zone_id == zone_id, subjects.c.holder_id.in_(holder_ids))
        .values(is_held=False, identity=identity)
    )


async def is_assigned(conn: AsyncConnection, kind: Kind, name: str) -> bool:
    """Tell whether any organization has, or ever had, that label; or any zone that issuer."""
    compared = rules.canonical_issuer(name) if kind is ZONE else name
    found = await conn.execute(
        select(assigned_names.c.name).where(
            assigned_names.c.kind == kind.name, assigned_names.c.name == compared
        )
    )
    return found.first() is not None


async def zone_of_issuer(conn: AsyncConnection, issuer: str) -> str | None:
    """The id of the zone that has, or ever had, that issuer; None where no zone did."""
    found: str | None = await conn.scalar(
        select(assigned_names.c.holder_id).where(
            assigned_names.c.kind == ZONE.name, assigned_names.c.name == rules.canonical_issuer(issuer)
        )
    )
    return found


async def is_subject(conn: AsyncConnection, zone_id: str, holder_id: str) -> bool:
    """Tell whether a user or an application has a name of its own.

    Before names were kept here, an application could be called as a user is. That is the user's name.
    """
    found = await conn.execute(
        select(subjects.c.key)
        .where(subjects.c.zone_id == zone_id, subjects.c.holder_id == holder_id, subjects.c.is_held.is_(True))
        .limit(1)
    )
    return found.first() is not None


async def without_subject(conn: AsyncConnection) -> list[tuple[str, str, str]]:
    """Applications that are called as a user of their zone is: zone, id and identifier of each."""
    table = TABLES[APPLICATION.name]
    own = select(subjects.c.key).where(
        subjects.c.zone_id == table.c.zone_id,
        subjects.c.holder_id == table.c.id,
        subjects.c.is_held.is_(True),
    )
    found = await conn.execute(
        select(table.c.zone_id, table.c.id, table.c.identifier)
        .where(~own.exists())
        .order_by(table.c.zone_id, table.c.id)
    )
    return [(row.zone_id, row.id, row.identifier) for row in found]


# --- subjects: what tokens call a user, or an application


@cache
def _subject_member(kind: Kind) -> str | None:
    return next((name for name, member in kind.members().items() if member.has(Mark.SUBJECT)), None)


def _taken(kind: Kind, member: str, row: Row) -> Row:
    """The row of `subjects` with which an entity takes the name that it has. Raises ValidationFailed."""
    name = row[member]
    if kind is APPLICATION and rules.is_reserved(name):
        raise ValidationFailed.of(
            member, f"must not begin with `{rules.RESERVED_PREFIX}`: it is reserved for registered clients"
        )
    return {
        "zone_id": row["zone_id"],
        "key": rules.key_of(name),
        "kind": kind.name,
        "holder_id": row["id"],
        "identity": rules.identity_of(row.get("issuer"), row.get("subject")),
        "is_held": True,
    }


async def _refuse_address(conn: AsyncConnection, kind: Kind, member: str, row: Row) -> None:
    """Refuse an application the address of a user: who reads it in a token as `sub` may take it for theirs.

    Users who come later keep their address; it is no name of theirs unless their provider makes it one.
    """
    name, users = row[member], TABLES[USER.name]
    if kind is not APPLICATION or "@" not in name:
        return
    found = await conn.execute(
        select(users.c.id)
        .where(
            users.c.zone_id == row["zone_id"],
            users.c.email_verified.is_(True),
            func.lower(users.c.email) == rules.canonical(name),
        )
        .limit(1)
    )
    if found.first() is not None:
        message = f"`{name}` is the e-mail address of a user and cannot identify an application"
        raise Conflict(message, problems=[Problem("conflict", message, member)])


@lru_cache(maxsize=2)  # one for each database
def _subject_taken(dialect: str) -> Insert:
    """A name for whom it is new, or theirs.

    That is who had it before. What nobody is called now goes on to an application, if one had it before: it
    comes back from git; and to a user who is the same person at the same provider.
    """
    made = _INSERT[dialect](subjects).values({column.name: bindparam(column.name) for column in subjects.c})
    came_back = and_(
        subjects.c.is_held.is_(False),
        or_(subjects.c.kind == APPLICATION.name, subjects.c.identity == made.excluded.identity),
    )
    theirs = and_(
        subjects.c.kind == made.excluded.kind, or_(subjects.c.holder_id == made.excluded.holder_id, came_back)
    )
    changed = {name: made.excluded[name] for name in ("holder_id", "identity", "is_held")}
    stated: Insert = made.on_conflict_do_update(
        index_elements=[subjects.c.zone_id, subjects.c.key], set_=changed, where=theirs
    )
    return stated


@cache
def _inserted(kind: Kind) -> Insert:
    """A new entity, if the name is given to it, in one statement of PostgreSQL's."""
    table = TABLES[kind.name]
    taken = _subject_taken("postgresql").returning(subjects.c.holder_id).cte("taken")
    row = select(*(bindparam(f"row_{column.name}", type_=column.type) for column in table.c))
    return insert_into(table).from_select(
        [column.name for column in table.c], row.where(select(taken.c.holder_id).exists())
    )


async def _identity(conn: AsyncConnection, user_id: str, zone_id: str) -> str | None:
    users = TABLES[USER.name]
    found = await conn.execute(
        select(users.c.issuer, users.c.subject).where(users.c.zone_id == zone_id, users.c.id == user_id)
    )
    row = found.one_or_none()
    return rules.identity_of(row.issuer, row.subject) if row else None


async def _refusal(conn: AsyncConnection, member: str, name: str, taken: Row) -> Conflict:
    """Why a name is not given, once it was not."""
    holder = (
        await conn.execute(
            select(subjects.c.kind, subjects.c.holder_id, subjects.c.is_held).where(
                subjects.c.zone_id == taken["zone_id"], subjects.c.key == taken["key"]
            )
        )
    ).one()
    if not holder.is_held:
        message = (
            f"`{name}` was the name of another {holder.kind}, which was deleted or renamed; "
            "tokens may still refer to it: choose another name"
        )
        return NameRetired(message, problems=[Problem("conflict", message, member)])
    table = TABLES[holder.kind]
    present = await conn.scalar(
        select(table.c[member]).where(table.c.zone_id == taken["zone_id"], table.c.id == holder.holder_id)
    )
    message = f"there is already {article(holder.kind)} {holder.kind} with the {member} `{present}`"
    if present != name:
        message += f", and `{name}` differs in case or form alone"
    if holder.kind != taken["kind"]:
        message += "; tokens call users and applications by it, so they share one namespace"
    return Conflict(message, problems=[Problem("conflict", message, member)])


# --- names in the whole service


async def _assign(conn: AsyncConnection, kind: Kind, row: Row) -> None:
    """Give a zone its issuer, or an organization its label. Raises Conflict."""
    member, name = "label", row.get("label")
    if kind is ZONE:
        member, name = "issuer", rules.canonical_issuer(row["protocols"]["oauth2"]["issuer"])
    made = _INSERT[conn.dialect.name](assigned_names).values(
        kind=kind.name, name=name, holder_id=row["id"], assigned_at=row["created_at"]
    )
    stated = made.on_conflict_do_update(
        index_elements=[assigned_names.c.kind, assigned_names.c.name],
        set_={"holder_id": made.excluded.holder_id},
        where=assigned_names.c.holder_id == made.excluded.holder_id,
    )
    if (await conn.execute(stated)).rowcount == 0:
        message = f"`{name}` is, or was, the {member} of another {kind.name}; it cannot be used again"
        raise Conflict(message, problems=[Problem("conflict", message, member)])
