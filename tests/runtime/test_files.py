"""Files of the service are readable by its own account alone; one module writes all of them."""

import ast
import asyncio
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime import files
from runtime.storage.sql.migrate import migrate

SOURCE = Path(files.__file__).parent

# What makes, moves or opens a file for writing. `open` counts where its mode says so, or may.
_MODULES = {"tempfile", "shutil", "fileinput", "mailbox", "shelve", "dbm", "zipfile", "tarfile", "mmap"}
_OF_OS = {
    *("open", "fdopen", "creat", "mkdir", "makedirs", "mkfifo", "mknod", "link", "symlink", "rename"),
    *("renames", "replace", "chmod", "fchmod", "chown", "umask", "truncate", "memfd_create"),
}
_OF_PATHS = {
    *("write_text", "write_bytes", "touch", "mkdir", "symlink_to", "hardlink_to", "chmod"),
    *("FileHandler", "RotatingFileHandler", "TimedRotatingFileHandler", "WatchedFileHandler"),
}
# Modules that may -> why.
EXEMPT = {
    "runtime/files.py": "these are the functions",
    "runtime/contract/write.py": "writes schemas/ of a checkout, for a developer",
    "runtime/quotas/__main__.py": "writes docs/limits.md of a checkout, for a developer",
}
# Libraries that open files by themselves -> the module that makes the file beforehand, or opens it read-only.
_LIBRARIES = dict.fromkeys(("aiosqlite.connect", "sqlite3.connect"), "runtime/storage/sql/sqlite.py")


def _name(node: ast.expr) -> str:
    """`os.open` of a call's function, as far as it is written out."""
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def _writes(call: ast.Call) -> bool:
    """Tell whether a call may write a file."""
    name = _name(call.func)
    owner, _, last = name.rpartition(".")
    if owner == "os":
        return last in _OF_OS
    if last == "open":
        modes = [
            *call.args[: 2 if not owner else 1],
            *(word.value for word in call.keywords if word.arg == "mode"),
        ]
        told = [
            mode.value for mode in modes if isinstance(mode, ast.Constant) and isinstance(mode.value, str)
        ]
        return (not owner and len(told) != len(modes) - 1) or any(set(mode) & set("wax+") for mode in told)
    if last in ("replace", "rename"):  # those of texts, times and entities take more, or name it
        return len(call.args) == 1 and not call.keywords
    return last in _OF_PATHS


def _found_in(text: str, where: str) -> Iterator[str]:
    nodes = list(ast.walk(ast.parse(text)))
    awaited = {node.value for node in nodes if isinstance(node, ast.Await)}  # no file is: `await users.touch`
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            source = node.module if isinstance(node, ast.ImportFrom) else None
            names = {alias.name for alias in node.names}
            if _MODULES & ({source.partition(".")[0]} if source else names) or (
                source == "os" and names & _OF_OS
            ):
                yield f"{where}:{node.lineno} imports {source or ', '.join(sorted(names))}"
        elif isinstance(node, ast.Call) and node not in awaited:
            name = _name(node.func)
            if _writes(node) or _LIBRARIES.get(name, where) != where:
                yield f"{where}:{node.lineno} calls {name}"


def test_one_module_writes_files() -> None:
    """Whoever else has something to write asks that module, which knows what others may see of it."""
    found = {
        where: list(_found_in(path.read_text(), where))
        for path in sorted(SOURCE.rglob("*.py"))
        if (where := f"runtime/{path.relative_to(SOURCE)}")
    }

    assert [told for where, each in found.items() for told in each if where not in EXEMPT] == []
    assert all(found[where] for where in EXEMPT), "an exemption that nothing needs any more"


@pytest.mark.parametrize(
    "text",
    [
        "open('x', 'w')",
        "open(x, mode)",
        "open(x, mode='ab')",
        "path.open('w')",
        "path.open(mode='x')",
        "path.write_text(t)",
        "path.replace(other)",
        "a.b.mkdir()",
        "os.open(p, f)",
        "from os import open",
        "import tempfile",
        "from shutil import copy",
        "sqlite3.connect(p)",
        "logging.FileHandler(p)",
    ],
)
def test_the_reader_sees_what_writes(text: str) -> None:
    """The check is worth what it notices."""
    assert list(_found_in(text, "runtime/x.py"))


@pytest.mark.parametrize(
    "text", ["open(p)", "open(p, 'rb')", "path.open()", "s.open(x, bound_to=p)", "t.replace('a', 'w')"]
)
def test_the_reader_lets_reading_be(text: str) -> None:
    """Nor would it be, if it took everything for writing."""
    assert not list(_found_in(text, "runtime/x.py"))


@pytest.fixture(params=[0o000, 0o022, 0o777])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("umask")
class TestModes:
    def test_a_file_is_for_its_owner_alone(self, tmp_path: Path) -> None:
        """Whatever the umask takes away or leaves: read and written by their owner, and nobody else."""
        files.make_empty(tmp_path / "empty")
        files.write_whole(tmp_path / "whole", b"1")
        assert files.write_once(tmp_path / "once", b"1")

        assert {each.name: _mode(each) for each in tmp_path.iterdir()} == dict.fromkeys(
            ("empty", "whole", "once"), 0o600
        )

    def test_a_directory_is_for_its_owner_alone(self, tmp_path: Path) -> None:
        """Those that are made on the way, too."""
        files.make_directory(tmp_path / "a" / "b")

        assert (_mode(tmp_path / "a"), _mode(tmp_path / "a" / "b")) == (0o700, 0o700)

    def test_the_files_of_a_database_have_its_mode(self, tmp_path: Path) -> None:
        """SQLite's files beside it have the mode of the database."""
        asyncio.run(migrate(f"sqlite+aiosqlite:///{tmp_path}/made.db"))

        assert {_mode(each) for each in tmp_path.iterdir()} == {0o600}
        assert (tmp_path / "made.db").stat().st_size > 0


def test_what_is_there_is_left_alone(tmp_path: Path) -> None:
    """A directory keeps its mode, a file its content; a file where a directory should be is told."""
    tmp_path.chmod(0o755)
    files.make_directory(tmp_path)
    assert _mode(tmp_path) == 0o755

    (tmp_path / "taken").write_text("kept")
    files.make_empty(tmp_path / "taken")
    assert not files.write_once(tmp_path / "taken", b"other")
    assert (tmp_path / "taken").read_text() == "kept"
    for path in (tmp_path / "taken", tmp_path / "taken" / "below"):
        with pytest.raises(NotADirectoryError):
            files.make_directory(path)

    files.write_whole(tmp_path / "taken", b"other")
    assert [(each.name, each.read_text(), _mode(each)) for each in tmp_path.iterdir()] == [
        ("taken", "other", 0o600)
    ]


def test_what_is_open_is_found_and_closed(tmp_path: Path) -> None:
    """Each with how to mend it; what is not there, or closed, is no finding."""
    for name, mode in (("closed", 0o600), ("readable", 0o644), ("group", 0o660)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    paths = [tmp_path / name for name in ("closed", "readable", "group", "missing")]

    found = list(files.open_to_others(paths))
    assert [(each.path.name, each.mode) for each in found] == [("readable", 0o644), ("group", 0o660)]
    assert str(found[0]).endswith(f"(mode 644): `chmod 600 {tmp_path}/readable`")
    assert all(map(files.close_to_others, found))
    assert list(files.open_to_others(paths)) == []


def test_what_belongs_to_another_account_is_theirs_to_close(tmp_path: Path) -> None:
    """Nobody's mode is changed that is not ours, and the message says whose it is."""
    (tmp_path / "theirs").touch(mode=0o644)
    found = files.ExposedPath(tmp_path / "theirs", 0o644, os.geteuid() + 1)

    assert not files.close_to_others(found)
    assert f"belongs to the account {os.geteuid() + 1}" in str(found)
