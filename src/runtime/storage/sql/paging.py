"""Keyset pagination: a page starts after, or ends before, a row and so does not shift under a reader.

`fetch` pages any query; `page` pages the entities of a kind.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Generic, TypeVar

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Row,
    Select,
    and_,
    bindparam,
    false,
    func,
    literal,
    literal_column,
    or_,
    select,
    tuple_,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import Entity, Kind
from runtime.storage.sql.conversion import converter
from runtime.storage.sql.filters import Condition, Within, condition, parents
from runtime.storage.sql.prepared import PreparedStatement
from runtime.storage.sql.tables import TABLES

E = TypeVar("E", bound=Entity)
T = TypeVar("T")


@dataclass(frozen=True)
class Position:
    """A place in a sorted list: the sort member's value and the id of an entity, which may be gone by now.

    In a list that is sorted by several members the value is a tuple of theirs.
    """

    value: Any
    id: str


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some items of a list, in its order.

    Attributes:
        total: the size of the whole list, when it was asked for.
        seen_to: where a search for items ended that goes on from there: it found fewer than a page has.
    """

    items: list[T]
    has_next: bool
    has_previous: bool
    total: int | None = None
    seen_to: tuple[Any, ...] | None = None


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One column of an order; NULL comes last, and first when descending."""

    column: ColumnElement[Any]
    descending: bool = False
    nullable: bool = False

    @property
    def reversed(self) -> "KeyColumn":
        return replace(self, descending=not self.descending)

    def order_by(self) -> list[ColumnElement[Any]]:
        columns = [self.column.is_(None), self.column] if self.nullable else [self.column]
        return [column.desc() if self.descending else column.asc() for column in columns]

    def typed(self, value: Any) -> ColumnElement[Any]:
        """A value, or the place of one, as the column's type has it."""
        return value if isinstance(value, BindParameter) else literal(value, self.column.type)

    def at(self, value: Any) -> ColumnElement[bool]:
        """The condition that a row has that value."""
        return self.column.is_(None) if value is None else self.column == self.typed(value)

    def beyond(self, value: Any) -> ColumnElement[bool]:
        """The condition that a row comes after that value."""
        if value is None:
            return self.column.is_not(None) if self.descending else false()
        if self.descending:
            return self.column < self.typed(value)
        later = self.column > self.typed(value)
        return or_(later, self.column.is_(None)) if self.nullable else later


@dataclass(frozen=True, slots=True)
class Keyset:
    """The total order of a list: the values of its columns together occur in one row only."""

    columns: tuple[KeyColumn, ...]

    @property
    def reversed(self) -> "Keyset":
        return Keyset(tuple(key.reversed for key in self.columns))

    def order_by(self) -> list[ColumnElement[Any]]:
        """What ORDER BY says. The parents, being constant, lead to the index that has them first."""
        return [clause for key in self.columns for clause in key.order_by()]

    def after(self, values: Sequence[Any], *, inclusive: bool = False) -> ColumnElement[bool]:
        """The condition that a row comes after the one with these values, or is that one."""
        directions = {key.descending for key in self.columns}
        if len(directions) == 1 and not any(key.nullable for key in self.columns):
            return self._compared(values, inclusive=inclusive)
        pairs = list(zip(self.columns, values, strict=True))
        steps = [
            and_(*(key.at(value) for key, value in pairs[:place]), pairs[place][0].beyond(pairs[place][1]))
            for place in range(len(pairs))
        ]
        if inclusive:
            steps.append(and_(*(key.at(value) for key, value in pairs)))
        return or_(*steps)

    def _compared(self, values: Sequence[Any], *, inclusive: bool) -> ColumnElement[bool]:
        """The same for one direction and no NULLs, in the form that an index answers."""
        here = tuple_(*(key.column for key in self.columns))
        there = tuple_(*(key.typed(value) for key, value in zip(self.columns, values, strict=True)))
        if self.columns[0].descending:
            return here <= there if inclusive else here < there
        return here >= there if inclusive else here > there


async def fetch(
    conn: AsyncConnection,
    query: Select[Any],
    keyset: Keyset,
    read: Callable[[Row[Any]], T],
    *,
    limit: int,
    after: Sequence[Any] | None = None,
    before: Sequence[Any] | None = None,
) -> Page[T]:
    """One page of a query.

    Args:
        query: without an order; selects the columns of the keyset, among others.
        read: makes an item of a row.
        after: the page starts behind the row with these values of the keyset, which may be gone by now.
        before: the page ends in front of the row with these; not together with `after`.
    """
    walked, start = (keyset.reversed, before) if before is not None else (keyset, after)
    rows, has_more = await nearest(conn, query, walked, start, limit=limit)
    has_behind = False
    if start is not None:
        edge = [rows[0]._mapping[key.column] for key in keyset.columns] if rows else start
        behind = _nearest_behind(query, walked, edge, inclusive=not rows)
        has_behind = (await conn.execute(behind)).first() is not None
    items = [read(row) for row in rows]
    return _turned(items, has_more, has_behind, backwards=before is not None)


def _nearest_behind(
    query: Select[Any], walked: Keyset, edge: Sequence[Any], *, inclusive: bool
) -> Select[Any]:
    """One row, of those before some values of a keyset, or at them."""
    behind: Select[Any] = query.with_only_columns(literal_column("1"), maintain_column_froms=True).where(
        walked.reversed.after(edge, inclusive=inclusive)
    )
    # Any row would do. Without an order PostgreSQL expects to meet one soon wherever it begins, and reads the
    # whole table where those of the tenant are at its end.
    return behind.order_by(*walked.reversed.order_by()).limit(1)


def _turned(items: list[T], has_more: bool, has_behind: bool, *, backwards: bool) -> Page[T]:
    """The page of items that were walked, in the order of the list."""
    if backwards:
        return Page(items[::-1], has_next=has_behind, has_previous=has_more)
    return Page(items, has_next=has_more, has_previous=has_behind)


async def nearest(
    conn: AsyncConnection, query: Select[Any], walked: Keyset, start: Sequence[Any] | None, *, limit: int
) -> tuple[list[Row[Any]], bool]:
    """The first rows of a query in an order, behind a start if there is one, and whether there are more."""
    paged = query.order_by(*walked.order_by()).limit(limit + 1)
    if start is not None:
        paged = paged.where(walked.after(start))
    rows = list(await conn.execute(paged))
    return rows[:limit], len(rows) > limit


def position(entity: Entity, sort: str) -> Position:
    """Where an entity stands in a list sorted by a member, or by several."""
    values = tuple(getattr(entity, name) for name, _ in _members(sort))
    return Position(values[0] if len(values) == 1 else values, entity.id)


def values_of(position: Position | None, sort: str = "created_at") -> tuple[Any, ...] | None:
    """The values of a sort's keyset at a position."""
    if position is None:
        return None
    return (*position.value, position.id) if "," in sort else (position.value, position.id)


async def page(
    conn: AsyncConnection,
    kind: Kind[E],
    *,
    within: Within,
    where: Sequence[Condition] = (),
    sort: str = "created_at",
    descending: bool = False,
    limit: int = 100,
    after: Position | None = None,
    before: Position | None = None,
    total: bool = False,
) -> Page[E]:
    """One page of the entities of a kind.

    Args:
        sort: a stored member, or several with commas, each with a minus in front to turn it round; entities
            without a value come last, and first when descending.
        descending: turns the whole list round.
        after: the page starts behind this position.
        before: the page ends in front of this position; not together with `after`.
        total: whether to count the whole list, which costs a second query.
    """
    positions = values_of(after, sort), values_of(before, sort)
    if not (where or total):
        return await _plain_page(conn, kind, within, sort, *positions, descending=descending, limit=limit)
    conditions = [*parents(kind, within), *(condition(kind, asked) for asked in where)]
    found = await fetch(
        conn,
        select(TABLES[kind.name]).where(*conditions),
        _keyset(kind, sort, descending=descending),
        converter(kind).entity,
        limit=limit,
        after=positions[0],
        before=positions[1],
    )
    return replace(found, total=await count(conn, kind, within=within, where=where)) if total else found


async def _plain_page(
    conn: AsyncConnection,
    kind: Kind[E],
    within: Within,
    sort: str,
    after: Sequence[Any] | None,
    before: Sequence[Any] | None,
    *,
    descending: bool,
    limit: int,
) -> Page[E]:
    """As `fetch`, for a list without conditions: what is listed most."""
    backwards, start = before is not None, before or after or ()
    nulls = tuple(value is None for value in start)
    paged, behind = _plain(kind, tuple(within), sort, nulls, descending=descending, backwards=backwards)
    values = {f"in_{name}": parent for name, parent in within.items()} | {"most": limit + 1}
    values |= {f"at_{number}": value for number, value in enumerate(start)}
    rows = await paged.rows(conn, values)
    items = list(map(converter(kind).entity, rows[:limit]))
    has_behind = behind is not None and bool(rows[0][-1] if rows else await behind.rows(conn, values))
    return _turned(items, len(rows) > limit, has_behind, backwards=backwards)


@lru_cache(maxsize=1024)  # composing a statement takes longer than the database takes for it
def _plain(
    kind: Kind,
    within: tuple[str, ...],
    sort: str,
    nulls: tuple[bool, ...],
    *,
    descending: bool,
    backwards: bool,
) -> tuple[PreparedStatement, PreparedStatement | None]:
    """The statements of a list without conditions.

    Args:
        nulls: which values of the position that a page starts at are NULL; none at all for the first page.
    Returns:
        That of a page, which tells in each row whether anything is on the other side of the position; and one
        that asks for that alone, for a page without rows. None for the first page.
    """
    keyset = _keyset(kind, sort, descending=descending)
    walked = keyset.reversed if backwards else keyset
    rows = select(TABLES[kind.name]).where(*parents(kind, {name: bindparam(f"in_{name}") for name in within}))
    start = [
        None if is_null else bindparam(f"at_{number}", type_=key.column.type)
        for number, (key, is_null) in enumerate(zip(walked.columns, nulls, strict=False))
    ]
    paged = rows.order_by(*walked.order_by()).limit(bindparam("most"))
    if not start:
        return PreparedStatement(paged), None
    # Nothing is between the position and the first row: what is before the one is before the other.
    behind = _nearest_behind(rows, walked, start, inclusive=True)
    is_behind = behind.correlate(None).scalar_subquery().is_not(None)
    return PreparedStatement(paged.where(walked.after(start)).add_columns(is_behind)), PreparedStatement(
        behind
    )


async def count(conn: AsyncConnection, kind: Kind, *, within: Within, where: Sequence[Condition] = ()) -> int:
    """How many entities there are under those parents that meet the conditions."""
    conditions = [*parents(kind, within), *(condition(kind, asked) for asked in where)]
    counted = select(func.count()).select_from(TABLES[kind.name]).where(*conditions)
    return (await conn.execute(counted)).scalar_one()


def _keyset(kind: Kind, sort: str, *, descending: bool) -> Keyset:
    """The order by the members of a sort, then by id."""
    columns = TABLES[kind.name].c
    chosen = [(columns[name], sign != descending) for name, sign in _members(sort)]
    keys = [KeyColumn(column, backwards, bool(column.nullable)) for column, backwards in chosen]
    return Keyset((*keys, KeyColumn(columns.id, keys[0].descending)))


def _members(sort: str) -> list[tuple[str, bool]]:
    """The members of a sort, each with whether it is written with a minus."""
    return [(name.removeprefix("-"), name.startswith("-")) for name in sort.split(",")]
