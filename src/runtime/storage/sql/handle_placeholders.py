"""Placeholder handles: within a transaction, a handle is free for another before its entity is written.

Neither database defers the check of a unique index. So an entity that is about to be renamed or deleted gets
a placeholder in the table, which frees its handle for another; a read by id still gives the handle.
"""

from collections.abc import Collection
from typing import Any, TypeVar

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import Entity, Kind
from runtime.storage.sql import names
from runtime.storage.sql.batches import batches
from runtime.storage.sql.tables import TABLES

_PARKED = "zonewright parked handles"  # in `info` of a connection
_STAND_IN = "urn:zonewright:parked:"  # before the entity's id: what every kind takes for a handle
E_ = TypeVar("E_", bound=Entity)


async def handles_of(
    conn: AsyncConnection, kind: Kind, ids: Collection[str], *, organization_id: str
) -> dict[str, str]:
    """Entity -> handle, for those of these entities that have one."""
    table, wanted, found = TABLES[kind.name], sorted(ids), {}
    for batch in batches(wanted):
        query = select(table.c.id, table.c[str(kind.handle)]).where(
            table.c.organization_id == organization_id, table.c.id.in_(batch)
        )
        found.update({row[0]: row[1] for row in await conn.execute(query) if row[1] is not None})
    return found


async def put_placeholder(
    conn: AsyncConnection, kind: Kind, entity_id: str, handle: str, *, tenant_id: str
) -> None:
    """Replace an entity's handle by a placeholder. It must be written or deleted in the same transaction."""
    table, owner = TABLES[kind.name], str(kind.tenant)
    await names.step_aside(conn, kind, entity_id, handle, tenant_id=tenant_id)
    await conn.execute(
        update(table)
        .where(table.c[owner] == tenant_id, table.c.id == entity_id)
        .values({str(kind.handle): f"{_STAND_IN}{entity_id}"})
    )
    _parked(conn)[kind.name, entity_id] = handle


def drop_placeholder(conn: AsyncConnection, kind: Kind, entity_id: str) -> None:
    """An entity that had a placeholder has been written or deleted."""
    _parked(conn).pop((kind.name, entity_id), None)


def drop_placeholders(conn: AsyncConnection) -> None:
    """The transaction ends: its placeholders are forgotten, as the connection is used again."""
    if not conn.invalidated:
        conn.info.pop(_PARKED, None)


def with_own_handle(conn: AsyncConnection, kind: Kind, entity: E_) -> E_:
    """An entity with its own handle, also while its row has a placeholder."""
    held = conn.info.get(_PARKED)
    if not held or (handle := held.get((kind.name, entity.id))) is None:
        return entity
    return entity.model_copy(update={str(kind.handle): handle})


def own_handles(conn: AsyncConnection) -> dict[str, str]:
    """Placeholder -> handle, for those that tables have in this transaction."""
    held: dict[tuple[str, str], str] = conn.info.get(_PARKED) or {}
    return {f"{_STAND_IN}{entity_id}": handle for (_, entity_id), handle in held.items()}


def _parked(conn: AsyncConnection) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], Any] = conn.info.setdefault(_PARKED, {})
    return found
