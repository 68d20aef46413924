"""`zoned serve` is asked to stop under load: it answers what has come, writes what is recorded, and ends."""

import asyncio
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from acme import Server, written_secret
from sqlalchemy import func, select
from tests.end_to_end.shop import SHOP

from runtime.storage.sql.database import Database
from runtime.storage.sql.tables import token_events

CONFIG = {
    "zonectl.yaml": "owner: shop/identity\n",
    "shop.yaml": SHOP,
}


@pytest.fixture(params=[1, 2], ids=["one worker", "two workers"])
def server(
    request: pytest.FixtureRequest,
    make_server: Callable[..., Server],
    tmp_path: Path,
    postgres_url: str,
    redis_url: str,
) -> Server:
    """A server with one zone and a job that may call an API there."""
    made = make_server(
        ZONED_WORKERS=str(request.param), ZONED_DATABASE_URL=postgres_url, ZONED_REDIS_URL=redis_url
    )
    made.start()
    (tmp_path / "config").mkdir()
    for name, text in CONFIG.items():
        (tmp_path / "config" / name).write_text(text)
    made.zonectl("apply", str(tmp_path / "config"), "--yes", "--secrets-dir", str(tmp_path / "secrets"))
    return made


class Job(threading.Thread):
    """Asks for tokens on one connection after the other that it keeps alive, until nobody answers any more.

    Attributes:
        got: the status of each answer.
        cut_off: what went wrong on connections that had brought an answer, and had not been told to close.
    """

    def __init__(self, server: Server, issuer: str, secret: str) -> None:
        super().__init__(daemon=True)
        self._server, self._address = server, f"{issuer}/oauth/token"
        self._form = {
            "grant_type": "client_credentials",
            "resource": "https://api.shop.example",
            "client_id": "job",
            "client_secret": secret,
        }
        self.got: list[int] = []
        self.cut_off: list[str] = []

    def run(self) -> None:
        while True:
            answered = 0
            try:
                with httpx.Client(trust_env=False, timeout=30) as client:
                    while True:
                        answer = client.post(self._address, data=self._form)
                        self.got.append(answer.status_code)
                        answered = 0 if answer.headers["connection"] == "close" else answered + 1
            except httpx.ConnectError:
                return
            except httpx.TransportError as failure:
                if answered:
                    self.cut_off.append(repr(failure))


def half_sent(server: Server) -> socket.socket:
    """A connection with a request on it of which the last bytes are missing."""
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.sendall(b"POST /zones HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{")
    return connection


def read_to_end(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    read = b""
    connection.settimeout(15)
    with suppress(ConnectionResetError):
        while more := connection.recv(65536):
            read += more
    return read


def recorded(url: str) -> int:
    """How many token requests are on record."""

    async def count() -> int:
        database = Database.open(url)
        async with database.transaction() as conn:
            found = await conn.scalar(select(func.count()).select_from(token_events))
        await database.close()
        return int(found or 0)

    return asyncio.run(count())


def test_stops_under_load(server: Server, tmp_path: Path, postgres_url: str):
    """Connections end with an answer, each token that was issued is on record, and it takes a few seconds."""
    process = server.process
    assert process is not None
    issuer = server.zone("shop")["protocols"]["oauth2"]["issuer"]
    secret = written_secret(tmp_path / "secrets", "shop", "job")
    jobs = [Job(server, issuer, secret) for _ in range(4)]
    for job in jobs:
        job.start()
    while min(len(job.got) for job in jobs) < 20:
        time.sleep(0.05)
    never_sent, sent_late = half_sent(server), half_sent(server)
    idle = socket.create_connection(("127.0.0.1", server.port))
    idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert idle.recv(65536).startswith(b"HTTP/1.1 200")

    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    for job in jobs:
        job.join(10)
        assert not job.is_alive()
    sent_late.sendall(b"}")
    answer = read_to_end(sent_late)
    assert process.wait(20) == 0, server.log.read_text()

    assert time.monotonic() - began < 8
    assert answer.startswith(b"HTTP/1.1 401")
    assert b"connection: close" in answer.lower()
    assert read_to_end(idle) == b""
    assert read_to_end(never_sent) == b""
    assert [job.cut_off for job in jobs] == [[], [], [], []]
    issued = [status for job in jobs for status in job.got]
    assert set(issued) == {200}
    assert recorded(postgres_url) == len(issued)
    assert "Traceback" not in server.log.read_text()
