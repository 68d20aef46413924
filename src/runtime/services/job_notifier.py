"""Wakes the job runner of this process when a job has work."""

import asyncio
from collections.abc import Iterable


class JobNotifier:
    """The jobs of this process that were asked to run soon, until the runner takes them."""

    def __init__(self, names: Iterable[str]) -> None:
        """Args:
        names: of all jobs there are.
        """
        self._names = frozenset(names)
        self._notified: set[str] = set()
        self._wake = asyncio.Event()

    def notify(self, name: str) -> None:
        """Have a job run as soon as it is free; call it after the commit. Raises KeyError."""
        if name not in self._names:
            raise KeyError(name)
        self._notified.add(name)
        self._wake.set()

    def wake(self) -> None:
        """Have the runner look at its jobs again."""
        self._wake.set()

    def take(self) -> set[str]:
        """The jobs notified of since the last call."""
        notified, self._notified = self._notified, set()
        return notified

    def put_back(self, names: set[str]) -> None:
        """Keep what was taken for the next call: it could not be looked at."""
        self._notified |= names

    async def wait(self, seconds: float) -> None:
        """Wait until there is something to look at, so long at most."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()
