"""Fixtures of the reconciler's tests: the real kinds, a world, a server, and a way to run commands."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.reconciler.fake_server import API_KEY, FakeServer, World
from tests.reconciler.real_server import RealWorld
from tests.support.postgres import PostgresServer

from reconciler.cli import run
from reconciler.kinds import Kinds, load_kinds


@pytest.fixture(scope="session")
def kinds() -> Kinds:
    """The kinds of the checked-in schemas."""
    return load_kinds()


@pytest.fixture(scope="session")
def _caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where tests have their caches: pytest looks through all directories before it makes the next one."""
    return tmp_path_factory.mktemp("caches")


@pytest.fixture(autouse=True)
def _own_cache(_caches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test begins with an empty cache and without settings from outside."""
    for name in ("CACHE", "STATE"):
        monkeypatch.setenv(f"ZONECTL_{name}_DIR", tempfile.mkdtemp(dir=_caches))
    for name in ("SERVER", "API_KEY", "CLIENT_ID", "CLIENT_SECRET", "ORGANIZATION", "OWNER"):
        monkeypatch.delenv(f"ZONECTL_{name}", raising=False)


@pytest.fixture
def world(kinds: Kinds) -> World:
    """An organization with nothing in it."""
    return World(kinds)


@pytest.fixture(scope="session")
def real_on_sqlite(
    kinds: Kinds, _sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealWorld]:
    """A real server over SQLite."""
    directory = tmp_path_factory.mktemp("real")
    shutil.copy(_sqlite_template, directory / "zonewright.db")
    url = f"sqlite+aiosqlite:///{directory / 'zonewright.db'}"
    with RealWorld.running(kinds, directory / "data", url) as running:
        yield running


@pytest.fixture(scope="session")
def real_on_postgresql(
    kinds: Kinds, postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealWorld]:
    """A real server over PostgreSQL."""
    url = asyncio.run(postgres.migrated())
    with RealWorld.running(kinds, tmp_path_factory.mktemp("real") / "data", url) as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def real(request: pytest.FixtureRequest) -> RealWorld:
    """An organization with nothing in it on a real server, over each database in turn."""
    running: RealWorld = request.getfixturevalue(f"real_on_{request.param}")
    return running.another()


@pytest.fixture(params=["fake", "sqlite", "postgresql"])
def any_world(request: pytest.FixtureRequest, kinds: Kinds) -> World | RealWorld:
    """An organization with nothing in it: of the model, and of the real server, which has to answer alike."""
    if request.param == "fake":
        return World(kinds)
    running: RealWorld = request.getfixturevalue(f"real_on_{request.param}")
    return running.another()


@pytest.fixture
def server(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    """That organization behind HTTP; the environment says how to reach it."""
    with FakeServer.running(world) as running:
        monkeypatch.setenv("ZONECTL_SERVER", running.url)
        monkeypatch.setenv("ZONECTL_API_KEY", API_KEY)
        yield running


@dataclass
class Result:
    """What a command did."""

    exit_code: int
    out: str
    err: str


@pytest.fixture
def zonectl(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Runs one command in this process."""

    def call(*arguments: object) -> Result:
        capsys.readouterr()
        code = run([str(each) for each in arguments])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture
def config(tmp_path: Path) -> "Folder":
    """A configuration's directory, with an owner."""
    folder = Folder(tmp_path / "config")
    folder.write("zonectl.yaml", "owner: acme/identity\n")
    return folder


class Folder:
    """A directory of manifests."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, text: str) -> Path:
        """Write a file."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)
