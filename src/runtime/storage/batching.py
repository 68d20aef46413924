"""Batches concurrent requests: what is asked while two batches are under way is sent in one round trip.

A round trip costs the same whether it carries one question or thirty; a busy worker has that many at once. An
idle one asks at once: a question waits only where two batches are under way already.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Generic, TypeVar

from runtime.domain.errors import Unavailable

AT_ONCE = 2
MOST = 128  # questions of one batch: those of others are not to wait for a long one
SLOW_SECONDS = 0.5  # whoever waits for a batch that takes longer waits alone
Q = TypeVar("Q")
A = TypeVar("A")


class RequestBatcher(Generic[Q, A]):
    """Collects questions until the event loop turns and a batch may begin, then asks them together."""

    def __init__(self, ask: Callable[[Sequence[Q]], Awaitable[Sequence[A]]]) -> None:
        """Args:
        ask: answers questions in their order, or raises Unavailable, which then every caller hears.
        """
        self._ask = ask
        self._waiting: list[tuple[Q, asyncio.Future[A]]] = []
        self._sendings: set[asyncio.Task[None]] = set()
        self._awaited: dict[asyncio.Task[None], asyncio.TimerHandle] = {}  # those that are not slow

    async def answer(self, question: Q) -> A:
        """The answer to one question, which is asked no earlier than now."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[A] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._start)
        self._waiting.append((question, future))
        return await future

    def _start(self) -> None:
        loop = asyncio.get_running_loop()
        # Nothing is asked for who has given up: it may be something that counts once.
        self._waiting = [each for each in self._waiting if not each[1].done()]
        while self._waiting and len(self._awaited) < AT_ONCE:
            gathered, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            sending = loop.create_task(self._send(gathered), context=Context())  # of no request
            self._sendings.add(sending)
            self._awaited[sending] = loop.call_later(SLOW_SECONDS, self._give_way, sending)
            sending.add_done_callback(self._ended, context=Context())

    def _give_way(self, sending: "asyncio.Task[None]") -> None:
        """Let others go on without a batch that may never end, as on a connection that was lost unseen."""
        self._awaited.pop(sending).cancel()
        self._start()

    def _ended(self, sending: "asyncio.Task[None]") -> None:
        self._sendings.discard(sending)
        if sending in self._awaited:
            self._give_way(sending)

    async def _send(self, gathered: list[tuple[Q, "asyncio.Future[A]"]]) -> None:
        try:
            answers = await self._ask([question for question, _ in gathered])
            answered = list(zip(gathered, answers, strict=True))
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
        for (_, future), answer in answered:
            if not future.done():
                future.set_result(answer)
