"""An application's dependencies on resources, and list filters by application traits."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from sqlalchemy import (
    ColumnElement,
    String,
    and_,
    bindparam,
    cast,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.storage.sql import insert_batches
from runtime.storage.sql.batches import Texts, among
from runtime.storage.sql.prepared import PreparedStatement
from runtime.storage.sql.tables import METADATA, TABLES

_dependencies = METADATA.tables["application_dependencies"]
_applications = TABLES["Application"]
_resources = TABLES["Resource"]


async def dependencies_of(
    conn: AsyncConnection, application_id: str, *, zone_id: str
) -> dict[str, tuple[str, ...]]:
    """Resource id -> the resources whose access makes it available (none: always)."""
    found = await conn.execute(
        select(_dependencies.c.resource_id, _dependencies.c.when_accessing).where(
            _dependencies.c.zone_id == zone_id, _dependencies.c.application_id == application_id
        )
    )
    return {row.resource_id: tuple(row.when_accessing or ()) for row in found}


# The ids are one parameter, however many there are: so the statement is the same one each time.
_COUNTING = PreparedStatement(
    select(_dependencies.c.application_id, func.count())
    .where(
        _dependencies.c.zone_id == bindparam("zone_id"),
        among(_dependencies.c.application_id, bindparam("application_ids", type_=Texts)),
    )
    .group_by(_dependencies.c.application_id)
)


async def count_dependencies(
    conn: AsyncConnection, application_ids: Collection[str], *, zone_id: str
) -> dict[str, int]:
    """Application id -> number of dependencies; those without any are left out."""
    if not application_ids:
        return {}
    values = {"zone_id": zone_id, "application_ids": list(application_ids)}
    return {row[0]: int(row[1]) for row in await _COUNTING.rows(conn, values)}


async def upsert_dependency(
    conn: AsyncConnection,
    application_id: str,
    resource_id: str,
    *,
    zone_id: str,
    when_accessing: Sequence[str],
    now: datetime,
) -> None:
    """Declare a dependency, or replace the condition of one that is there."""
    replaced = await conn.execute(
        update(_dependencies)
        .where(
            _dependencies.c.zone_id == zone_id,
            _dependencies.c.application_id == application_id,
            _dependencies.c.resource_id == resource_id,
        )
        .values(when_accessing=list(when_accessing))
    )
    if replaced.rowcount:
        return
    await conn.execute(
        insert(_dependencies).values(
            zone_id=zone_id,
            application_id=application_id,
            resource_id=resource_id,
            when_accessing=list(when_accessing),
            created_at=now,
        )
    )


async def add_dependencies(
    conn: AsyncConnection, application_id: str, resource_ids: Iterable[str], *, zone_id: str, now: datetime
) -> None:
    """Declare dependencies without a condition; none of them is declared yet."""
    same = {"zone_id": zone_id, "application_id": application_id, "when_accessing": [], "created_at": now}
    rows = [{**same, "resource_id": resource_id} for resource_id in resource_ids]
    if rows and not insert_batches.enqueue(conn, _dependencies, rows):
        await conn.execute(insert(_dependencies), rows)


async def remove_dependency(
    conn: AsyncConnection, application_id: str, resource_id: str, *, zone_id: str
) -> None:
    """Withdraw a dependency."""
    await conn.execute(
        delete(_dependencies).where(
            _dependencies.c.zone_id == zone_id,
            _dependencies.c.application_id == application_id,
            _dependencies.c.resource_id == resource_id,
        )
    )


def has_traits(alternatives: Sequence[Collection[str]]) -> ColumnElement[bool]:
    """The condition that an application has every trait of one of the alternatives.

    Traits are words of a fixed list, so finding the quoted word in the stored array is exact.
    """
    stored = cast(_applications.c.traits, String)
    return or_(*(and_(*(stored.like(f'%"{trait}"%') for trait in traits)) for traits in alternatives))


def provided_by_application_with(
    zone_id: str, alternatives: Sequence[Collection[str]]
) -> ColumnElement[bool]:
    """The condition that a resource is provided by an application with such traits."""
    providing = select(_applications.c.id).where(_applications.c.zone_id == zone_id, has_traits(alternatives))
    return _resources.c.application_id.in_(providing)
