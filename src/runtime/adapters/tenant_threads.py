"""Threads for work that takes long, in which tenants take turns."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakValueDictionary

_T = TypeVar("_T")


class TooManyWaiting(Exception):
    """More of a tenant's work waits than can be done soon."""


class _Queue:
    """The work of one tenant that is under way, or waits."""

    def __init__(self, threads: int) -> None:
        self.length = 0
        self.free = asyncio.Semaphore(threads)


class TenantThreads:
    """Each tenant has as much in the queue of the threads as there are threads.

    So nobody waits behind all that somebody else is flooded with, or behind all that is expensive of theirs.

    Args:
        workers: threads.
        name: what the threads' names begin with.
        max_waiting: pieces of a tenant's work under way, waiting ones included, before TooManyWaiting.
    """

    def __init__(self, workers: int, *, name: str, max_waiting: int) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix=name)
        self._workers = workers
        self._max_waiting = max_waiting
        self._queues: WeakValueDictionary[str, _Queue] = WeakValueDictionary()  # that are not empty

    async def run(self, tenant: str, work: Callable[[], _T]) -> _T:
        """What the work returns, or raises. Raises TooManyWaiting."""
        queue = self._queues.get(tenant)
        if queue is None:
            queue = self._queues[tenant] = _Queue(self._workers)
        if queue.length >= self._max_waiting:
            raise TooManyWaiting
        queue.length += 1
        try:
            async with queue.free:
                return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            queue.length -= 1

    def close(self) -> None:
        """Stop the threads; what is under way finishes."""
        self._pool.shutdown(wait=False, cancel_futures=True)
