"""Streamed responses with a time limit: a reader that is too slow is disconnected.

A server's time limits are about silence, and one byte that is read now and then is none.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from sanic import Request
from sanic.exceptions import RequestCancelled

# Time that may be spent waiting for a reader; what has been sent gives time back, never more than that.
MAX_LAG_SECONDS = 60.0
BYTES_A_SECOND = 512 * 1024


@dataclass
class TimedResponse:
    """An answer whose parts have to be read in time: else the connection is cut.

    What is sent stands in buffers first, so that a part waits for those before it.
    """

    request: Request
    stream: Any  # Sanic's own, from `respond`
    _left: float = field(default_factory=lambda: MAX_LAG_SECONDS)

    async def send(self, part: bytes) -> None:
        """Send a part. Raises RequestCancelled."""
        await self._in_time(self.stream.send(part), len(part))

    async def end(self) -> None:
        """Send the end. Raises RequestCancelled."""
        await self._in_time(self.stream.eof(), 0)

    async def _in_time(self, sending: Coroutine[Any, Any, None], size: int) -> None:
        began = monotonic()
        try:
            async with asyncio.timeout(self._left):
                await sending
        except TimeoutError:
            transport: Any = self.request.transport
            transport.abort()  # closing it politely would wait for what nobody reads
            raise RequestCancelled from None
        left = self._left - (monotonic() - began) + size / BYTES_A_SECOND
        self._left = min(left, MAX_LAG_SECONDS)
