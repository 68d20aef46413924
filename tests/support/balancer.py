"""A TCP port in front of several servers that are one service: each connection reaches the next of them."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import cycle
from urllib.parse import urlsplit


class Balancer:
    """Passes bytes on between each client and the server whose turn it is.

    Servers that end a connection with each answer take turns by request.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._connections: set[asyncio.Task[None]] = set()
        threading.Thread(target=self._loop.run_forever, name="balancer", daemon=True).start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._accepted, "127.0.0.1", 0), self._loop
        ).result(10)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def lead_to(self, *urls: str) -> None:
        """From now on these servers take turns."""
        self._turns = cycle(urlsplit(url).port for url in urls)

    def close(self) -> None:
        """End everything."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _end(self) -> None:
        self._server.close()
        for each in list(self._connections):
            each.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            answers, requests = await asyncio.open_connection("127.0.0.1", next(self._turns))
            asking = asyncio.create_task(_pass_on(reader, requests))
            try:
                await _pass_on(answers, writer)
            finally:
                asking.cancel()
                requests.transport.abort()
        writer.close()


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
