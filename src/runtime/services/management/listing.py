"""The query and the page of a list."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from runtime.domain.kinds import Entity
from runtime.storage.sql.entities import Position

__all__ = ["DEFAULT_LIMIT", "MAX_LIMIT", "UNREAD", "ListQuery", "Listed", "Position", "TextSearch"]

DEFAULT_LIMIT = 50
MAX_LIMIT = 100
# Stands for the value of a position whose cursor had no room for it: look it up by the id.
UNREAD: Any = object()


@dataclass(frozen=True, slots=True)
class TextSearch:
    """Some member contains one of the texts."""

    members: tuple[str, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListQuery:
    """A list query, read and checked against what the kind's `Listing` admits.

    Attributes:
        filters: member -> values, of which one must match.
        special: query name -> values, for what only the kind's own operation understands.
        expands: the expand values that were asked.
    """

    limit: int = DEFAULT_LIMIT
    after: Position | None = None
    before: Position | None = None
    filters: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    searches: tuple[TextSearch, ...] = ()
    sort: str = "created_at"
    descending: bool = False
    expands: frozenset[str] = frozenset()
    special: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def total(self) -> bool:
        """Tell whether the number of all matches is asked."""
        return "total_count" in self.expands

    @property
    def is_plain(self) -> bool:
        """Tell whether the whole list is asked for, in the order in which entities were made."""
        return self.sort == "created_at" and not (self.filters or self.searches or self.special or self.total)


@dataclass(frozen=True, slots=True)
class Listed:
    """One page: entities, or the values that a list of pairs consists of.

    Attributes:
        paged: the entities whose positions the cursors stand for, when they are not the items themselves.
        edges: the positions of the first and the last item, when no entity has them.
    """

    items: list[Any]
    has_next: bool
    has_previous: bool
    total: int | None = None
    paged: tuple[Entity, ...] | None = None
    edges: tuple[Position, Position] | None = None

    def with_items(self, items: Sequence[Any]) -> "Listed":
        """The same page with more told about its items."""
        return replace(self, items=list(items))
