"""Batches concurrent requests: what is asked while two batches are under way is sent in one round trip.

A round trip costs the same whether it carries one question or thirty; a busy worker has that many at once.
One that is idle asks at once: a question waits only where two trips are under way already. There are two, so
that one that gets no answer does not hold up the rest.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from runtime.domain.errors import Unavailable

AT_ONCE = 2
Q = TypeVar("Q")
A = TypeVar("A")


class RequestBatcher(Generic[Q, A]):
    """Collects questions until the event loop turns and a trip is free, then asks them together."""

    def __init__(self, ask: Callable[[Sequence[Q]], Awaitable[Sequence[A]]]) -> None:
        """Args:
        ask: answers questions in their order, or raises Unavailable, which then every caller hears. It has to
            end in bounded time, for others wait for it.
        """
        self._ask = ask
        self._waiting: list[tuple[Q, asyncio.Future[A]]] = []
        self._sendings: set[asyncio.Task[None]] = set()

    async def answer(self, question: Q) -> A:
        """The answer to one question, which is asked no earlier than now."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[A] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._start)
        self._waiting.append((question, future))
        return await future

    def _start(self) -> None:
        if not self._waiting or len(self._sendings) == AT_ONCE:
            return
        gathered, self._waiting = self._waiting, []
        sending = asyncio.get_running_loop().create_task(self._travel(gathered))
        self._sendings.add(sending)
        sending.add_done_callback(self._ended)

    def _ended(self, sending: "asyncio.Task[None]") -> None:
        self._sendings.discard(sending)
        self._start()

    async def _travel(self, gathered: list[tuple[Q, "asyncio.Future[A]"]]) -> None:
        try:
            answers = await self._ask([question for question, _ in gathered])
        except Unavailable as failure:
            for _, future in gathered:
                if not future.done():
                    future.set_exception(Unavailable(failure.detail, internal=failure.internal))
            return
        except BaseException as failure:
            for _, future in gathered:
                if not future.done():
                    future.set_exception(Unavailable("the batch failed", internal=repr(failure)))
            raise
        for (_, future), answer in zip(gathered, answers, strict=True):
            if not future.done():
                future.set_result(answer)
