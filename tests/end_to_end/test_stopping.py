"""`zoned serve` receives SIGTERM under load: it answers what has come, keeps its records, and exits."""

import asyncio
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from acme import written_secret
from sqlalchemy import func, select
from tests.end_to_end.operated import Server
from tests.end_to_end.shop import SHOP
from tests.support.postgres import PostgresServer
from tests.support.redis import RedisServer
from tests.support.waiting import wait_until

from runtime.storage.sql.database import Database
from runtime.storage.sql.tables import token_events

CONFIG = {
    "zonectl.yaml": "owner: shop/identity\n",
    "shop.yaml": SHOP,
}


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


@dataclass(frozen=True)
class Stopped:
    """A server that was asked to stop under load, and what came of it.

    Attributes:
        jobs: callers that asked for tokens all the while.
        exit_status: that of the server's process.
        late: the answer to a request whose last byte came after the server was asked to stop.
        idle: what came on a connection without a request on it.
        never_sent: what came on one whose request never came to its end.
        log: what the server has written.
        recorded: how many token requests are on record.
    """

    jobs: list[Job]
    exit_status: int
    late: bytes
    idle: bytes
    never_sent: bytes
    log: str
    recorded: int


@pytest.fixture(scope="module", params=[1, 2], ids=["one worker", "two workers"])
def stopped(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    postgres: PostgresServer,
    redis_server: RedisServer,
) -> Iterator[Stopped]:
    """A server with one zone and a job that may call an API there, asked to stop: once for all tests."""
    folder = tmp_path_factory.mktemp("stopped")
    redis_server.clear()
    database_url = asyncio.run(postgres.migrated())
    settings = {
        "ZONED_WORKERS": str(request.param),
        "ZONED_DATABASE_URL": database_url,
        "ZONED_REDIS_URL": redis_server.url,
    }
    server = Server(folder / "data", settings)
    try:
        server.init()
        server.start()
        (folder / "config").mkdir()
        for name, text in CONFIG.items():
            (folder / "config" / name).write_text(text)
        server.zonectl("apply", str(folder / "config"), "--yes", "--secrets-dir", str(folder / "secrets"))
        yield stop_under_load(server, folder / "secrets", database_url)
    finally:
        server.stop()
        asyncio.run(postgres.drop(database_url))


def stop_under_load(server: Server, secrets: Path, database_url: str) -> Stopped:
    """Ask the server to stop while four jobs ask it for tokens; it has a deadline of 8 seconds."""
    process = server.process
    assert process is not None
    issuer = server.zone("shop")["protocols"]["oauth2"]["issuer"]
    jobs = [Job(server, issuer, written_secret(secrets, "shop", "job")) for _ in range(4)]
    for job in jobs:
        job.start()
    wait_until(
        lambda: min(len(job.got) for job in jobs) >= 20,
        seconds=60,
        otherwise=lambda: [job.got for job in jobs],
    )
    never_sent, sent_late = half_sent(server), half_sent(server)
    idle = socket.create_connection(("127.0.0.1", server.port))
    idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert idle.recv(65536).startswith(b"HTTP/1.1 200")

    process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + 8
    for job in jobs:
        job.join(max(0, deadline - time.monotonic()))
        assert not job.is_alive()
    sent_late.sendall(b"}")
    late = read_to_end(sent_late)
    exit_status = process.wait(max(0, deadline - time.monotonic()))
    ends = read_to_end(idle), read_to_end(never_sent)
    return Stopped(jobs, exit_status, late, *ends, server.log.read_text(), recorded(database_url))


def test_the_process_ends_without_an_error(stopped: Stopped) -> None:
    """Status 0 within a few seconds, and no traceback in the log."""
    assert stopped.exit_status == 0, stopped.log
    assert "Traceback" not in stopped.log


def test_a_request_that_was_on_its_way_is_answered(stopped: Stopped) -> None:
    """What comes to its end after the signal has its answer, and hears that the connection closes."""
    assert stopped.late.startswith(b"HTTP/1.1 401")
    assert b"connection: close" in stopped.late.lower()


def test_connections_without_a_whole_request_are_closed(stopped: Stopped) -> None:
    """Nothing more comes on one that is idle, nor on one whose request never comes to its end."""
    assert stopped.idle == b""
    assert stopped.never_sent == b""


def test_no_connection_in_use_is_cut_off(stopped: Stopped) -> None:
    """Each of the callers was told to close before the server closed."""
    assert [job.cut_off for job in stopped.jobs] == [[], [], [], []]


def test_every_token_that_was_issued_is_on_record(stopped: Stopped) -> None:
    """Every request was answered with a token, and there are as many records as answers."""
    issued = [status for job in stopped.jobs for status in job.got]
    assert set(issued) == {200}
    assert stopped.recorded == len(issued)


def test_a_node_that_is_about_to_stop_says_so_and_serves(tmp_path: Path) -> None:
    """For as long as it was set; then it listens no more, and exits with 0."""
    server = Server(tmp_path, {"ZONED_DRAIN_SECONDS": "4"})
    server.init()
    server.start()
    process = server.process
    assert process is not None

    def status(path: str) -> int:
        return httpx.get(f"{server.url}{path}", trust_env=False, timeout=30).status_code

    try:
        assert (status("/readyz"), status("/healthz")) == (200, 200)
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: status("/readyz") == 503, otherwise=server.log.read_text)
        ready = httpx.get(f"{server.url}/readyz", trust_env=False, timeout=30)
        served = httpx.get(f"{server.url}/healthz", trust_env=False, timeout=30)
        assert process.wait(60) == 0
    finally:
        server.kill()

    assert (ready.status_code, ready.json()) == (503, {"status": "stopping"})
    assert (served.status_code, served.headers["connection"]) == (200, "close")
    with pytest.raises(httpx.ConnectError):
        status("/healthz")
