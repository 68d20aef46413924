"""A TCP port in front of a server of this test session, which a test can cut, hold up, or lead elsewhere."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Proxy:
    """Passes bytes on in both directions, as long as nothing else is said.

    Attributes:
        port: on 127.0.0.1.
    """

    def __init__(self, target: str) -> None:
        """Args:
        target: `unix:///path/of/a.sock`.
        """
        self._target = urlsplit(target).path
        self._is_cut = False
        self._flows: asyncio.Event
        self._connections: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self.port: int = self._run(self._listen)

    @property
    def redis_url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """End every connection, and each new one at once: nothing can be reached through here."""

        async def work() -> None:
            self._is_cut = True
            await self._end_all()

        self._run(work)

    def hold_up(self) -> None:
        """Take everything, and pass nothing on: whoever asks hears nothing."""

        async def work() -> None:
            self._flows.clear()

        self._run(work)

    def lead_to(self, target: str) -> None:
        """End every connection; new ones reach that server, whatever was the matter before."""

        async def work() -> None:
            self._target, self._is_cut = urlsplit(target).path, False
            await self._end_all()
            self._flows.set()

        self._run(work)

    def close(self) -> None:
        """End everything."""

        async def work() -> None:
            self._server.close()
            await self._end_all()

        self._run(work)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        return asyncio.run_coroutine_threadsafe(work(), self._loop).result(10)

    async def _listen(self) -> int:
        self._flows = asyncio.Event()
        self._flows.set()
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _end_all(self) -> None:
        connections = list(self._connections)
        for each in connections:
            each.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._serve((reader, writer)))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, client: _Streams) -> None:
        try:
            if self._is_cut:
                return
            server = await asyncio.open_unix_connection(self._target)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pass_on(client[0], server[1]))
                    both.create_task(self._pass_on(server[0], client[1]))
            finally:
                server[1].transport.abort()
        except (OSError, BaseExceptionGroup):
            pass
        finally:
            client[1].transport.abort()

    async def _pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            await self._flows.wait()
            sink.write(data)
            await sink.drain()
        raise ConnectionResetError  # one side has hung up: so does the other


@contextmanager
def proxied(target: str) -> Iterator[Proxy]:
    """A proxy in front of a server at a Unix socket, until the block ends."""
    proxy = Proxy(target)
    try:
        yield proxy
    finally:
        with suppress(RuntimeError):
            proxy.close()
