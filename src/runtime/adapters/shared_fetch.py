"""A cache of fetched documents with request coalescing: concurrent callers of one key share one fetch."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

from cachetools import TLRUCache

T = TypeVar("T")
K = TypeVar("K")
MAX_ENTRIES = 1000
MAX_OF_ONE = 200  # per zone: anybody may name any number of addresses there


@dataclass(frozen=True, slots=True)
class _Cached(Generic[K]):
    """A fetched value or a failure, with the times of the fetch and of its expiry."""

    value: K
    fetched_at: float
    expires_at: float


def _no_time(_failure: Exception) -> float:
    return 0


class SharedFetch(Generic[T]):
    """Fetched values by key, cached until they expire, with one fetch at a time for each key.

    Concurrent callers of one key await the same fetch, which goes on when any of them is cancelled. A failure
    is raised to all of them, and to later callers until it expires; a cached value takes precedence over it.

    Args:
        lifetime_seconds: lifetime of a value, unless `get` is given one for the value.
        failure_lifetime: lifetime of a failure in seconds; by default failures are not cached.
        max_entries: bound of the values, and of the failures; beyond it the largest partition loses its least
            recently used entry, so that a partition with many entries evicts none of one with few.
        max_of_one: bound of one partition.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        *,
        lifetime_seconds: float,
        failure_lifetime: Callable[[Exception], float] = _no_time,
        max_entries: int = MAX_ENTRIES,
        max_of_one: int = MAX_OF_ONE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lifetime = lifetime_seconds
        self._failure_lifetime = failure_lifetime
        self._clock = clock
        self._values: _Partitions[T] = _Partitions(max_entries, max_of_one, clock)
        self._failures: _Partitions[Exception] = _Partitions(max_entries, max_of_one, clock)
        self._running: dict[tuple[str, str], asyncio.Task[T]] = {}

    async def get(
        self,
        key: str,
        fetch: Callable[[], Awaitable[T]],
        *,
        partition: str = "",
        lifetime: Callable[[T], float] | None = None,
        newer_than_seconds: float | None = None,
    ) -> T:
        """The value of that key, cached or fetched now. Raises what *fetch* raises, or the cached failure.

        Args:
            partition: namespace of the key, with a bound of its own: a zone.
            lifetime: function of the fetched value that returns its lifetime in seconds.
            newer_than_seconds: fetch again when the cached value is older than this.
        """
        oldest = -inf if newer_than_seconds is None else self._clock() - newer_than_seconds
        cached = self._values.get(partition, key)
        if cached is not None and cached.fetched_at > oldest:
            return cached.value
        failed = self._failures.get(partition, key)
        if failed is not None and failed.fetched_at > oldest:
            raise failed.value.with_traceback(None)  # or each time it is raised would make it longer
        task = self._running.get((partition, key))
        if task is None:
            task = asyncio.ensure_future(self._fetch(partition, key, fetch, lifetime))
            self._running[partition, key] = task
            task.add_done_callback(lambda done: self._finished(partition, key, done))
        return await asyncio.shield(task)

    async def _fetch(
        self,
        partition: str,
        key: str,
        fetch: Callable[[], Awaitable[T]],
        lifetime: Callable[[T], float] | None,
    ) -> T:
        try:
            value = await fetch()
        except Exception as failure:
            if lasts := self._failure_lifetime(failure):
                now = self._clock()
                self._failures.set(partition, key, _Cached(failure, now, now + lasts))
            raise
        now = self._clock()
        self._failures.drop(partition, key)
        lasts = lifetime(value) if lifetime else self._lifetime
        self._values.set(partition, key, _Cached(value, now, now + lasts))
        return value

    def _finished(self, partition: str, key: str, task: "asyncio.Task[T]") -> None:
        self._running.pop((partition, key), None)
        if not task.cancelled() and (failure := task.exception()) is not None:
            # Seen, even when everyone who waited has hung up; and what is remembered holds on to nothing.
            failure.__cause__ = failure.__context__ = failure.__traceback__ = None


class _Partitions(Generic[K]):
    """An LRU cache in partitions whose entries expire; beyond the bound of all, the largest makes room."""

    def __init__(self, max_entries: int, max_of_one: int, clock: Callable[[], float]) -> None:
        self._max_entries = max_entries
        self._max_of_one = max_of_one
        self._clock = clock
        self._partitions: dict[str, TLRUCache[str, _Cached[K]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._partitions.values()))

    def get(self, partition: str, key: str) -> _Cached[K] | None:
        """The entry, which becomes the most recently used; None when there is none or it has expired."""
        entries = self._partitions.get(partition)
        return entries.get(key) if entries is not None else None

    def set(self, partition: str, key: str, entry: _Cached[K]) -> None:
        """Cache an entry in place of an earlier one."""
        if (entries := self._partitions.get(partition)) is None:
            entries = TLRUCache(self._max_of_one, ttu=_expires_at, timer=self._clock)
            self._partitions[partition] = entries
        entries[key] = entry
        self._partitions = {name: each for name, each in self._partitions.items() if each}
        if len(self) > self._max_entries:
            max(self._partitions.values(), key=len).popitem()

    def drop(self, partition: str, key: str) -> None:
        """Remove an entry."""
        if (entries := self._partitions.get(partition)) is not None:
            entries.pop(key, None)


def _expires_at(_key: str, entry: _Cached[K], _now: float) -> float:
    return entry.expires_at
