"""`zoned serve` receives SIGTERM under load: it answers what has come, keeps its records, and exits."""

import asyncio
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from acme import written_secret
from sqlalchemy import func, select, text, update
from tests.end_to_end.operated import Server
from tests.end_to_end.shop import SHOP
from tests.support.postgres import PostgresServer
from tests.support.redis import RedisServer
from tests.support.waiting import let_elapse, until, wait_until

from runtime.storage.sql.database import Database
from runtime.storage.sql.tables import METADATA, token_events

pytestmark = pytest.mark.long

CONFIG = {
    "zonectl.yaml": "owner: shop/identity\n",
    "shop.yaml": SHOP,
}

organization_heads = METADATA.tables["organization_heads"]  # a row of it is held by whoever writes there
WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)
# Of what docs/operating/serving.md promises: 20 seconds for the requests in progress, half a minute in all.
LONG_SECONDS, STOPPED_SECONDS = 15, 30
BYTE_SECONDS = 0.5  # a sender who is silent for 2 seconds is not waited for
ZONE = b'{"name": "Late"}'.ljust(200)
ABORTED = "request aborted: not answered within the shutdown timeout"


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


@pytest.fixture
def of_two(make_server: Callable[..., Server], postgres_url: str, redis_url: str) -> Server:
    """A server of two workers that serves, and has `postgres_url` for itself."""
    made = make_server(ZONED_WORKERS="2", ZONED_DATABASE_URL=postgres_url, ZONED_REDIS_URL=redis_url)
    made.start()
    return made


@asynccontextmanager
async def writers_held_up(url: str) -> AsyncIterator[Callable[[], Awaitable[bool]]]:
    """Until the block ends, whoever changes something in an organization waits; the function tells of one."""
    database = Database.open(url)
    try:
        async with database.engine.begin() as holding:
            await holding.execute(update(organization_heads).values(revision=organization_heads.c.revision))

            async def somebody_waits() -> bool:
                async with database.querying() as asking:
                    return bool(await asking.scalar(text(WAITING)))

            yield somebody_waits
    finally:
        await database.close()


@dataclass
class Dripping:
    """A body that comes a byte at a time, until the rest of it may come.

    Attributes:
        begun: is set when some of it has been sent.
        may_end: has to be set for the rest.
    """

    body: bytes
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = list(self.body)
        while len(left) > 1 and not self.may_end.is_set():
            yield bytes([left.pop(0)])
            self.begun.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(BYTE_SECONDS):
                    await self.may_end.wait()
        yield bytes(left)


async def make_zone(server: Server, content: bytes | Dripping) -> httpx.Response:
    """Make a zone, on a connection that the server has answered on before."""
    size = len(content if isinstance(content, bytes) else content.body)
    headers = {"Authorization": f"Bearer {server.api_key}", "Content-Type": "application/json"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=90, trust_env=False) as client:
        assert (await client.get("/healthz")).status_code == 200
        return await client.post("/zones", content=content, headers={"Content-Length": str(size)})


async def test_requests_that_take_long_are_answered_in_full(of_two: Server, postgres_url: str) -> None:
    """One that is worked on, and one that is still arriving, for three quarters of the time that is left."""
    process, arriving = of_two.process, Dripping(ZONE)
    assert process is not None
    async with writers_held_up(postgres_url) as somebody_waits:
        asked = [asyncio.create_task(make_zone(of_two, content)) for content in (ZONE, arriving)]
        await until(somebody_waits)
        await arriving.begun.wait()
        process.terminate()
        await let_elapse(LONG_SECONDS)
        assert [process.poll(), *(each.done() for each in asked)] == [None, False, False]
    arriving.may_end.set()
    answers = await asyncio.gather(*asked)

    assert await asyncio.to_thread(process.wait, 20) == 0, of_two.log.read_text()
    assert [answer.status_code for answer in answers] == [200, 200], [answer.text for answer in answers]
    assert [answer.json()["name"] for answer in answers] == ["Late", "Late"]
    assert {answer.headers["connection"] for answer in answers} == {"close"}
    said = of_two.log.read_text()
    assert ABORTED not in said
    assert "Traceback" not in said


async def test_requests_without_end_do_not_keep_the_service(of_two: Server, postgres_url: str) -> None:
    """They get no answer, which is logged of each; the service ends with 0, half a minute later at most."""
    process, arriving = of_two.process, Dripping(ZONE)
    assert process is not None
    assert (await make_zone(of_two, ZONE)).status_code == 200
    async with writers_held_up(postgres_url) as somebody_waits:
        asked = [asyncio.create_task(make_zone(of_two, content)) for content in (ZONE, arriving)]
        await until(somebody_waits)
        await arriving.begun.wait()
        process.terminate()
        exit_status = await asyncio.to_thread(process.wait, STOPPED_SECONDS)
        ends = await asyncio.gather(*asked, return_exceptions=True)

    said = of_two.log.read_text()
    assert exit_status == 0, said
    assert [isinstance(each, httpx.NetworkError | httpx.RemoteProtocolError) for each in ends] == [True] * 2
    assert said.count(ABORTED) == 2
    assert "Traceback" not in said
