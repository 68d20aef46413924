"""Requests whose senders hang up, on a server of one route."""

import asyncio
import socket

import pytest
from sanic import Sanic
from sanic.config import Config
from sanic.response import empty
from tests.support.waiting import until

from runtime.api.shared import connections
from runtime.api.shared.connections import PromptProtocol


@pytest.mark.parametrize(("most", "comes_to"), [(1, "finished"), (0, "cancelled")])
async def test_so_many_and_no_more_are_answered_to_their_end(
    monkeypatch: pytest.MonkeyPatch, most: int, comes_to: str
) -> None:
    """Hanging up is no way to have a process work on any number of requests at once."""
    monkeypatch.setattr(connections, "MOST_ABANDONED", most)
    app = Sanic(f"abandoned_{most}", config=Config(env_prefix=None), configure_logging=False)
    app.config.TOUCHUP = False  # it writes the protocol's methods anew, for all applications
    began, may_end, seen = asyncio.Event(), asyncio.Event(), list[str]()

    @app.get("/")
    async def slow(_request: object) -> object:
        began.set()
        try:
            await may_end.wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        seen.append("finished")
        return empty()

    bound = socket.create_server(("127.0.0.1", 0))
    server = await app.create_server(
        sock=bound, protocol=PromptProtocol, access_log=False, asyncio_server_kwargs={"start_serving": False}
    )
    await server.startup()
    await server.before_start()
    await server.start_serving()
    _, writer = await asyncio.open_connection(*bound.getsockname())
    writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
    await began.wait()

    writer.transport.abort()

    async def is_told() -> bool:
        return bool(PromptProtocol.abandoned or seen)

    async def is_over() -> bool:
        return bool(seen) and not PromptProtocol.abandoned

    await until(is_told)
    may_end.set()
    await until(is_over)
    assert seen == [comes_to]
    await server.close()
