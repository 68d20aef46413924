"""Measures every two seconds what does not happen but is: connections, queues, caches.

It also lets the other workers of the node know this one's numbers: see `runtime.metrics`.
"""

import asyncio
from contextlib import suppress
from importlib.metadata import version
from time import monotonic

from sqlalchemy.exc import DBAPIError

from runtime import metrics
from runtime.domain.errors import Unavailable
from runtime.logs import throttled_warnings
from runtime.services import cache_sizes
from runtime.services.cache_sizes import CacheSize
from runtime.services.container import Services
from runtime.storage.sql import outbox

EVERY_SECONDS = 2.0
_OUTBOX_EVERY_SECONDS = 15.0


class Measuring:
    """The measurements of this process, and the loop that takes them."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._loop: asyncio.Task[None] | None = None
        self._counted: dict[tuple[str, str], int] = {}
        self._outbox_due = 0.0
        metrics.note_start()
        metrics.BUILD.labels(version("zonewright")).set(1)

    def start(self) -> None:
        """Measure from now on, in the background."""
        self._loop = asyncio.create_task(self._run(), name="measuring")

    async def stop(self) -> None:
        """Measure once more, and end."""
        if self._loop is not None:
            self._loop.cancel()
            with suppress(asyncio.CancelledError):
                await self._loop
            self._loop = None
        self.measure()

    def measure(self) -> None:
        """Measure now what needs no question to anybody, and let the other workers know."""
        services = self._services
        services.database.measure()
        services.state.measure()
        metrics.QUEUED.labels("decisions").set(services.decisions.queued)
        metrics.UPSTREAM_CIRCUITS.set(services.upstream_oauth.open_circuits)
        for size in cache_sizes.ALL:
            metrics.CACHE_ENTRIES.labels(size.name).set(size.entries)
            self._count(size, "hit", size.hits)
            self._count(size, "miss", size.misses)
        try:
            metrics.write_values()
        except OSError as failure:
            throttled_warnings.warn("metrics not written for the other workers", reason=str(failure))

    def _count(self, size: CacheSize, result: str, now: int) -> None:
        """Add to a counter what a cache has counted since the last time."""
        before = self._counted.get((size.name, result), 0)
        self._counted[size.name, result] = now
        # A hit that turned out to be out of date is taken back: that may come after it was counted.
        metrics.CACHE_LOOKUPS.labels(size.name, result).inc(max(0, now - before))

    async def _run(self) -> None:
        while True:
            self.measure()
            began_at = monotonic()
            if began_at >= self._outbox_due:
                self._outbox_due = began_at + _OUTBOX_EVERY_SECONDS
                with suppress(DBAPIError, OSError, Unavailable):  # which other metrics tell
                    await self._measure_outbox()
            slept_from = monotonic()
            await asyncio.sleep(EVERY_SECONDS)
            metrics.LOOP_LAG.observe(max(0.0, monotonic() - slept_from - EVERY_SECONDS))

    async def _measure_outbox(self) -> None:
        async with self._services.database.querying() as conn:
            waiting, dead, oldest = await outbox.backlog(conn)
        metrics.OUTBOX.labels("waiting").set(waiting)
        metrics.OUTBOX.labels("dead").set(dead)
        age = (self._services.clock() - oldest).total_seconds() if oldest else 0.0
        metrics.OUTBOX_OLDEST.set(max(0.0, age))
