"""A TCP port in front of several servers that are one service: each connection reaches the next of them."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import cycle
from urllib.parse import urlsplit

from tests.support.waiting import let_elapse

_LOOK_SECONDS = 0.25
_READY_SECONDS = 4.0
_REQUEST = b"GET /readyz HTTP/1.1\r\nHost: balancer\r\nConnection: close\r\n\r\n"


class Balancer:
    """Passes bytes on between each client and the server whose turn it is.

    Servers that end a connection with each answer take turns by request. One that refuses the connection
    loses its turn to the next.
    """

    def __init__(self) -> None:
        self._ports: list[int] = []
        self._watching: list[asyncio.Task[None]] = []
        self._loop = asyncio.new_event_loop()
        self._connections: set[asyncio.Task[None]] = set()
        threading.Thread(target=self._loop.run_forever, name="balancer", daemon=True).start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._accepted, "127.0.0.1", 0), self._loop
        ).result(10)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def lead_to(self, *urls: str) -> None:
        """From now on these servers take turns."""
        self._ports = [urlsplit(url).port or 80 for url in urls]
        self._turns = cycle(self._ports)

    def watch(self) -> None:
        """From now on a server has its turn only while `/readyz` answers 200; all have it when none does."""

        async def begin() -> None:
            self._ready = dict.fromkeys(self._ports, True)
            self._watching = [self._loop.create_task(self._look_at(port)) for port in self._ports]

        asyncio.run_coroutine_threadsafe(begin(), self._loop).result(10)

    async def _look_at(self, port: int) -> None:
        while True:
            self._ready[port] = await _is_ready(port)
            self._turns = cycle([each for each, is_ready in self._ready.items() if is_ready] or self._ports)
            await let_elapse(_LOOK_SECONDS)

    def close(self) -> None:
        """End everything."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _end(self) -> None:
        self._server.close()
        for each in [*self._connections, *self._watching]:
            each.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the next server that takes one. Raises OSError when none does."""
        for _ in self._ports[1:]:
            with suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", next(self._turns))
        return await asyncio.open_connection("127.0.0.1", next(self._turns))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            answers, requests = await self._connect()
            asking = asyncio.create_task(_pass_on(reader, requests))
            try:
                await _pass_on(answers, writer)
            finally:
                asking.cancel()
                requests.transport.abort()
        writer.close()


async def _is_ready(port: int) -> bool:
    """Whether a server says that it is."""
    try:
        async with asyncio.timeout(_READY_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(_REQUEST)
            status = await reader.readline()
            writer.transport.abort()
    except (OSError, TimeoutError):
        return False
    return status.split()[1:2] == [b"200"]


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()


@contextmanager
def balancing() -> Iterator[Balancer]:
    """A balancer that leads nowhere yet, until the block ends."""
    made = Balancer()
    try:
        yield made
    finally:
        made.close()
