"""Bulkheads: how many requests may be under way to one provider, and to all providers of one zone.

How many of a tenant with all its zones, and of all tenants, `runtime.adapters.outbound` has: there they share
the connections.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

MOST_OF_A_PROVIDER = 10
MOST_OF_A_ZONE = 30  # fewer than its tenant has: some are left for its other zones
MOST_WAITING_OF_A_PROVIDER = 200


class ProviderBusy(Exception):
    """No request to the provider may begin now: too many are under way, or wait."""


@dataclass(slots=True)
class _Slots:
    semaphore: asyncio.Semaphore
    users: int = 0


class ConcurrencyLimit:
    """Limits the requests under way for a key; nothing is kept of a key that nobody uses.

    Args:
        most: requests under way at a time.
        most_users: those under way and those that wait.
    """

    def __init__(self, most: int, most_users: int) -> None:
        self._most = most
        self._most_users = most_users
        self._slots: dict[str, _Slots] = {}

    def __len__(self) -> int:
        return len(self._slots)

    @asynccontextmanager
    async def slot(self, key: str, *, until: float) -> AsyncIterator[None]:
        """Wait for a turn, and have it inside. Raises ProviderBusy.

        Args:
            until: when to give up, by the event loop's clock.
        """
        slots = self._slots.setdefault(key, _Slots(asyncio.Semaphore(self._most)))
        if slots.users >= self._most_users:
            raise ProviderBusy
        slots.users += 1
        try:
            try:
                async with asyncio.timeout_at(until):
                    await slots.semaphore.acquire()
            except TimeoutError:
                raise ProviderBusy from None
            try:
                yield
            finally:
                slots.semaphore.release()
        finally:
            slots.users -= 1
            if not slots.users:
                self._slots.pop(key, None)


class ProviderConcurrency:
    """The limits of one process: of each provider, and of each zone over all its providers."""

    def __init__(self, *, wait_seconds: float) -> None:
        self._wait_seconds = wait_seconds
        waiting = MOST_OF_A_PROVIDER + MOST_WAITING_OF_A_PROVIDER
        self._providers = ConcurrencyLimit(MOST_OF_A_PROVIDER, waiting)
        self._zones = ConcurrencyLimit(MOST_OF_A_ZONE, MOST_OF_A_ZONE + 10 * MOST_OF_A_PROVIDER)

    @asynccontextmanager
    async def slot(self, zone_id: str, provider_id: str) -> AsyncIterator[float]:
        """Wait for a turn, and have it inside. Raises ProviderBusy.

        Yields when whatever else has to be waited for is to be given up, by the event loop's clock.
        """
        until = asyncio.get_running_loop().time() + self._wait_seconds
        # The provider first: who waits for a slow one holds none of what the zone's other providers need.
        async with (
            self._providers.slot(f"{zone_id} {provider_id}", until=until),
            self._zones.slot(zone_id, until=until),
        ):
            yield until
