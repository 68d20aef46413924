"""Get, list, insert, replace and remove for any kind; entities come out, never rows.

`within` names the parents: `{"zone_id": ...}`, with `policy_id` and the like for a kind below another one, or
`{"organization_id": ...}`. A zone's entities are never reached without their zone. Zones and organizations,
being the tenants themselves, may be looked up with an empty `within`.
"""

from collections.abc import AsyncGenerator, Sequence
from functools import cache, lru_cache
from typing import Any, TypeVar

from sqlalchemy import Insert, Update, bindparam, delete, select, update
from sqlalchemy import insert as insert_into
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import NotFound
from runtime.domain.kinds import Entity, Kind
from runtime.storage.sql import audiences, handle_placeholders, insert_batches, names
from runtime.storage.sql.batches import BATCH, batches
from runtime.storage.sql.conversion import converter
from runtime.storage.sql.filters import Condition, Contains, Equals, SqlCondition, Within, condition, parents
from runtime.storage.sql.ownership import OwnershipRecord
from runtime.storage.sql.paging import Page, Position, count, page, position
from runtime.storage.sql.prepared import PreparedStatement
from runtime.storage.sql.reference_cleanup import clear_references
from runtime.storage.sql.refusals import refusal
from runtime.storage.sql.tables import TABLES

__all__ = [
    "Condition",
    "Contains",
    "Equals",
    "Page",
    "Position",
    "SqlCondition",
    "Within",
    "all_of",
    "count",
    "find_by",
    "get",
    "insert",
    "insert_many",
    "many",
    "page",
    "position",
    "remove",
    "remove_many",
    "replace",
]

E = TypeVar("E", bound=Entity)


async def get(conn: AsyncConnection, kind: Kind[E], entity_id: str, *, within: Within) -> E:
    """The entity with that id under those parents. Raises NotFound, also when its parent is another."""
    entity = await find_by(conn, kind, "id", entity_id, within=within)
    if entity is None:
        raise NotFound(f"there is no {kind.name} `{entity_id}`")
    return entity


async def find_by(
    conn: AsyncConnection, kind: Kind[E], member: str, value: Any, *, within: Within
) -> E | None:
    """The one entity whose member has that value; None when there is none.

    Meant for members that are unique under the parents. Archived entities are found by id only.
    """
    values = {f"in_{name}": parent for name, parent in within.items()} | {"sought": value}
    found = await _finding(kind, member, tuple(within)).rows(conn, values)
    if not found:
        return None
    (row,) = found
    return handle_placeholders.with_own_handle(conn, kind, converter(kind).entity(row))


async def many(conn: AsyncConnection, kind: Kind[E], ids: Sequence[str], *, within: Within) -> list[E]:
    """The entities with these ids, in the order asked; ids that lead nowhere are left out, doubles too."""
    table, read = TABLES[kind.name], converter(kind).entity
    wanted = list(dict.fromkeys(ids))
    found: dict[str, E] = {}
    conditions = parents(kind, within)
    for batch in batches(wanted):
        query = select(table).where(table.c.id.in_(batch), *conditions)
        for row in await conn.execute(query):
            entity = read(row)
            found[entity.id] = entity
    return [found[entity_id] for entity_id in wanted if entity_id in found]


async def all_of(
    conn: AsyncConnection, kind: Kind[E], *, within: Within, where: Sequence[Condition] = ()
) -> AsyncGenerator[E]:
    """Every entity under those parents, oldest first, a few hundred in memory at a time.

    Not on a connection of `querying()`: a stream needs a transaction.
    """
    table, read = TABLES[kind.name], converter(kind).entity
    conditions = [*parents(kind, within), *(condition(kind, asked) for asked in where)]
    query = select(table).where(*conditions).order_by(table.c.created_at, table.c.id)
    async with conn.stream(query, execution_options={"yield_per": BATCH}) as result:
        async for rows in result.partitions():
            for row in rows:
                yield read(row)


async def insert(conn: AsyncConnection, kind: Kind, entity: Entity) -> None:
    """Keep a new entity.

    On PostgreSQL a refusal ends the transaction; who wants to go on afterwards opens a savepoint first.

    Raises:
        Conflict: a unique value is taken, or was another's for ever; the problem names the member.
        ValidationFailed: a reference leads nowhere, or into another zone; a name that is the zone's.
    """
    row = converter(kind).row(entity)
    await audiences.refuse_issuer(conn, kind, [row])
    try:
        if names.are_given(kind):
            await names.insert(conn, kind, row)
        elif not insert_batches.enqueue(conn, TABLES[kind.name], [row]):
            await conn.execute(_insertion(kind), row)
    except DBAPIError as error:
        if refused := await refusal(conn, kind, row, error):
            raise refused from error
        raise


async def insert_many(conn: AsyncConnection, kind: Kind, entities: Sequence[Entity]) -> None:
    """Keep many new entities, in fewer round trips where none takes a name. Raises as `insert`."""
    if names.are_given(kind):
        for entity in entities:
            await insert(conn, kind, entity)
        return
    make = converter(kind).row
    for batch in batches(entities):
        rows = [make(entity) for entity in batch]
        await audiences.refuse_issuer(conn, kind, rows)
        if insert_batches.enqueue(conn, TABLES[kind.name], rows):
            continue
        try:
            async with conn.begin_nested():
                await conn.execute(_insertion(kind), rows)
        except DBAPIError:
            # One of them is refused: the one by one path says which, and in what words.
            for entity in batch:
                await insert(conn, kind, entity)


async def replace(conn: AsyncConnection, kind: Kind, entity: Entity, *, within: Within) -> None:
    """Keep an entity in place of the one with its id. Raises NotFound, and as `insert`."""
    row = converter(kind).row(entity)
    parents(kind, within)
    await audiences.refuse_issuer(conn, kind, [row])
    await names.retake(conn, kind, row)
    values = {f"was_{name}": value for name, value in within.items()} | {"was_id": entity.id}
    values |= {
        name: value for name, value in row.items() if name not in TABLES[kind.name].primary_key.columns
    }
    try:
        result = await conn.execute(_replacement(kind, tuple(within)), values)
    except DBAPIError as error:
        if refused := await refusal(conn, kind, row, error):
            raise refused from error
        raise
    if result.rowcount == 0:
        raise NotFound(f"there is no {kind.name} `{entity.id}`")


async def remove(
    conn: AsyncConnection, kind: Kind, entity_id: str, *, within: Within
) -> list[OwnershipRecord]:
    """Delete an entity with everything that is part of it; references to it from elsewhere are cleared.

    Returns:
        Its ownership record, and those of what is deleted with it: they are gone, too.
    Raises:
        NotFound: there is no such entity under those parents.
    """
    return await remove_many(conn, kind, [entity_id], within=within)


async def remove_many(
    conn: AsyncConnection, kind: Kind, ids: Sequence[str], *, within: Within
) -> list[OwnershipRecord]:
    """Delete entities as `remove` does, in a few statements for each batch. Returns and raises as it."""
    dropped: list[OwnershipRecord] = []
    for batch in batches(ids):
        dropped += await _remove_batch(conn, kind, batch, within)
    return dropped


async def _remove_batch(
    conn: AsyncConnection, kind: Kind, ids: Sequence[str], within: Within
) -> list[OwnershipRecord]:
    table = TABLES[kind.name]
    mine = [table.c.id.in_(ids), *parents(kind, within)]
    tenant = table.c[kind.scope[0]] if kind.scope else table.c.id
    tenants = {row[0]: row[1] for row in await conn.execute(select(table.c.id, tenant).where(*mine))}
    if missing := next((one for one in ids if one not in tenants), None):
        raise NotFound(f"there is no {kind.name} `{missing}`")
    dropped: list[OwnershipRecord] = []
    for tenant_id in dict.fromkeys(tenants.values()):
        there = [one for one in ids if tenants[one] == tenant_id]
        await names.retire(conn, kind, there, tenant_id=tenant_id)
        dropped += await clear_references(conn, kind, there, tenant_id=tenant_id)
    await conn.execute(delete(table).where(*mine))
    return dropped


@lru_cache(maxsize=1024)  # composing a statement takes longer than the database takes for it
def _finding(kind: Kind, member: str, within: tuple[str, ...]) -> PreparedStatement:
    table = TABLES[kind.name]
    places: dict[str, Any] = {name: bindparam(f"in_{name}") for name in within}
    query = select(table).where(table.c[member] == bindparam("sought"), *parents(kind, places, member=member))
    if member != "id" and "archived_at" in table.c:
        query = query.where(table.c.archived_at.is_(None))
    return PreparedStatement(query)


@cache
def _insertion(kind: Kind) -> Insert:
    return insert_into(TABLES[kind.name])


@lru_cache(maxsize=256)
def _replacement(kind: Kind, within: tuple[str, ...]) -> Update:
    columns = TABLES[kind.name].c
    return update(TABLES[kind.name]).where(
        *(columns[name] == bindparam(f"was_{name}") for name in ("id", *within))
    )
