"""Documents fetched once for everyone who wants them, and remembered for a while."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Kept(Generic[T]):
    value: T
    made_at: float
    until: float


class SharedFetch(Generic[T]):
    """Keyed values that are expensive to get.

    Callers who want the same key at the same time wait for one fetch. It belongs to none of them: when the
    first hangs up, the others still get their answer. Failures go to whoever waited, and are not
    remembered.

    Args:
        lifetime_seconds: how long a value counts, unless `get` says otherwise for the value.
        max_entries: beyond it the least recently used is forgotten.
        clock: seconds, never going back.
    """

    def __init__(
        self,
        *,
        lifetime_seconds: float,
        max_entries: int = 1000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lifetime = lifetime_seconds
        self._max_entries = max_entries
        self._clock = clock
        self._kept: OrderedDict[str, _Kept[T]] = OrderedDict()
        self._running: dict[str, asyncio.Task[T]] = {}

    async def get(
        self,
        key: str,
        fetch: Callable[[], Awaitable[T]],
        *,
        lifetime: Callable[[T], float] | None = None,
        newer_than_seconds: float | None = None,
    ) -> T:
        """The value of that key, remembered or fetched now. Raises what *fetch* raises.

        Args:
            lifetime: seconds that a fetched value counts, from the value.
            newer_than_seconds: fetch again when the remembered value is older than this.
        """
        kept = self._kept.get(key)
        if kept is not None and self._counts(kept, newer_than_seconds):
            self._kept.move_to_end(key)
            return kept.value
        task = self._running.get(key)
        if task is None:
            task = asyncio.ensure_future(self._fetch(key, fetch, lifetime))
            self._running[key] = task
            task.add_done_callback(lambda done: self._finished(key, done))
        return await asyncio.shield(task)

    def forget(self, key: str) -> None:
        """Drop a remembered value."""
        self._kept.pop(key, None)

    def _counts(self, kept: _Kept[T], newer_than_seconds: float | None) -> bool:
        now = self._clock()
        return now < kept.until and (newer_than_seconds is None or now - kept.made_at < newer_than_seconds)

    async def _fetch(
        self, key: str, fetch: Callable[[], Awaitable[T]], lifetime: Callable[[T], float] | None
    ) -> T:
        value = await fetch()
        now = self._clock()
        self._kept[key] = _Kept(value, now, now + (lifetime(value) if lifetime else self._lifetime))
        self._kept.move_to_end(key)
        if len(self._kept) > self._max_entries:
            self._kept.popitem(last=False)
        return value

    def _finished(self, key: str, task: "asyncio.Task[T]") -> None:
        self._running.pop(key, None)
        if not task.cancelled():
            task.exception()  # seen, even when everyone who waited has hung up
