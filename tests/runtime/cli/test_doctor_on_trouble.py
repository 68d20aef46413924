"""`zoned doctor` beside a database in trouble: what it tells, of which check, and what to do about it.

Each test first sees that nothing is wrong, and where the trouble ends, that nothing is wrong again.
"""

import asyncio
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
import redis as redis_client
from click.testing import CliRunner
from sqlalchemy import delete, text, update
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.runtime.cli.test_doctor import PAGE, data, diagnosed
from tests.runtime.test_database_comings_and_goings import (
    Disk,
    OwnPostgres,
    on_small_disk,
    own_postgres,
    small_disk,
)
from tests.support import entities as make
from tests.support.postgres import PostgresServer
from tests.support.redis import running_redis
from tests.support.waiting import wait_until

from runtime.cli import doctor, main
from runtime.domain.kinds import APPLICATION, USER
from runtime.domain.kinds.application import Application
from runtime.storage.sql import epochs
from runtime.storage.sql.database import Database
from runtime.storage.sql.tables import TABLES, subjects

pytestmark = pytest.mark.long

__all__ = ["data"]

ROLE = "zoned_of_the_doctor"
WHERE = "keys and migrations"  # what is looked at first: without it, nothing else can be


def plain(url: str) -> str:
    """The address as PostgreSQL's own programs write it."""
    return url.replace("+asyncpg", "")


def sql(url: str, *statements: str) -> None:
    """Run statements as who runs the database."""

    async def run() -> None:
        connection = await asyncpg.connect(plain(url))
        for statement in statements:
            await connection.execute(statement)
        await connection.close()

    asyncio.run(run())


@contextmanager
def connected(url: str, times: int = 1) -> Iterator[None]:
    """Others have so many connections until the block ends."""
    with asyncio.Runner() as runner:

        async def connect() -> list[Any]:
            return [await asyncpg.connect(plain(url)) for _ in range(times)]

        async def close(connections: list[Any]) -> None:
            for each in connections:
                await each.close()

        made = runner.run(connect())
        try:
            yield
        finally:
            runner.run(close(made))


class Installation:
    """A data directory, and the settings beside it."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.directory, self.settings = directory, settings

    def init(self) -> "Installation":
        """Set it up."""
        environment = {"ZONED_DATA_DIR": str(self.directory), **self.settings}
        made = CliRunner(env=environment).invoke(main, ["init"])
        assert made.exit_code == 0, made.output
        return self

    def diagnosed(self, **settings: str) -> tuple[int, dict[str, dict[str, str]], str]:
        """As `test_doctor.diagnosed`."""
        return diagnosed(self.directory, **self.settings | settings)

    def is_well(self, **settings: str) -> bool:
        return self.diagnosed(**settings)[:2] == (0, {})

    def found(self, check: str, **settings: str) -> dict[str, str]:
        """The one problem, which is the same in the text."""
        code, wrong, text = self.diagnosed(**settings)
        assert (code, set(wrong)) == (1, {check}), text
        found = wrong[check]
        assert f"{check:20} {found['verdict']}: {found['detail']}; {found['remedy']}\n" in text
        assert f"{'settings':20} ok\n" in text
        assert "Traceback" not in text
        return found

    def text(self) -> str:
        """What is printed for people."""
        environment = {"ZONED_DATA_DIR": str(self.directory), **self.settings}
        return CliRunner(env=environment).invoke(main, ["doctor"]).stdout

    def checks(self, **settings: str) -> dict[str, str]:
        """What was looked at, in its order, and how it is."""
        environment = {"ZONED_DATA_DIR": str(self.directory), **self.settings, **settings}
        told = CliRunner(env=environment).invoke(main, ["doctor", "--json"])
        return {each["check"]: each["verdict"] for each in json.loads(told.stdout)["findings"]}


@pytest.fixture
async def on_postgresql(postgres_url: str, tmp_path: Path) -> Installation:
    """Set up on a database of the session's PostgreSQL."""
    made = Installation(tmp_path / "data", ZONED_DATABASE_URL=postgres_url)
    await asyncio.to_thread(made.init)
    return made


def test_postgresql_that_is_set_to_be_read_only(on_postgresql: Installation, postgres_url: str) -> None:
    """It is read, and the rest of the diagnosis stands; what to do names the setting."""
    assert on_postgresql.is_well()
    name = urlsplit(postgres_url).path[1:]
    sql(postgres_url, f"ALTER DATABASE {name} SET default_transaction_read_only = on")

    found = on_postgresql.found("database")

    assert found == {
        "check": "database",
        "verdict": "problem",
        "detail": "the database takes no writes: a standby, or set to be read-only",
        "remedy": "free the disk of PostgreSQL, point ZONED_DATABASE_URL to the primary, or set"
        " `default_transaction_read_only` to `off`",
    }
    assert "schema               ok\n" in on_postgresql.diagnosed()[2]
    sql(
        postgres_url,
        "SET default_transaction_read_only = off",
        f"ALTER DATABASE {name} RESET default_transaction_read_only",
    )
    assert on_postgresql.is_well()


@pytest.fixture
def as_role(
    on_postgresql: Installation, postgres_url: str, postgres: PostgresServer
) -> Iterator[Installation]:
    """The same with an account that is no superuser's, to which limits apply."""
    sql(postgres_url, f"CREATE ROLE {ROLE} LOGIN", f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {ROLE}")
    yield Installation(
        on_postgresql.directory, ZONED_DATABASE_URL=postgres_url.replace("postgres@", f"{ROLE}@")
    )
    sql(postgres_url, f"DROP OWNED BY {ROLE}", f"DROP ROLE {ROLE}")


@pytest.mark.parametrize(
    ("begin", "end", "told"),
    [
        (
            "ALTER ROLE {role} CONNECTION LIMIT 0",
            "ALTER ROLE {role} CONNECTION LIMIT -1",
            'too many connections for role "{role}"',
        ),
        (
            "ALTER DATABASE {database} CONNECTION LIMIT 0",
            "ALTER DATABASE {database} CONNECTION LIMIT -1",
            'too many connections for database "{database}"',
        ),
    ],
    ids=["of the role", "of the database"],
)
def test_postgresql_that_is_out_of_connections(
    as_role: Installation, postgres_url: str, begin: str, end: str, told: str
) -> None:
    """Nothing beneath can be looked at; the cause, and what to do, which is not to start anything."""
    names = {"role": ROLE, "database": urlsplit(postgres_url).path[1:]}
    assert as_role.is_well()
    sql(postgres_url, begin.format(**names))

    found = as_role.found(WHERE)

    assert found == {
        "check": WHERE,
        "verdict": "problem",
        "detail": f"the database cannot be reached: {told.format(**names)}",
        "remedy": "raise `max_connections` of PostgreSQL, or run fewer workers",
    }
    sql(postgres_url, end.format(**names))
    assert as_role.is_well()


@pytest.fixture(scope="module")
def own() -> Iterator[OwnPostgres]:
    """A PostgreSQL that tests stop."""
    with own_postgres() as running:
        yield running


@pytest.fixture
def on_own(own: OwnPostgres, tmp_path: Path) -> Installation:
    """Set up on a database of it, which runs, whatever became of it in another test."""
    own.start()
    return Installation(tmp_path / "data", ZONED_DATABASE_URL=asyncio.run(own.server.migrated())).init()


def test_postgresql_that_stops(own: OwnPostgres, on_own: Installation) -> None:
    """While it still serves others, and when it is gone: to wait is of use once, and to start it then."""
    assert on_own.is_well()
    with connected(on_own.settings["ZONED_DATABASE_URL"]):
        own.control("--no-wait", "-m", "smart", "stop")
        wait_until(lambda: not on_own.is_well())
        stopping = on_own.found(WHERE)
    wait_until(lambda: not (own.directory / "postmaster.pid").exists())

    stopped = on_own.found(WHERE)

    assert stopping["detail"] == "the database cannot be reached: the database system is shutting down"
    assert stopping["remedy"] == "PostgreSQL is starting, stopping or recovering: try again shortly"
    assert stopped["detail"].startswith("the database cannot be reached: ")
    assert stopped["remedy"].startswith("there is no such socket: start the server")
    own.start()
    assert on_own.is_well()


@pytest.mark.parametrize(
    ("is_hot", "check", "detail", "remedy"),
    [
        (True, "database", "the database takes no writes: a standby", "to the primary"),
        (
            False,
            WHERE,
            "the database cannot be reached: the database system is not ",
            "PostgreSQL is starting, stopping or recovering: try again shortly",
        ),
    ],
    ids=["read", "not read"],
)
def test_postgresql_that_is_a_standby(
    own: OwnPostgres, on_own: Installation, is_hot: bool, check: str, detail: str, remedy: str
) -> None:
    """One that lets others read, and one that recovers and lets nobody in."""
    assert on_own.is_well()
    own.stop()
    with own.as_standby(is_hot=is_hot):
        found = on_own.found(check)

    assert found["verdict"] == "problem"
    assert found["detail"].startswith(detail)
    assert remedy in found["remedy"]
    own.start()
    assert on_own.is_well()


def test_postgresql_whose_connections_others_have(own: OwnPostgres, on_own: Installation) -> None:
    """All that it allows; and few, which is a warning before there are none left."""
    url = on_own.settings["ZONED_DATABASE_URL"]
    assert on_own.is_well()
    sql(url, "ALTER SYSTEM SET max_connections = 10")
    own.stop()
    own.start()
    try:
        few = on_own.diagnosed()
        with connected(url, times=10):
            found = on_own.found(WHERE)
    finally:
        sql(url, "ALTER SYSTEM RESET max_connections")
        own.stop()
        own.start()

    assert (few[0], set(few[1])) == (0, {"connections"})
    assert few[1]["connections"]["verdict"] == "warning"
    assert "PostgreSQL allows 7 connections" in few[1]["connections"]["detail"]
    assert found["detail"] == "the database cannot be reached: sorry, too many clients already"
    assert found["remedy"] == "raise `max_connections` of PostgreSQL, or run fewer workers"
    assert on_own.is_well()


def test_more_workers_than_postgresql_has_connections_for(on_postgresql: Installation) -> None:
    """A warning alone: they may open so many, and need not."""
    with running_redis() as redis:
        assert on_postgresql.is_well(ZONED_REDIS_URL=redis.url, ZONED_WORKERS="2")

        code, wrong, text = on_postgresql.diagnosed(ZONED_REDIS_URL=redis.url, ZONED_WORKERS="3")

    assert (code, set(wrong)) == (0, {"connections"})
    found = wrong["connections"]
    assert found["verdict"] == "warning"
    assert found["detail"] == (
        "PostgreSQL allows 97 connections, and the 3 workers of this machine open up to 111"
    )
    assert f"{'connections':20} warning: {found['detail']}; {found['remedy']}\n" in text


def test_a_clock_of_postgresql_that_is_off(
    on_postgresql: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warning: the service goes by it, and other programs of this machine do not."""
    assert on_postgresql.is_well()
    present = epochs.SECONDS_NOW["postgresql"]
    monkeypatch.setitem(epochs.SECONDS_NOW, "postgresql", f"{present} + 600")

    text = on_postgresql.text()

    assert f"{'clocks':20} warning: the clock of PostgreSQL is 600.0 s ahead of this machine's" in text


_ZONED = "from runtime.start import main; main()"
_AHEAD = "from runtime.storage.sql import epochs; epochs.SECONDS_NOW['postgresql'] += ' + 600'"


def test_the_object_is_all_that_is_printed(on_postgresql: Installation) -> None:
    """Also where something is logged meanwhile, as that PostgreSQL's clock is wrong: programs read it."""
    environment = {**os.environ, "ZONED_DATA_DIR": str(on_postgresql.directory), **on_postgresql.settings}

    def printed(program: str) -> str:
        arguments = [sys.executable, "-c", program, "doctor", "--json"]  # where a process logs to is its own
        return subprocess.run(arguments, env=environment, check=True, capture_output=True, text=True).stdout

    assert printed(_ZONED).startswith('{"status": "ok"')

    assert printed(f"{_AHEAD}; {_ZONED}").startswith('{"status": "ok"')


def nearly_full(path: Any) -> os.statvfs_result:
    """What the system says of a disk with 5 MiB left for this account, and of any other one."""
    found = _STATVFS(path)
    left = 5 * 2**20 // found.f_frsize
    return os.statvfs_result((*found[:4], left, *found[5:]))


_STATVFS = os.statvfs


def test_a_disk_with_little_room(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning, before writes are refused."""
    here = Installation(data)
    assert here.is_well()
    monkeypatch.setattr(os, "statvfs", nearly_full)

    code, wrong, text = here.diagnosed()

    assert (code, set(wrong)) == (0, {"disk"})
    assert wrong["disk"]["verdict"] == "warning"
    assert f"5 MiB are left on the disk of `{data}`" in wrong["disk"]["detail"]
    assert wrong["disk"]["remedy"] == "free space, or move the data directory to a larger disk"
    assert f"{'disk':20} warning: 5 MiB" in text


def test_an_application_with_the_identifier_of_a_user(data: Path) -> None:
    """As a database from before names were given once may have it: which one, and where."""
    here, address = Installation(data), f"sqlite+aiosqlite:///{data / 'zonewright.db'}"
    assert here.is_well()

    async def call_one_as_a_user() -> Application:
        database = Database.open(address)
        async with database.transaction() as conn:
            zone = await make.add_zone(conn)
            await make.stored(conn, USER, make.user(zone, identifier="ann"))
            made: Application = await make.stored(
                conn, APPLICATION, make.application(zone, identifier="billing")
            )
            await conn.execute(delete(subjects).where(subjects.c.holder_id == made.id))
            applications = TABLES[APPLICATION.name]
            await conn.execute(
                update(applications).where(applications.c.id == made.id).values(identifier="ann")
            )
        await database.close()
        return made

    application = asyncio.run(call_one_as_a_user())

    found = here.found("names")

    assert found == {
        "check": "names",
        "verdict": "problem",
        "detail": "applications with the identifier of a user cannot get tokens:"
        f" `ann` in zone {application.zone_id}",
        "remedy": "give them other identifiers",
    }


# Told where there is something to tell: nothing of them is in the diagnosis of what is well.
ONLY_WHEN_WRONG = {"addresses", "disk", "clocks", "connections", "redis"}


def test_each_check_of_the_guide_is_in_the_diagnosis(
    on_postgresql: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On PostgreSQL with Redis, in the guide's order: of what is well, and of what is not."""
    table = PAGE.partition("| Check | Problem | Warning |\n")[2].partition("\n\n")[0].splitlines()[1:]
    documented = [row.split("|")[1].strip().strip("`") for row in table]
    with running_redis() as redis:
        settings = {"ZONED_REDIS_URL": redis.url}
        well = on_postgresql.checks(**settings)
        with redis_client.Redis.from_url(redis.url) as client:
            client.config_set("maxmemory-policy", "allkeys-lru")
        monkeypatch.setattr(os, "statvfs", nearly_full)
        monkeypatch.setattr(doctor, "database_time", an_hour_ahead)
        strained = on_postgresql.checks(**settings, ZONED_WORKERS="3", ZONED_LISTEN="127.0.0.1:9000")

    assert well == {check: "ok" for check in documented if check not in ONLY_WHEN_WRONG}
    assert {check for check, verdict in strained.items() if verdict != "ok"} == ONLY_WHEN_WRONG
    # A finding of theirs stands in the place of what it is a part of.
    assert list(strained) == [each for each in documented if each not in ("database", "short-lived state")]


async def an_hour_ahead(conn: AsyncConnection) -> float:
    """The database's clock, as the diagnosis alone has it: the service does not go by it."""
    return await epochs.database_time(conn) + 3600


def test_a_file_of_sqlite_that_takes_no_writes(data: Path) -> None:
    """It is read, and the rest of the diagnosis stands."""
    address = f"sqlite:///file:{data / 'zonewright.db'}?uri=true&mode="
    assert Installation(data, ZONED_DATABASE_URL=f"{address}rw").is_well()

    found = Installation(data, ZONED_DATABASE_URL=f"{address}ro").found("database")

    assert found == {
        "check": "database",
        "verdict": "problem",
        "detail": "the database takes no writes: attempt to write a readonly database",
        "remedy": f"free the disk of `{data}`, and let this account write to the file",
    }


@pytest.fixture
def on_small(tmp_path: Path) -> Iterator[tuple[Installation, Disk]]:
    """Set up with SQLite on a disk of its own."""
    with small_disk(tmp_path) as disk:
        yield Installation(disk.place / "data").init(), disk


def test_a_full_disk_beside_a_service_that_runs(on_small: tuple[Installation, Disk]) -> None:
    """Of the disk, that nothing is left; of the database, that it takes no writes; the rest stands."""
    here, disk = on_small
    with closing(sqlite3.connect(here.directory / "zonewright.db")) as service:
        service.execute("SELECT count(*) FROM zones").fetchone()
        assert here.is_well()
        disk.fill()

        code, wrong, text = here.diagnosed()

        assert (code, {check: each["verdict"] for check, each in wrong.items()}) == (
            1,
            {"disk": "warning", "database": "problem"},
        )
        assert "0 MiB are left on the disk of" in wrong["disk"]["detail"]
        assert wrong["database"]["detail"] == "the database takes no writes: database or disk is full"
        assert wrong["database"]["remedy"].startswith(f"free the disk of `{here.directory}`")
        assert f"{'database':20} problem: {wrong['database']['detail']}" in text
        assert "schema               ok\n" in text
        disk.free()
        assert here.is_well()


def test_a_full_disk_beside_nobody(on_small: tuple[Installation, Disk]) -> None:
    """SQLite cannot even be read: it makes files of its own for that."""
    here, disk = on_small
    assert here.is_well()
    disk.fill()

    code, wrong, _ = here.diagnosed()

    assert (code, {check: each["verdict"] for check, each in wrong.items()}) == (
        1,
        {"disk": "warning", WHERE: "problem"},
    )
    assert "0 MiB are left on the disk of" in wrong["disk"]["detail"]
    disk.free()
    assert here.is_well()


def test_what_to_do_about_a_full_disk_beside_nobody(on_small: tuple[Installation, Disk]) -> None:
    """It is not to start a database: SQLite has none to be started, and its address is right."""
    here, disk = on_small
    assert here.is_well()
    disk.fill()

    assert "start the database" not in here.diagnosed()[1][WHERE]["remedy"]


def test_a_full_disk_of_postgresql(own: OwnPostgres, tmp_path: Path) -> None:
    """As one of SQLite: what would be refused is told.

    A connection may be refused, too: now and then PostgreSQL writes a file for one (`pg_internal.init`).
    """
    with on_small_disk(own) as (url, disk):
        here = Installation(tmp_path / "data", ZONED_DATABASE_URL=url).init()
        assert here.is_well()
        disk.fill()
        with pytest.raises(asyncpg.DiskFullError):
            sql(url, "CREATE TABLE ballast AS SELECT repeat('x', 1000) FROM generate_series(1, 100)")

        code, wrong, text = here.diagnosed()
        disk.free()
        assert here.is_well()

    [(check, finding)] = wrong.items()
    assert (code, check in {"database", WHERE}) == (1, True)
    told = re.compile(r"the database takes no writes: could not (extend|write) ")  # whichever file it is
    assert told.match(finding["detail"])
    assert finding["remedy"].startswith("free the disk of PostgreSQL")
    assert re.search(rf"^({WHERE}|database) +problem: {told.pattern}", text, re.MULTILINE)


def test_an_account_without_temporary_tables(as_role: Installation, postgres_url: str) -> None:
    """Whether there is room cannot be tried then, which is no finding."""
    assert as_role.is_well()
    sql(postgres_url, f"REVOKE TEMPORARY ON DATABASE {urlsplit(postgres_url).path[1:]} FROM PUBLIC")

    assert as_role.is_well()


async def test_a_trial_of_room_leaves_nothing(postgres_url: str) -> None:
    """Twice on one connection, which has no temporary table afterwards."""
    database = Database.open(postgres_url, pool_size=1)
    try:
        for _ in range(2):
            await database.try_room()
        async with database.querying() as conn:
            left = await conn.scalar(text("SELECT count(*) FROM pg_class WHERE relname = 'room_trial'"))
    finally:
        await database.close()

    assert left == 0
