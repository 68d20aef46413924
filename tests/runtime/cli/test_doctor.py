"""`zoned doctor`: each thing that is wrong is found, and comes with what to do about it."""

import json
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis as redis_client
from click.testing import CliRunner
from tests.support.proxy import proxied
from tests.support.redis import RedisServer, running_redis

from runtime.adapters.keys.sealing import SealBroken
from runtime.app import close_services, make_services
from runtime.cli import diagnosis, main
from runtime.cli.diagnosis import Check, Finding, Verdict
from runtime.settings import Settings

NOW = 1_800_000_000.0
WELL = {
    "redis_version": "7.2.4",
    "role": "master",
    "maxmemory": "1000",
    "used_memory": "100",
    "maxmemory_policy": "noeviction",
    "rdb_last_bgsave_status": "ok",
    "aof_last_write_status": "ok",
    "time": f"{NOW}",
}
PROBLEM, WARNING = Verdict.PROBLEM, Verdict.WARNING
PAGE = (Path(__file__).parents[3] / "docs/operating/health.md").read_text("utf-8")


def of_redis(**changes: str) -> list[Finding]:
    return list(diagnosis.redis(WELL | changes, now=NOW))


@pytest.mark.parametrize(
    ("changes", "verdict", "detail", "remedy"),
    [
        ({"maxmemory_policy": "allkeys-lru"}, PROBLEM, "allkeys-lru", "noeviction"),
        ({"maxmemory_policy": "volatile-ttl"}, PROBLEM, "volatile-ttl", "noeviction"),
        ({"used_memory": "950"}, WARNING, "95 %", "raise `maxmemory`"),
        (
            {"role": "slave", "master_host": "r1", "master_port": "6379"},
            PROBLEM,
            "is a replica",
            "`r1:6379`",
        ),
        ({"rdb_last_bgsave_status": "err"}, PROBLEM, "a snapshot", "free its disk"),
        ({"aof_last_write_status": "err"}, PROBLEM, "its log", "free its disk"),
        ({"redis_version": "6.0.16"}, PROBLEM, "6.0.16 is too old", "6.2"),
        ({"time": f"{NOW + 600}"}, WARNING, "600.0 s ahead of", "NTP"),
        ({"time": f"{NOW - 600}"}, PROBLEM, "600.0 s behind", "NTP"),
    ],
)
def test_what_is_wrong_with_a_redis(
    changes: dict[str, str], verdict: Verdict, detail: str, remedy: str
) -> None:
    """Nothing of one that is well; else what it is, how bad, and what to do."""
    assert of_redis() == []

    (found,) = of_redis(**changes)

    assert found.verdict is verdict
    assert detail in found.detail
    assert remedy in found.remedy


def test_clocks_and_connections_of_postgresql() -> None:
    """A second apart is usual; a worker opens so many connections."""
    assert [*diagnosis.clocks(0.9, "PostgreSQL"), *diagnosis.connections(97, 2)] == []

    (apart,) = diagnosis.clocks(-600, "PostgreSQL")
    (few,) = diagnosis.connections(97, 3)

    assert "PostgreSQL is 600.0 s behind" in apart.detail
    assert "97 connections" in few.detail
    assert "`max_connections`" in few.remedy


def test_a_disk_that_is_nearly_full(tmp_path: Path) -> None:
    """It is told before writes are refused; a small disk may have little left."""
    assert list(diagnosis.disk(tmp_path, 10**12, 10**11)) == []
    assert list(diagnosis.disk(tmp_path, 100 * 2**20, 20 * 2**20)) == []

    (found,) = diagnosis.disk(tmp_path, 10**12, 5 * 2**20)

    assert f"5 MiB are left on the disk of `{tmp_path}`" in found.detail
    assert found.remedy


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A set-up directory."""
    made = CliRunner(env={"ZONED_DATA_DIR": str(tmp_path / "data")}).invoke(main, ["init"])
    assert made.exit_code == 0, made.output
    return tmp_path / "data"


def diagnosed(data: Path, **settings: str) -> tuple[int, dict[str, dict[str, str]], str]:
    """The exit code, what is found of each check that is not ok, and the same as text."""
    runner = CliRunner(env={"ZONED_DATA_DIR": str(data), **settings})
    told, text = runner.invoke(main, ["doctor", "--json"]), runner.invoke(main, ["doctor"])
    assert told.exit_code == text.exit_code, text.output
    document: dict[str, Any] = json.loads(told.stdout)
    assert (document["status"] == "ok") is (told.exit_code == 0)
    wrong = {each["check"]: each for each in document["findings"] if each["verdict"] != "ok"}
    assert [check for check, each in wrong.items() if not each["detail"] or not each["remedy"]] == []
    return told.exit_code, wrong, text.output


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("ALTER TABLE zones ADD COLUMN colour VARCHAR", "unknown column `zones.colour`"),
        ("DROP INDEX users_created_at_idx", "missing index `users_created_at_idx` of `users`"),
        ("CREATE TABLE ballast (id INTEGER)", "unknown table `ballast`"),
    ],
)
def test_an_edited_schema(data: Path, statement: str, told: str) -> None:
    """What somebody has changed by hand is named."""
    assert diagnosed(data)[:2] == (0, {})
    with closing(sqlite3.connect(data / "zonewright.db")) as database:
        database.execute(statement)

    code, wrong, text = diagnosed(data)

    assert (code, set(wrong)) == (1, {"schema"})
    assert told in wrong["schema"]["detail"]
    assert "restore" in wrong["schema"]["remedy"]
    assert told in text
    assert wrong["schema"]["remedy"] in text


def evicts(redis: RedisServer) -> None:
    with redis_client.Redis.from_url(redis.url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")


def is_full(redis: RedisServer) -> None:
    redis.fill()


@pytest.mark.parametrize(
    ("strike", "check"), [(evicts, "redis"), (is_full, "short-lived state")], ids=["evicts", "full"]
)
def test_a_redis_that_is_not_as_it_should_be(
    data: Path, strike: Callable[[RedisServer], None], check: str
) -> None:
    """As it says itself, or refuses a write."""
    with running_redis() as redis:
        assert diagnosed(data, ZONED_REDIS_URL=redis.url)[:2] == (0, {})
        strike(redis)

        code, wrong, _ = diagnosed(data, ZONED_REDIS_URL=redis.url)

    assert code == 1
    assert wrong[check]["verdict"] == "problem"
    assert wrong[check]["remedy"]


def test_a_redis_that_is_a_replica(data: Path) -> None:
    """Its primary is named."""
    with running_redis() as leader, running_redis() as replica, proxied(leader.url) as way:
        assert diagnosed(data, ZONED_REDIS_URL=leader.url)[:2] == (0, {})
        replica.follow(way.port)

        code, wrong, _ = diagnosed(data, ZONED_REDIS_URL=replica.url)

    assert (code, set(wrong)) == (1, {"redis"})
    assert f"`127.0.0.1:{way.port}`" in wrong["redis"]["remedy"]


def test_a_redis_that_is_away(data: Path, tmp_path: Path) -> None:
    """The cause, and what to do."""
    code, wrong, text = diagnosed(data, ZONED_REDIS_URL=f"unix://{tmp_path}/nothing.sock")

    assert (code, set(wrong)) == (1, {"short-lived state"})
    assert "nothing.sock" in wrong["short-lived state"]["detail"]
    assert "start Redis" in wrong["short-lived state"]["remedy"]
    assert "Traceback" not in text


def test_the_full_stop_of_a_driver_does_not_end_the_line(data: Path) -> None:
    """What to do follows on the cause."""
    _, wrong, _ = diagnosed(data, ZONED_REDIS_URL="redis://127.0.0.1:1/0")

    assert wrong["short-lived state"]["detail"].endswith("Connection refused")


def has_no_database(data: Path) -> None:
    (data / "zonewright.db").unlink()


def has_another_key(data: Path) -> None:
    (data / "key-encryption.key").write_text("A" * 43 + "=\n")


def has_no_key(data: Path) -> None:
    (data / "key-encryption.key").unlink()


def has_half_a_key(data: Path) -> None:
    (data / "key-encryption.key").write_text("AAAA\n")


def shows_its_key(data: Path) -> None:
    (data / "key-encryption.key").chmod(0o644)


def has_no_tables(data: Path) -> None:
    (data / "zonewright.db").write_bytes(b"")


def has_a_file_of_another_sort(data: Path) -> None:
    (data / "zonewright.db").write_bytes(b"no database" * 1000)
    for beside in data.glob("zonewright.db-*"):
        beside.unlink()


def is_of_an_older_program(data: Path) -> None:
    with closing(sqlite3.connect(data / "zonewright.db")) as database, database:
        database.execute("UPDATE alembic_version SET version_num = '0001'")


@pytest.mark.parametrize(
    ("strike", "told"),
    [
        (has_no_database, "there is no database in"),
        (has_another_key, "not the one that this database was set up with"),
        (has_no_key, "there is no key file"),
        (has_half_a_key, "has 3 bytes instead of 32"),
        (shows_its_key, "is open to others"),
        (has_no_tables, "no tables of this service yet"),
        (has_a_file_of_another_sort, "file is not a database"),
        (is_of_an_older_program, "at version 0001"),
    ],
)
def test_keys_and_a_database_that_cannot_be_used(
    data: Path, strike: Callable[[Path], None], told: str
) -> None:
    """Beneath what is well, which is listed all the same."""
    strike(data)

    code, wrong, text = diagnosed(data)

    found = wrong["keys and migrations"]
    assert code == 1
    assert told in found["detail"]
    assert f"keys and migrations  problem: {found['detail']}; {found['remedy']}\n" in text
    assert f"{'settings':20} ok\n" in text


@pytest.mark.parametrize(
    "url",
    ["mysql://127.0.0.1/x", "nonsense", "sqlite:////not/there/x.db", "postgresql://127.0.0.1:1/x"],
)
def test_an_address_of_a_database_that_is_none(data: Path, url: str) -> None:
    """It is a finding like any other."""
    assert "keys and migrations" in diagnosed(data, ZONED_DATABASE_URL=url)[1]


def test_a_row_of_the_guide_for_each_check() -> None:
    """The guide has them in the order in which they are looked at."""
    table = PAGE.partition("| Check | Problem | Warning |\n")[2].partition("\n\n")[0].splitlines()[1:]

    assert [row.split("|")[1].strip() for row in table] == [f"`{check}`" for check in Check]


@pytest.mark.parametrize(
    "url", ["localhost:6379", "http://localhost", "redis://localhost:port", "redis://[::1"]
)
def test_an_address_that_is_none(data: Path, url: str) -> None:
    """What it should look like; it may have a password, so it is not repeated."""
    refused = CliRunner(env={"ZONED_DATA_DIR": str(data), "ZONED_REDIS_URL": url}).invoke(main, ["doctor"])

    assert refused.exit_code == 1
    assert "ZONED_REDIS_URL is not the address of a Redis" in refused.output
    assert url not in refused.output.replace("redis://localhost:6379/0", "")


def test_zones_that_stand_elsewhere_than_the_settings_say(data: Path) -> None:
    """After a change of the public URL, until the zones are moved; and an end that no job has recorded."""
    settings = {"ZONED_PUBLIC_URL": "https://id.acme.example"}
    assert "issuers" not in diagnosed(data)[1]

    code, wrong, _ = diagnosed(data, **settings)

    assert code == 0
    assert "no zone has an issuer that ZONED_PUBLIC_URL" in wrong["issuers"]["detail"]
    assert "zoned zone move --all" in wrong["issuers"]["remedy"]
    runner = CliRunner(env={"ZONED_DATA_DIR": str(data), **settings})
    moved = runner.invoke(main, ["zone", "move", "--all"])
    assert (moved.exit_code, moved.output.splitlines()[-1]) == (0, "moved: 1 zones")
    assert "issuers" not in diagnosed(data, **settings)[1]

    with closing(sqlite3.connect(data / "zonewright.db")) as database, database:
        database.execute("UPDATE zone_addresses SET ends_at = '2026-01-01T00:00:00.000000+00:00'")
    assert "ended, and no job has recorded it" in diagnosed(data, **settings)[1]["issuers"]["detail"]


async def test_a_database_that_cannot_be_used_is_closed(data: Path) -> None:
    """What was opened before its key turned out to be another one leaves no thread behind."""
    settings = Settings.load(None, data_dir=data)
    await close_services(await make_services(settings))
    has_another_key(data)
    before = set(threading.enumerate())

    with pytest.raises(SealBroken):
        await make_services(settings)

    for left in set(threading.enumerate()) - before:
        left.join(10)
        assert not left.is_alive()
