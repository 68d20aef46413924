"""Documents fetched once for everyone who wants them, and remembered for a while."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K")


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
        max_entries: of values, and of failures: beyond it the least recently used is forgotten.
        clock: seconds, never going back.
    """

    def __init__(
        self,
        *,
        lifetime_seconds: float,
        failure_lifetime: Callable[[Exception], float] = _no_time,
        max_entries: int = 1000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lifetime = lifetime_seconds
        self._failure_lifetime = failure_lifetime
        self._max_entries = max_entries
        self._clock = clock
        self._kept: OrderedDict[str, _Kept[T]] = OrderedDict()
        self._failed: OrderedDict[str, _Kept[Exception]] = OrderedDict()
        self._running: dict[str, asyncio.Task[T]] = {}

    async def get(
        self,
        key: str,
        fetch: Callable[[], Awaitable[T]],
        *,
        lifetime: Callable[[T], float] | None = None,
        newer_than_seconds: float | None = None,
    ) -> T:
        """The value of that key, remembered or fetched now. Raises what *fetch* raises, or has just raised.

        Args:
            lifetime: seconds that a fetched value counts, from the value.
            newer_than_seconds: fetch again when what is remembered is older than this.
        """
        kept = self._kept.get(key)
        if kept is not None and self._counts(kept, newer_than_seconds):
            self._kept.move_to_end(key)
            return kept.value
        failed = self._failed.get(key)
        if failed is not None and self._counts(failed, newer_than_seconds):
            raise failed.value.with_traceback(None)  # or each time it is raised would make it longer
        task = self._running.get(key)
        if task is None:
            task = asyncio.ensure_future(self._fetch(key, fetch, lifetime))
            self._running[key] = task
            task.add_done_callback(lambda done: self._finished(key, done))
        return await asyncio.shield(task)

    def _counts(self, kept: _Kept[Any], newer_than_seconds: float | None) -> bool:
        now = self._clock()
        return now < kept.until and (newer_than_seconds is None or now - kept.made_at < newer_than_seconds)

    async def _fetch(
        self, key: str, fetch: Callable[[], Awaitable[T]], lifetime: Callable[[T], float] | None
    ) -> T:
        try:
            value = await fetch()
        except Exception as failure:
            if lasts := self._failure_lifetime(failure):
                now = self._clock()
                self._keep(self._failed, key, _Kept(failure, now, now + lasts))
            raise
        now = self._clock()
        self._failed.pop(key, None)
        lasts = lifetime(value) if lifetime else self._lifetime
        self._keep(self._kept, key, _Kept(value, now, now + lasts))
        return value

    def _keep(self, where: OrderedDict[str, _Kept[K]], key: str, kept: _Kept[K]) -> None:
        where[key] = kept
        where.move_to_end(key)
        if len(where) > self._max_entries:
            where.popitem(last=False)

    def _finished(self, key: str, task: "asyncio.Task[T]") -> None:
        self._running.pop(key, None)
        if not task.cancelled() and (failure := task.exception()) is not None:
            # Seen, even when everyone who waited has hung up; and what is remembered holds on to nothing.
            failure.__cause__ = failure.__context__ = failure.__traceback__ = None
