"""Pages by position: a page starts after, or ends before, an entity and so does not shift under a reader."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from sqlalchemy import ColumnElement, and_, false, func, literal, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import Entity, Kind
from runtime.storage.sql.conversion import converter
from runtime.storage.sql.filters import Condition, Within, condition, parents
from runtime.storage.sql.tables import TABLES

E = TypeVar("E", bound=Entity)


@dataclass(frozen=True)
class Position:
    """A place in a sorted list: the sort member's value and the id of an entity, which may be gone by now.

    In a list that is sorted by several members the value is a tuple of theirs.
    """

    value: Any
    id: str


@dataclass(frozen=True)
class Page(Generic[E]):
    """Some entities of a list, in its order. `total` is the size of the whole list, when it was asked for."""

    items: list[E]
    has_next: bool
    has_previous: bool
    total: int | None = None


@dataclass(frozen=True)
class _Key:
    """One column of an order; no value comes last, and first when descending."""

    column: ColumnElement[Any]
    descending: bool
    nullable: bool

    @property
    def reversed(self) -> "_Key":
        return replace(self, descending=not self.descending)

    def clauses(self) -> list[ColumnElement[Any]]:
        wanted = [self.column.is_(None), self.column] if self.nullable else [self.column]
        return [column.desc() if self.descending else column.asc() for column in wanted]

    def at(self, value: Any) -> ColumnElement[bool]:
        """The condition that a row has that value."""
        if value is None:
            return self.column.is_(None)
        return self.column == literal(value, self.column.type)

    def beyond(self, value: Any) -> ColumnElement[bool]:
        """The condition that a row comes after that value."""
        if value is None:
            return self.column.is_not(None) if self.descending else false()
        here = literal(value, self.column.type)
        if self.descending:
            return self.column < here
        return or_(self.column > here, self.column.is_(None)) if self.nullable else self.column > here


@dataclass(frozen=True)
class _Order:
    """The order of a list: by its members, then by id."""

    keys: tuple[_Key, ...]

    @classmethod
    def of(cls, kind: Kind, sort: str, *, descending: bool) -> "_Order":
        columns = TABLES[kind.name].c
        chosen = [(columns[name], sign != descending) for name, sign in _members(sort)]
        keys = [_Key(column, backwards, bool(column.nullable)) for column, backwards in chosen]
        return cls((*keys, _Key(columns.id, keys[0].descending, nullable=False)))

    @property
    def reversed(self) -> "_Order":
        return _Order(tuple(key.reversed for key in self.keys))

    def clauses(self) -> list[ColumnElement[Any]]:
        """What ORDER BY says. The parents, being constant, lead to the index that has them first."""
        return [clause for key in self.keys for clause in key.clauses()]

    def after(self, position: Position, *, inclusive: bool = False) -> ColumnElement[bool]:
        """The condition that a row comes after a position, or at it."""
        first, *others = self.keys
        if len(others) == 1 and not first.nullable:
            return self._after_pair(position, inclusive=inclusive)
        values = position.value if len(others) > 1 else (position.value,)
        pairs = list(zip(self.keys, (*values, position.id), strict=True))
        steps = [
            and_(*(key.at(value) for key, value in pairs[:place]), pairs[place][0].beyond(pairs[place][1]))
            for place in range(len(pairs))
        ]
        if inclusive:
            steps.append(and_(*(key.at(value) for key, value in pairs)))
        return or_(*steps)

    def _after_pair(self, position: Position, *, inclusive: bool) -> ColumnElement[bool]:
        """The same for one member that always has a value, in the form that an index answers."""
        value, entity_id = self.keys[0].column, self.keys[1].column
        pair = tuple_(value, entity_id)
        other = tuple_(literal(position.value, value.type), literal(position.id, entity_id.type))
        if self.keys[0].descending:
            return pair <= other if inclusive else pair < other
        return pair >= other if inclusive else pair > other


def _members(sort: str) -> list[tuple[str, bool]]:
    """The members of a sort, each with whether it is written with a minus."""
    return [(name.removeprefix("-"), name.startswith("-")) for name in sort.split(",")]


def position(entity: Entity, sort: str) -> Position:
    """Where an entity stands in a list sorted by a member, or by several."""
    values = tuple(getattr(entity, name) for name, _ in _members(sort))
    return Position(values[0] if len(values) == 1 else values, entity.id)


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
    """One page of a list.

    Args:
        sort: a stored member, or several with commas, each with a minus in front to turn it round; entities
            without a value come last, and first when descending.
        descending: turns the whole list round.
        after: the page starts behind this position.
        before: the page ends in front of this position; not together with `after`.
        total: whether to count the whole list, which costs a second query.
    """
    table, read = TABLES[kind.name], converter(kind).entity
    conditions = [*parents(kind, within), *(condition(kind, asked) for asked in where)]
    order = _Order.of(kind, sort, descending=descending)
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
