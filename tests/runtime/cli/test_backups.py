"""`zoned backup` and `zoned restore`: nothing is lost, nothing half is left, nothing is replaced unasked."""

import json
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
from click.testing import CliRunner, Result
from tests.support.server import serve

from runtime import files
from runtime.cli import main
from runtime.cli.operators import current_operator
from runtime.storage.sql import backups

pytestmark = pytest.mark.long


@dataclass(frozen=True)
class Site:
    """A data directory, and the place of a backup."""

    directory: Path
    backup: Path

    @property
    def database(self) -> Path:
        return self.directory / "zonewright.db"

    def run(self, *arguments: str, **settings: str) -> Result:
        environment = {"ZONED_DATA_DIR": str(self.directory), **settings}
        return CliRunner().invoke(main, arguments, env=environment)

    def ok(self, *arguments: str, **settings: str) -> str:
        done = self.run(*arguments, **settings)
        assert done.exit_code == 0, done.output
        return done.stdout

    def refused(self, *arguments: str, **settings: str) -> str:
        done = self.run(*arguments, **settings)
        assert done.exit_code == 1
        assert done.exc_info is not None
        assert done.exc_info[0] is SystemExit, "told in one line, not as a traceback"
        return done.output

    def restored(self) -> str:
        return self.ok("restore", str(self.backup), "--replace")

    def rows(self, statement: str) -> list[Any]:
        with closing(sqlite3.connect(self.database)) as database, database:
            return database.execute(statement).fetchall()

    def names(self) -> list[str]:
        return [name for (name,) in self.rows("SELECT name FROM organizations ORDER BY name")]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path / "data", tmp_path / "backup.db")
    made.ok("init", "--organization", "Acme")
    return made


@pytest.fixture
def saved(site: Site) -> Site:
    """Backed up, and changed since."""
    site.ok("backup", str(site.backup))
    site.ok("organization", "add", "--name", "Later")
    return site


def test_what_was_backed_up_comes_back(saved: Site) -> None:
    """As it was, with one record more in each trail, which proves itself; what came since is gone."""
    assert saved.names() == ["Acme", "Later"]

    told = saved.restored()

    assert saved.names() == ["Acme"]
    assert "1 organizations" in told
    ((actor, action, after),) = saved.rows(
        "SELECT actor_id, action, after FROM audit_events ORDER BY sequence DESC LIMIT 1"
    )
    assert (actor, action) == (current_operator().name, "database.restore")
    assert json.loads(after)["made_at"] in told
    assert "  ok  " in saved.ok("audit", "verify")
    assert saved.ok("doctor").count(" ok\n") >= 5
    assert not saved.rows("SELECT 1 FROM sqlite_master WHERE name = 'backup_manifest'")


def test_a_backup_is_of_one_file_that_others_cannot_read(site: Site) -> None:
    """It says what is in it, and where the key is, which is not."""
    told = site.ok("backup", str(site.backup))

    assert stat.S_IMODE(site.backup.stat().st_mode) == 0o600
    assert {each.name for each in site.backup.parent.iterdir()} == {"backup.db", "data"}
    assert str(site.directory / "key-encryption.key") in told
    key = (site.directory / "key-encryption.key").read_text().strip()
    assert key.encode() not in site.backup.read_bytes()
    manifest = backups.verify(site.backup)
    assert f"{sum(manifest.rows.values()):,} rows" in told
    assert manifest.rows["organizations"] == 1


def test_the_place_of_a_key_from_the_environment_is_told(site: Site) -> None:
    """By the name of the setting, and never its value."""
    key = (site.directory / "key-encryption.key").read_text().strip()
    told = site.ok("backup", str(site.backup), ZONED_KEY_ENCRYPTION_KEY=key)
    assert "ZONED_KEY_ENCRYPTION_KEY" in told
    assert key not in told


def test_nothing_is_overwritten_unasked(saved: Site) -> None:
    """Neither a file by a backup nor a database by a restore."""
    before = saved.backup.read_bytes()
    assert "choose another name" in saved.refused("backup", str(saved.backup))
    assert saved.backup.read_bytes() == before

    assert "--replace" in saved.refused("restore", str(saved.backup))
    assert saved.names() == ["Acme", "Later"]


def test_a_served_database_is_backed_up_and_not_replaced(tmp_path: Path) -> None:
    """The backup has what was committed before it; the restore waits for nobody and replaces nothing."""
    site = Site(tmp_path / "data", tmp_path / "backup.db")
    with serve(site.directory) as server:
        committed = "SELECT count(*) FROM audit_events"
        site.ok("organization", "add", "--name", "While serving")
        ((count,),) = site.rows(committed)
        site.ok("backup", str(site.backup))
        assert "in use: stop every `zoned`" in site.refused("restore", str(site.backup), "--replace")
        assert httpx.get(f"{server.url}/readyz", trust_env=False).status_code == 200
        assert site.rows(committed) == [(count,)]
    site.restored()
    assert site.rows(committed)[0][0] > count


def test_no_server_starts_while_a_database_is_replaced(saved: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The restore has the lock that a server takes first, and waits for none that has it."""
    lock = saved.database.resolve().with_name("zonewright.db.lock")
    place, seen = files.place, []

    def placed(draft: Path, path: Path, *, replacing: bool = False) -> None:
        seen.append(files.hold(lock))
        place(draft, path, replacing=replacing)

    with monkeypatch.context() as patch:
        patch.setattr(files, "place", placed)
        saved.restored()
    assert seen == [None]

    held = files.hold(lock)
    assert held is not None, "the lock has ended with the restore"
    assert "stop it first" in saved.refused("restore", str(saved.backup), "--replace")
    os.close(held)
    saved.restored()


def _flip(path: Path) -> None:
    """Change a value inside a row, as a bad disk would: the file is sound, and says something else."""
    content = path.read_bytes()
    assert content.count(b"Acme") >= 1
    path.write_bytes(content.replace(b"Acme", b"Adme"))


def _execute(statement: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with closing(sqlite3.connect(path)) as database, database:
            database.execute(statement)

    return change


_NEWER = """UPDATE backup_manifest SET manifest = replace(manifest, '"format":1', '"format":2')"""
DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a bit": (_flip, "not those that were backed up"),
    "a row": (
        _execute("DELETE FROM service_secrets"),
        "not those that were backed up",
    ),
    "half a file": (lambda path: path.write_bytes(path.read_bytes()[:20_000]), "damaged"),
    "no database": (lambda path: path.write_bytes(b"secret" * 1000), "no backup"),
    "no manifest": (_execute("DROP TABLE backup_manifest"), "no backup"),
    "an empty manifest": (_execute("DELETE FROM backup_manifest"), "does not say what is in it"),
    "a newer program": (_execute(_NEWER), "newer zoned"),
    "no record": (
        _execute(
            "CREATE TRIGGER full BEFORE INSERT ON audit_events BEGIN SELECT RAISE(ABORT, 'no records'); END"
        ),
        "no records",
    ),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_what_is_damaged_replaces_nothing(saved: Site, what: str) -> None:
    """All of it is verified, prepared and recorded before; a good copy of it is restored afterwards."""
    good = saved.backup.read_bytes()
    damage, told = DAMAGES[what]
    damage(saved.backup)

    assert told in saved.refused("restore", str(saved.backup), "--replace")

    assert saved.names() == ["Acme", "Later"]
    assert not list(saved.directory.glob(".*"))
    saved.backup.write_bytes(good)
    saved.restored()
    assert saved.names() == ["Acme"]


def test_another_key_does_not_open_it(saved: Site, tmp_path: Path) -> None:
    """Found before anything is replaced; so is a key that is missing."""
    elsewhere = Site(tmp_path / "elsewhere", saved.backup)
    assert "key" in elsewhere.refused("restore", str(saved.backup))
    assert not elsewhere.database.exists()
    elsewhere.ok("init", "--organization", "Other")
    assert "not the one" in elsewhere.refused("restore", str(saved.backup), "--replace")
    assert elsewhere.names() == ["Other"]

    shutil.copy(saved.directory / "key-encryption.key", elsewhere.directory / "key-encryption.key")
    elsewhere.restored()
    assert elsewhere.names() == ["Acme"]


def test_what_an_earlier_database_left_does_not_get_into_the_restored_one(saved: Site) -> None:
    """Its write-ahead log: SQLite would write it into the file that has the name."""
    with serve(saved.directory):
        saved.ok("organization", "add", "--name", "In the log")
        log = saved.database.with_name("zonewright.db-wal")
        left = log.read_bytes()
        assert left
    saved.database.unlink()
    log.write_bytes(left)

    saved.ok("restore", str(saved.backup))

    assert saved.names() == ["Acme"]
    assert "  ok  " in saved.ok("audit", "verify")


def test_short_lived_state_is_forgotten_and_that_of_others_is_not(saved: Site, redis_url: str) -> None:
    """What Redis knows is newer than the backup."""
    with redis.Redis.from_url(redis_url) as client:
        client.mset({f"zonewright:epoch:{number}": "7" for number in range(1_500)} | {"somebody:else": "1"})

        saved.ok("restore", str(saved.backup), "--replace", ZONED_REDIS_URL=redis_url)

        assert client.keys("*") == [b"somebody:else"]


def test_postgresql_has_its_own_tools(site: Site) -> None:
    """And the refusal names them."""
    url = {"ZONED_DATABASE_URL": "postgresql+asyncpg://nobody@127.0.0.1:1/none"}
    assert "pg_dump" in site.refused("backup", str(site.backup), **url)
    assert "pg_restore" in site.refused("restore", str(site.backup), **url)
