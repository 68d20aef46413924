"""Turns of outbound requests and of their name look-ups: so many of a partition, of a tenant, and of all.

A partition is what one zone asks for one purpose; a tenant may have many.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from weakref import WeakValueDictionary

# Lookups of names, each in a thread: few of a partition, for its servers may keep them.
LOOKUPS_OF_A_PARTITION, LOOKUPS_OF_A_TENANT, MOST_LOOKUPS = 8, 16, 128

# Host and port -> addresses; it may block, for as long as it likes. Raises OSError, UnicodeError.
Resolve = Callable[[str, int], Sequence[str]]


def system_addresses(host: str, port: int) -> Sequence[str]:
    """Every address the system's resolver gives for a host. Raises OSError, UnicodeError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for _, _, _, _, address in found]


@dataclass(slots=True)
class Requester:
    """Whose a request is.

    Attributes:
        has_waited: for requests of others, which may be why it is late.
    """

    partition: str
    tenant: str
    has_waited: bool = False


REQUESTER: ContextVar[Requester] = ContextVar("requester")  # of the request that a connection is made for


class OutboundTurns:
    """So many at a time of a partition, of a tenant, and of all of them."""

    def __init__(self, of_a_partition: int, of_a_tenant: int, of_all: int) -> None:
        self._of_a_partition = of_a_partition
        self._of_a_tenant = of_a_tenant
        self._all = asyncio.Semaphore(of_all)
        # Of those who have a turn, or want one: they hold it.
        self._of: WeakValueDictionary[tuple[str, str], asyncio.Semaphore] = WeakValueDictionary()

    async def take(self, requester: Requester, until: ExitStack) -> None:
        """Have a turn until the stack is left."""
        of_partition = self._one("partition", requester.partition, self._of_a_partition)
        of_tenant = self._one("tenant", requester.tenant, self._of_a_tenant)
        # The widest last: who waits for it has nothing that another tenant could have.
        for turns in (of_partition, of_tenant, self._all):
            requester.has_waited |= turns.locked()
            await turns.acquire()
            until.callback(turns.release)

    def _one(self, of: str, name: str, most: int) -> asyncio.Semaphore:
        if (found := self._of.get((of, name))) is None:
            found = self._of[of, name] = asyncio.Semaphore(most)
        return found


class Lookups:
    """Looks names up, in threads for nothing else.

    The system's resolver keeps a thread for as long as the servers of a name like, whoever has given up
    meanwhile. So a turn ends with the lookup, and nobody can have more threads than turns.
    """

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._threads = ThreadPoolExecutor(MOST_LOOKUPS, thread_name_prefix="lookups")
        self._turns = OutboundTurns(LOOKUPS_OF_A_PARTITION, LOOKUPS_OF_A_TENANT, MOST_LOOKUPS)

    async def addresses(self, host: str, port: int) -> Sequence[str]:
        """What the resolver gives, for the present request."""
        loop = asyncio.get_running_loop()
        with ExitStack() as turn:
            await self._turns.take(REQUESTER.get(), turn)
            lookup = self._threads.submit(self._resolve, host, port)
            lookup.add_done_callback(partial(_give_back, loop, turn.pop_all()))
        return await asyncio.wrap_future(lookup)

    def close(self) -> None:
        """Look up nothing any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _give_back(loop: asyncio.AbstractEventLoop, turn: ExitStack, _lookup: object) -> None:
    with suppress(RuntimeError):  # the loop has been closed meanwhile
        loop.call_soon_threadsafe(turn.close)
