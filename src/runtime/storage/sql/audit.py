"""Queries of the audit log: pages of it, its first and last record, and the anchor of a pruned one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, func, select, tuple_, union
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.storage.sql.organization_revision import GENESIS
from runtime.storage.sql.paging import KeyColumn, Keyset, Page, fetch
from runtime.storage.sql.tables import TABLES, audit_anchors, audit_events, organization_heads

# What the log can be selected by; each is a column.
FILTERS = ("kind", "entity_id", "zone_id", "actor_id", "action", "changeset_id")
_NEWEST_FIRST = Keyset((KeyColumn(audit_events.c.sequence, descending=True),))


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which records are asked for.

    Attributes:
        filters: column -> values, of which one must match.
        since: the first instant that counts.
        until: the first instant that no longer counts.
    """

    filters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class AuditAnchor:
    """Where a trail begins: all records up to this one were pruned, and it does without them.

    Attributes:
        sequence: of the last record that was pruned; 0 for none.
        hash: of that record, from which the first that is kept follows.
    """

    sequence: int = 0
    hash: str = GENESIS


@dataclass(frozen=True, slots=True)
class AuditExtent:
    """How far an organization's log reaches, and how far its head says it does.

    Attributes:
        first: the lowest sequence number there is; None when there is no record.
        last: the highest.
        head: sequence number and hash of the last record as the head has them; None when there is no head.
    """

    first: int | None
    last: int | None
    head: tuple[int, str] | None


async def page(
    conn: AsyncConnection,
    organization_id: str,
    selection: AuditFilter,
    *,
    limit: int,
    after: int | None = None,
    before: int | None = None,
) -> Page[dict[str, Any]]:
    """One page of the log, newest first.

    Args:
        after: the page starts behind this sequence number: it has what is older.
        before: the page ends in front of this sequence number; not together with `after`.
    """
    return await fetch(
        conn,
        select(audit_events).where(*_conditions(organization_id, selection)),
        _NEWEST_FIRST,
        lambda row: dict(row._mapping),
        limit=limit,
        after=None if after is None else (after,),
        before=None if before is None else (before,),
    )


async def organizations(conn: AsyncConnection) -> list[str]:
    """The ids of all organizations that are, or have a head, or have records."""
    table = TABLES["Organization"]
    every = union(
        select(table.c.id),
        select(organization_heads.c.organization_id),
        select(audit_events.c.organization_id).distinct(),
    )
    return sorted(row[0] for row in await conn.execute(every))


async def present_organizations(conn: AsyncConnection) -> list[str]:
    """The ids of the organizations that there are, and not of those that only have a history."""
    return sorted(row[0] for row in await conn.execute(select(TABLES["Organization"].c.id)))


async def extent(conn: AsyncConnection, organization_id: str) -> AuditExtent:
    """Where an organization's log begins and ends."""
    sequence, heads = audit_events.c.sequence, organization_heads.c
    ends = select(func.min(sequence), func.max(sequence))
    first, last = (await conn.execute(ends.where(audit_events.c.organization_id == organization_id))).one()
    head = (
        await conn.execute(
            select(heads.audit_sequence, heads.audit_hash).where(heads.organization_id == organization_id)
        )
    ).one_or_none()
    return AuditExtent(first, last, (head[0], head[1]) if head is not None else None)


# --- pruning


async def anchor(conn: AsyncConnection, organization_id: str) -> AuditAnchor:
    """Where the trail of an organization begins."""
    columns = audit_anchors.c
    query = select(columns.sequence, columns.hash).where(columns.organization_id == organization_id)
    row = (await conn.execute(query)).one_or_none()
    return AuditAnchor() if row is None else AuditAnchor(row.sequence, row.hash)


async def organizations_to_prune(conn: AsyncConnection, *, before: datetime) -> list[str]:
    """The ids of the organizations whose trail begins with a record from before that instant."""
    heads, anchors, events = organization_heads.c, audit_anchors.c, audit_events.c
    first = func.coalesce(anchors.sequence, 0) + 1
    query = (
        select(heads.organization_id)
        .outerjoin_from(organization_heads, audit_anchors, anchors.organization_id == heads.organization_id)
        .join(
            audit_events,
            and_(events.organization_id == heads.organization_id, events.sequence == first),
        )
        .where(events.at < before)
    )
    return sorted((await conn.scalars(query)).all())


async def move_anchor(conn: AsyncConnection, organization_id: str, to: AuditAnchor, *, now: datetime) -> None:
    """Let the trail begin behind a record. From now on those up to it can be deleted."""
    insert = (sqlite if conn.dialect.name == "sqlite" else postgresql).insert(audit_anchors)
    values = {"sequence": to.sequence, "hash": to.hash, "at": now}
    await conn.execute(
        insert.values(organization_id=organization_id, **values).on_conflict_do_update(
            index_elements=["organization_id"], set_=values
        )
    )


async def forget_pruned(conn: AsyncConnection, *, limit: int) -> int:
    """Forget records in front of the beginning of their trail; how many, *limit* at most."""
    events, anchors = audit_events.c, audit_anchors.c
    pruned = (
        select(events.organization_id, events.sequence)
        .join_from(
            audit_anchors,
            audit_events,
            and_(events.organization_id == anchors.organization_id, events.sequence <= anchors.sequence),
        )
        .limit(limit)
    )
    key = tuple_(events.organization_id, events.sequence)
    return (await conn.execute(delete(audit_events).where(key.in_(pruned.subquery().select())))).rowcount


def _conditions(organization_id: str, selection: AuditFilter) -> list[ColumnElement[bool]]:
    columns = audit_events.c
    found: list[ColumnElement[bool]] = [columns.organization_id == organization_id]
    found.extend(columns[name].in_(values) for name, values in selection.filters.items())
    if selection.since is not None:
        found.append(columns.at >= selection.since)
    if selection.until is not None:
        found.append(columns.at < selection.until)
    return found
