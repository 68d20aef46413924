"""A cache of fetched documents with request coalescing: concurrent callers of one key share one fetch."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K")
MAX_ENTRIES = 1000
MAX_OF_ONE = 200  # of a zone, in which strangers may name as many addresses as they like


@dataclass(frozen=True, slots=True)
class _Kept(Generic[T]):
    """A value, or a failure, with when it was had and until when it counts."""

    value: T
    made_at: float
    until: float


def _no_time(_failure: Exception) -> float:
    return 0


class SharedFetch(Generic[T]):
    """Keyed values that are expensive to get.

    Callers who want the same key at the same time wait for one fetch. It belongs to none of them: when the
    first hangs up, the others still get their answer. A failure goes to whoever waited, and while it counts
    to those who come later; a value that is remembered goes before it.

    Args:
        lifetime_seconds: how long a value counts, unless `get` says otherwise for the value.
        failure_lifetime: seconds that a failure counts, from the failure; none unless told.
        max_entries: of values, and of failures: beyond it the least recently used of the partition with the
            most is forgotten, so that nobody's many displace another's few.
        max_of_one: of one partition.
        clock: seconds, never going back.
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
        self._kept: _Partitions[_Kept[T]] = _Partitions(max_entries, max_of_one)
        self._failed: _Partitions[_Kept[Exception]] = _Partitions(max_entries, max_of_one)
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
        """The value of that key, remembered or fetched now. Raises what *fetch* raises, or has just raised.

        Args:
            partition: whose value it is; another has its own of that key.
            lifetime: seconds that a fetched value counts, from the value.
            newer_than_seconds: fetch again when what is remembered is older than this.
        """
        kept = self._kept.get(partition, key)
        if kept is not None and self._counts(kept, newer_than_seconds):
            return kept.value
        failed = self._failed.get(partition, key)
        if failed is not None and self._counts(failed, newer_than_seconds):
            raise failed.value.with_traceback(None)  # or each time it is raised would make it longer
        task = self._running.get((partition, key))
        if task is None:
            task = asyncio.ensure_future(self._fetch(partition, key, fetch, lifetime))
            self._running[partition, key] = task
            task.add_done_callback(lambda done: self._finished(partition, key, done))
        return await asyncio.shield(task)

    def _counts(self, kept: _Kept[Any], newer_than_seconds: float | None) -> bool:
        now = self._clock()
        return now < kept.until and (newer_than_seconds is None or now - kept.made_at < newer_than_seconds)

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
                self._failed.put(partition, key, _Kept(failure, now, now + lasts))
            raise
        now = self._clock()
        self._failed.drop(partition, key)
        lasts = lifetime(value) if lifetime else self._lifetime
        self._kept.put(partition, key, _Kept(value, now, now + lasts))
        return value

    def _finished(self, partition: str, key: str, task: "asyncio.Task[T]") -> None:
        self._running.pop((partition, key), None)
        if not task.cancelled() and (failure := task.exception()) is not None:
            # Seen, even when everyone who waited has hung up; and what is remembered holds on to nothing.
            failure.__cause__ = failure.__context__ = failure.__traceback__ = None


class _Partitions(Generic[K]):
    """Entries in partitions, of which the least recently used goes: of a full one, or else of the largest."""

    def __init__(self, max_entries: int, max_of_one: int) -> None:
        self._max_entries = max_entries
        self._max_of_one = max_of_one
        self._partitions: dict[str, OrderedDict[str, K]] = {}
        self._held = 0

    def __len__(self) -> int:
        return self._held

    def get(self, partition: str, key: str) -> K | None:
        """The entry, which is young again."""
        entries = self._partitions.get(partition)
        if entries is None or key not in entries:
            return None
        entries.move_to_end(key)
        return entries[key]

    def put(self, partition: str, key: str, entry: K) -> None:
        """Hold an entry in place of what is there."""
        self.drop(partition, key)
        entries = self._partitions.setdefault(partition, OrderedDict())
        entries[key] = entry
        self._held += 1
        if len(entries) > self._max_of_one:
            self.drop(partition, next(iter(entries)))
        elif self._held > self._max_entries:
            largest, most = max(self._partitions.items(), key=lambda item: len(item[1]))
            self.drop(largest, next(iter(most)))

    def drop(self, partition: str, key: str) -> None:
        """Let go of an entry."""
        entries = self._partitions.get(partition)
        if entries is not None and entries.pop(key, None) is not None:
            self._held -= 1
            if not entries:
                del self._partitions[partition]
