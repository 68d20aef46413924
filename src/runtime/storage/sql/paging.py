"""Pages by position: a page starts after, or ends before, an entity and so does not shift under a reader."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, func, literal, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import Entity, Kind
from runtime.storage.sql.conversion import converter
from runtime.storage.sql.selecting import Condition, Within, condition, parents
from runtime.storage.sql.tables import TABLES


@dataclass(frozen=True)
class Position:
    """A place in a sorted list: the sort member's value and the id of an entity, which may be gone by now."""

    value: Any
    id: str


@dataclass(frozen=True)
class Page:
    """Some entities of a list, in its order. `total` is the size of the whole list, when it was asked for."""

    items: list[Entity]
    has_next: bool
    has_previous: bool
    total: int | None = None


@dataclass(frozen=True)
class _Order:
    """The order of a list: by one member, then by id; no value comes last, and first when descending."""

    kind: Kind
    member: str
    descending: bool

    @property
    def reversed(self) -> "_Order":
        return _Order(self.kind, self.member, not self.descending)

    @property
    def _columns(self) -> tuple[ColumnElement[Any], ColumnElement[Any], bool]:
        columns = TABLES[self.kind.name].c
        return columns[self.member], columns.id, bool(columns[self.member].nullable)

    def clauses(self) -> list[ColumnElement[Any]]:
        """What ORDER BY says. The parents, being constant, lead to the index that has them first."""
        value, entity_id, nullable = self._columns
        empty = [value.is_(None)] if nullable else []
        wanted = [*empty, value, entity_id]
        return [column.desc() if self.descending else column.asc() for column in wanted]

    def after(self, position: Position, *, inclusive: bool = False) -> ColumnElement[bool]:
        """The condition that a row comes after a position, or at it."""
        value, entity_id, nullable = self._columns
        here, same = literal(position.value, value.type), literal(position.id, entity_id.type)
        if not nullable:
            pair, other = tuple_(value, entity_id), tuple_(here, same)
            if self.descending:
                return pair <= other if inclusive else pair < other
            return pair >= other if inclusive else pair > other
        beyond = entity_id < same if self.descending else entity_id > same
        if inclusive:
            beyond = or_(beyond, entity_id == same)
        if position.value is None:
            tied = and_(value.is_(None), beyond)
            return or_(tied, value.is_not(None)) if self.descending else tied
        tied = and_(value == here, beyond)
        if self.descending:
            return or_(value < here, tied)
        return or_(value > here, tied, value.is_(None))


def position(entity: Entity, sort: str) -> Position:
    """Where an entity stands in a list sorted by a member."""
    return Position(getattr(entity, sort), entity.id)


async def page(
    conn: AsyncConnection,
    kind: Kind,
    *,
    within: Within,
    where: Sequence[Condition] = (),
    sort: str = "created_at",
    descending: bool = False,
    limit: int = 100,
    after: Position | None = None,
    before: Position | None = None,
    total: bool = False,
) -> Page:
    """One page of a list.

    Args:
        sort: a stored member; entities without a value come last, and first when descending.
        after: the page starts behind this position.
        before: the page ends in front of this position; not together with `after`.
        total: whether to count the whole list, which costs a second query.
    """
    table, read = TABLES[kind.name], converter(kind).entity
    conditions = [*parents(kind, within), *(condition(kind, asked) for asked in where)]
    order = _Order(kind, sort, descending)
    walked, start = (order.reversed, before) if before else (order, after)
    query = select(table).where(*conditions).order_by(*walked.clauses()).limit(limit + 1)
    if start:
        query = query.where(walked.after(start))
    items = [read(row) for row in await conn.execute(query)]
    more = len(items) > limit
    del items[limit:]
    behind = False
    if start:
        edge = position(items[0], sort) if items else start
        back = walked.reversed.after(edge, inclusive=not items)
        behind = (await conn.execute(select(1).where(*conditions, back).limit(1))).first() is not None
    if before:
        items.reverse()
    return Page(
        items=items,
        has_next=behind if before else more,
        has_previous=more if before else behind,
        total=await count(conn, kind, within=within, where=where) if total else None,
    )


async def count(conn: AsyncConnection, kind: Kind, *, within: Within, where: Sequence[Condition] = ()) -> int:
    """How many entities there are under those parents that meet the conditions."""
    conditions = [*parents(kind, within), *(condition(kind, asked) for asked in where)]
    counted = select(func.count()).select_from(TABLES[kind.name]).where(*conditions)
    return (await conn.execute(counted)).scalar_one()
