"""Caches whose entries carry tags, so that a change evicts the entries about what has changed and no others.

A tag is the id of an entity, or a name by which one is looked up. A management write says which tags it
changes (`domain.cache_tags`), and the zone's epoch numbers these changes. An entry has the tags of all that
it was made from, and the epoch as of which that was read: it counts for as long as none of its tags has
changed since. Whether one has is looked up once for each epoch, and no entry is searched for.

A fill that is late is harmless: the entry has the epoch from before its query, so it does not count once a
change that the query has missed is known. What changes of a zone are not known, nothing outlives: of a write
that does not name its tags, of one by an older release, and of those that are longer ago than the history.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar, overload

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.services.bounded_cache import BoundedCache
from runtime.storage.sql.database import Database

T = TypeVar("T")

_UNKNOWN = -1
MOST_TAGS = 5_000  # in each half of a zone's history

_collected: ContextVar[set[str] | None] = ContextVar("collected_tags", default=None)


class ChangeHistory:
    """The latest changes of a zone: tag -> the epoch of its last change.

    Attributes:
        epoch: the newest change that is known.
        complete_since: every change after that epoch is known.
    """

    __slots__ = ("_newer", "_newer_since", "_older", "complete_since", "epoch")

    def __init__(self, epoch: int) -> None:
        self.epoch = self.complete_since = self._newer_since = epoch
        self._newer: dict[str, int] = {}
        self._older: dict[str, int] = {}

    def add(self, epoch: int, tags: Collection[str]) -> None:
        """Take note of the next change. Of a change of everything, nothing is: that begins a new history."""
        if self._newer and len(self._newer) + len(tags) > MOST_TAGS:
            self._older, self._newer = self._newer, {}
            self.complete_since, self._newer_since = self._newer_since, self.epoch
        self._newer.update(dict.fromkeys(tags, epoch))
        self.epoch = epoch

    def changed_at(self, tags: Iterable[str]) -> int:
        """The epoch of the last change of any of these; `complete_since` where none is known."""
        latest = self.complete_since
        for tag in tags:
            epoch = self._newer.get(tag) or self._older.get(tag, 0)
            if epoch > latest:
                latest = epoch
        return latest


class Tagged(Generic[T]):
    """A value with what it was made from.

    Attributes:
        as_of: the epoch up to which nothing of that has changed.
        changed_at: the epoch of the last change of it that is known.
    """

    __slots__ = ("as_of", "changed_at", "tags", "value")

    def __init__(self, value: T, tags: frozenset[str], as_of: int) -> None:
        self.value, self.tags, self.as_of = value, tags, as_of
        self.changed_at = _UNKNOWN


class TaggedCache(BoundedCache[Any], Generic[T]):
    """A bounded cache of values that count until one of their tags changes."""

    __slots__ = ("_history",)

    def __init__(self, limit: int, history: ChangeHistory) -> None:
        super().__init__(limit)
        self._history = history

    def get(self, key: str) -> T | None:  # type: ignore[override]  # no default: no caller has one
        """The value; None when there is none, or not any more."""
        entry = self.entry(key)
        return None if entry is None else entry.value

    def entry(self, key: str) -> Tagged[T] | None:
        """The same with its tags, whose latest change is known."""
        found: Tagged[T] | None = BoundedCache.get(self, key)
        if found is None:
            return None
        history = self._history
        if found.as_of != history.epoch or found.changed_at == _UNKNOWN:
            changed_at = history.changed_at(found.tags)
            if changed_at > found.as_of:
                self._size.hits -= 1
                self._size.misses += 1
                return None
            # An entry of a process that is ahead stays ahead.
            found.as_of, found.changed_at = max(found.as_of, history.epoch), changed_at
        collected = _collected.get()
        if collected is not None:
            collected.update(found.tags)
        return found

    def keep(self, key: str, value: T, tags: Iterable[str], *, as_of: int) -> None:
        """Keep a value.

        Args:
            tags: of all that it was made from.
            as_of: the epoch before any of that was read.
        """
        entry = Tagged(value, frozenset(tags), as_of)
        collect(entry.tags)
        self[key] = entry


class ReadThroughCache(TaggedCache[T]):
    """A tagged cache over a query. What is missing is not remembered, so what is new is found at once."""

    __slots__ = ("_database",)

    def __init__(self, database: Database, limit: int, history: ChangeHistory) -> None:
        super().__init__(limit, history)
        self._database = database

    @overload
    async def read(
        self,
        key: str,
        query: Callable[[AsyncConnection], Awaitable[T]],
        tags: Callable[[T], Iterable[str]],
    ) -> T: ...

    @overload
    async def read(
        self,
        key: str,
        query: Callable[[AsyncConnection], Awaitable[T | None]],
        tags: Callable[[T], Iterable[str]],
    ) -> T | None: ...

    async def read(
        self,
        key: str,
        query: Callable[[AsyncConnection], Awaitable[T | None]],
        tags: Callable[[T], Iterable[str]],
    ) -> T | None:
        """The value of the key, from the cache or from the query; None when there is none.

        Args:
            query: depends on nothing but the key.
            tags: of what the query has found, and of what it was asked by.
        """
        if (cached := self.get(key)) is not None:
            return cached
        as_of = self._history.epoch
        async with self._database.querying() as conn:
            found = await query(conn)
        if found is not None:
            self.keep(key, found, tags(found), as_of=as_of)
        return found


@contextmanager
def collecting() -> Iterator[set[str]]:
    """The tags of all that the block looks up in tagged caches."""
    tags: set[str] = set()
    token = _collected.set(tags)
    try:
        yield tags
    finally:
        _collected.reset(token)
        collect(tags)


def collect(tags: Iterable[str]) -> None:
    """Count these among the tags of what is being made."""
    if (collected := _collected.get()) is not None:
        collected.update(tags)
