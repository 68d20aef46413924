"""A `zonewright.db` that was copied while a server had it open: without its `-wal` it may lack writes."""

import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from acme import Server
from click.testing import CliRunner
from tests.runtime.cli.test_doctor import diagnosed
from tests.support.waiting import let_pass, wait_until

from runtime.cli import main
from runtime.storage.sql import file_copies

pytestmark = pytest.mark.long

NAME, WAL = "zonewright.db", "zonewright.db-wal"
WELL = (0, {})


def is_marked(file: Path) -> bool:
    """Whether the file alone has a mark. Spec: SQLite, Database File Format, section 1.3."""
    return any(file.read_bytes()[68:72])


def zones(database: Path) -> int:
    """How many there are, for somebody who looks with SQLite's own tools, and closes the file again."""
    with closing(sqlite3.connect(database)) as own:
        (found,) = own.execute("SELECT count(*) FROM zones").fetchone()
    return int(found)


def doctor(server: Server, directory: Path) -> tuple[int, dict[str, dict[str, str]], str]:
    """As `diagnosed`, at the address of a server."""
    return diagnosed(directory, ZONED_PUBLIC_URL=server.url, ZONED_LISTEN=server.url.removeprefix("http://"))


def copied(server: Server, *names: str) -> Server:
    """A copy of some files of the data directory, and of the key, at another place."""
    to = server.directory.with_name("copy")
    to.mkdir(mode=0o700)
    for name in (*names, "key-encryption.key"):
        shutil.copy(server.directory / name, to / name)
    return Server(to)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """One that runs, whose file is marked, and that has written since."""
    made = Server(tmp_path / "data")
    made.init()
    made.start()
    try:
        wait_until(lambda: is_marked(made.directory / NAME))
        with made.management() as client:
            assert client.post("/zones", json={"name": "New"}).status_code == 200
        yield made
    finally:
        made.stop()


def test_a_copy_without_its_wal(server: Server) -> None:
    """It is told until the operator accepts it: before a server serves it, meanwhile, and afterwards."""
    copy = copied(server, NAME)
    code, wrong, text = doctor(server, copy.directory)
    assert (code, set(wrong)) == (1, {"files"})
    assert wrong["files"] == {
        "check": "files",
        "verdict": "problem",
        "detail": f"`{copy.directory / NAME}` was copied from a running server without its `-wal`: the writes"
        " before the copy, revocations too, may be missing",
        "remedy": "restore a backup of `zoned backup`, or use the copy as it is:"
        " `zoned doctor --accept-copy`",
    }
    assert f"{'files':20} problem: {wrong['files']['detail']}; {wrong['files']['remedy']}\n" in text

    copy.start()
    assert "the database may lack writes, for it was copied without its `-wal`" in copy.log.read_text()
    beside = doctor(server, copy.directory)
    copy.stop()
    assert [beside[:2], doctor(server, copy.directory)[:2]] == [(1, wrong)] * 2

    accepted = CliRunner(env={"ZONED_DATA_DIR": str(copy.directory)}).invoke(
        main, ["doctor", "--accept-copy"]
    )

    assert (accepted.exit_code, doctor(server, copy.directory)[:2]) == (0, WELL)
    assert doctor(server, server.directory)[:2] == WELL
    server.stop()
    assert zones(copy.directory / NAME) < zones(server.directory / NAME)


def test_a_copy_with_its_wal(server: Server) -> None:
    """It lacks nothing, whoever opens it first."""
    copy = copied(server, NAME, WAL)

    found = zones(copy.directory / NAME)

    assert not (copy.directory / WAL).exists()
    assert (doctor(server, copy.directory)[:2], doctor(server, server.directory)[:2]) == (WELL, WELL)
    server.stop()
    assert found == zones(server.directory / NAME)


def test_a_server_that_was_killed(server: Server) -> None:
    """What it left is complete, also once another program has written its `-wal` into the file."""
    server.kill()
    assert (server.directory / WAL).stat().st_size

    assert doctor(server, server.directory)[:2] == WELL

    assert not (server.directory / WAL).exists()
    assert doctor(server, server.directory)[:2] == WELL


def test_a_server_that_was_stopped(server: Server) -> None:
    """Its file may be copied alone."""
    server.stop()

    assert doctor(server, copied(server, NAME).directory)[:2] == WELL


def test_a_backup_of_a_server_that_runs(server: Server) -> None:
    """It is complete, and so is what is restored from it."""
    file = server.directory.with_name("backup.db")
    server.run("backup", str(file))
    other = Server(server.directory.with_name("restored"))
    other.directory.mkdir(mode=0o700)
    shutil.copy(server.directory / "key-encryption.key", other.directory)

    other.run("restore", str(file))

    assert not is_marked(file)
    assert doctor(server, other.directory)[:2] == WELL


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database, looked at often."""
    monkeypatch.setattr(file_copies, "EVERY_SECONDS", 0.01)
    made = tmp_path / "data" / "some.db"
    made.parent.mkdir()
    with closing(sqlite3.connect(made)) as own:
        own.execute("PRAGMA journal_mode = WAL")
        own.execute("CREATE TABLE zones (filling)")
    return made


def copy_is_incomplete(file: Path) -> bool:
    """What is found of a copy without what lies beside it; of one that was made during a write, nothing."""
    copy = shutil.copy(file, file.parent.parent / "copy.db")
    with suppress(sqlite3.DatabaseError):  # malformed
        return file_copies.is_incomplete(copy)
    return False


def descriptors() -> int:
    """How many this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_the_mark_outlasts_many_writes(file: Path) -> None:
    """SQLite writes the `-wal` into the file now and then, and with it that there is no mark."""
    with closing(sqlite3.connect(file, isolation_level=None)) as own, file_copies.marked(file):
        for _ in range(20):
            own.execute("INSERT INTO zones VALUES (zeroblob(1000000))")
            wait_until(lambda: copy_is_incomplete(file))
            assert not file_copies.is_incomplete(file)
        own.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        wait_until(lambda: copy_is_incomplete(file))
        own.execute("DELETE FROM zones")

    assert not copy_is_incomplete(file)


def test_the_mark_costs_no_descriptors(file: Path) -> None:
    """Each look opens the file anew: SQLite keeps what it may not close yet, to use it the next time."""
    with closing(sqlite3.connect(file, isolation_level=None)) as own, file_copies.marked(file):
        own.execute("INSERT INTO zones VALUES (1)")
        wait_until(lambda: copy_is_incomplete(file))
        before = descriptors()
        let_pass(0.5)

        assert descriptors() <= before + 2  # those of a look that is under way


def test_a_long_write_as_the_server_stops(file: Path) -> None:
    """It has come between the mark and its end, and is over only when nobody looks any more."""
    ready, over = threading.Event(), threading.Event()

    def write() -> None:
        with closing(sqlite3.connect(file, isolation_level=None, timeout=30)) as own:
            ready.wait()
            own.execute("BEGIN IMMEDIATE")
            own.execute("INSERT INTO zones VALUES (1)")
            over.wait()
            own.execute("COMMIT")

    keep = file_copies._set

    def interrupted(own: sqlite3.Connection, mark: int) -> None:
        keep(own, mark)
        if mark == file_copies._IN_USE:
            ready.set()
            wait_until(lambda: _is_locked(file))

    writer = threading.Thread(target=write)
    writer.start()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(file_copies, "_WAIT_SECONDS", 0.01)
        patched.setattr(file_copies, "_set", interrupted)
        with file_copies.marked(file):
            assert ready.wait(30)
            let_pass(0.2)  # in which the mark's end is tried in vain
            patched.setattr(file_copies, "_set", keep)
            threading.Timer(0.3, over.set).start()
    writer.join()

    assert zones(file) == 1
    assert not copy_is_incomplete(file)


def _is_locked(file: Path) -> bool:
    """Whether somebody is writing."""
    with closing(sqlite3.connect(file, isolation_level=None, timeout=0)) as own:
        try:
            own.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        own.execute("ROLLBACK")
    return False


def test_an_incomplete_copy_stays_one(file: Path) -> None:
    """What is done with it takes nothing of that away: a crash that leaves a `-wal`, and a backup."""
    copy = file.parent.parent / "copy.db"
    with file_copies.marked(file):
        wait_until(lambda: copy_is_incomplete(file))
        shutil.copy(file, copy)
    assert file_copies.note_incomplete(copy)

    with closing(sqlite3.connect(copy, isolation_level=None)) as own:
        own.execute("CREATE TABLE something (it)")
        assert Path(f"{copy}-wal").stat().st_size > 0
        assert file_copies.note_incomplete(copy)
        file_copies.remove_mark(own)
    assert file_copies.is_incomplete(copy)
    file_copies.accept(copy)
    assert not file_copies.is_incomplete(copy)


def test_a_server_that_was_killed_while_it_marked_the_file(file: Path) -> None:
    """Its `-wal` has the mark, which nobody writes into the file for good once anybody has looked."""
    left = file.parent.parent / "left.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as own:
        own.execute(f"PRAGMA application_id = {file_copies._IN_USE}")
        for end in ("", "-wal"):
            shutil.copy(f"{file}{end}", f"{left}{end}")
        own.execute("PRAGMA application_id = 0")

    assert not file_copies.is_incomplete(left)
    assert zones(left) == 0  # whoever closes it last leaves no `-wal`
    assert not left.with_name("left.db-wal").exists()
    assert not file_copies.is_incomplete(left)


def test_a_database_that_is_reached_by_a_link(file: Path) -> None:
    """What is written meanwhile lies beside the file, not beside the link."""
    link = file.parent.parent / "link.db"
    link.symlink_to(file)
    with closing(sqlite3.connect(link, isolation_level=None)) as own, file_copies.marked(link):
        own.execute("INSERT INTO zones VALUES (1)")
        wait_until(lambda: copy_is_incomplete(file))
        assert not file_copies.is_incomplete(link)

    assert not file_copies.is_incomplete(link)


def test_a_database_that_others_write_to_or_may_not_be_written(file: Path) -> None:
    """Who marks it waits for nobody for long, and goes on once it may."""
    with file_copies.marked(file):
        wait_until(lambda: copy_is_incomplete(file))
        with closing(sqlite3.connect(file, isolation_level=None)) as own:
            own.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            own.execute("BEGIN IMMEDIATE")
            own.execute("INSERT INTO zones VALUES (zeroblob(3000000))")
            let_pass(0.1)
            own.execute("COMMIT")
        wait_until(lambda: copy_is_incomplete(file))

    assert zones(file) == 1


def test_a_file_that_is_no_database_or_is_not_there(tmp_path: Path) -> None:
    """What is wrong with it is told by whoever opens it."""
    assert not file_copies.is_incomplete(tmp_path / "none.db")
    (tmp_path / "text.db").write_text("no database" * 100)
    with pytest.raises(sqlite3.Error):
        file_copies.is_incomplete(tmp_path / "text.db")
    assert list(tmp_path.iterdir()) == [tmp_path / "text.db"]
