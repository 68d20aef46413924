"""Fixtures that every part uses: real databases and real Redis, each started once and only when a test asks.

`database` and `state` are parametrized, so a test that takes one runs against both forms of it. A test that
does not care takes `sqlite_url`, `sqlite_database` or `memory_state`.
"""

import asyncio
import compileall
import gc
import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from httpx._config import DEFAULT_TIMEOUT_CONFIG
from tests.support import replay_memory, rewriting
from tests.support.database_timeouts import lengthen_database_timeouts
from tests.support.economy import economize
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.redis import RedisServer, running_redis
from tests.support.server import Server, migrated, serve
from tests.support.throttling import keep_one_window

from runtime.logs import outage_warnings, throttled_warnings
from runtime.storage.sql.database import Database
from runtime.storage.state import StateStore
from runtime.storage.state.memory import InProcessState
from runtime.storage.state.redis import RedisState

HTTP_TIMEOUT_SECONDS = 30.0

# Where tests start processes, wait for what only time brings, or try many random cases.
_LONG = (
    "tests/end_to_end",
    "tests/fuzz",
    "tests/runtime/nodes",
    "tests/reconciler/hostile",
    "tests/reconciler/plan",
    "tests/reconciler/real",
    "tests/shipping",
    "tests/runtime/authority/test_recreated_entities.py",
    "tests/runtime/authority/test_revocation_effects.py",
    "tests/runtime/authorization/test_client_libraries.py",
    "tests/runtime/clients",
    "tests/runtime/connect",
    "tests/runtime/grants/test_attenuated_zone.py",
    "tests/runtime/grants/test_delegation_chains.py",
    "tests/runtime/grants/test_recreated_clients.py",
    "tests/runtime/management/changesets",
    "tests/runtime/test_floods.py",
    "tests/runtime/test_leaks.py",
    "tests/runtime/test_logs.py",
    "tests/runtime/vault/test_refresh.py",
    "tests/test_benchmark_report.py",
    "tests/test_docs_limits.py",
    "tests/test_docs_pictures.py",
)

_started = pytest.StashKey[dict[str, str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Do once what is dear, and let tests wait longer than httpx does: a busy machine is no failure."""
    config.stash[_started] = {}
    economize()
    lengthen_database_timeouts()
    replay_memory.begin_earlier()
    hypothesis.settings.register_profile("untimed", deadline=None)
    hypothesis.settings.load_profile("untimed")
    if not hasattr(config, "workerinput"):  # for the processes that tests start
        compileall.compile_dir(Path(__file__).parents[1] / "src", quiet=2)
        config.option.loadscopereorder = False  # by `pytest_collection_modifyitems`
        if config.getoption("numprocesses", None):
            modules = rewriting.modules_of(config.args, config.invocation_params.dir)
            rewriting.prepare(modules, config, processes=os.cpu_count() or 1)
    for name in ("connect", "read", "write", "pool"):
        setattr(DEFAULT_TIMEOUT_CONFIG, name, HTTP_TIMEOUT_SECONDS)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two processes for each core: tests wait for a third of their time, for servers and for clocks.

    One where only long tests are run: these keep processes of their own busy.
    """
    cores = os.cpu_count() or 1
    return cores if config.option.markexpr == "long" else 2 * cores


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes long for each test, beside files of many tests.

    Those wait more than they work, and these work: cores are busy from the beginning, and none idles in the
    end while another has a long file.
    """
    if hasattr(config, "workerinput"):
        files = Counter(item.path for item in items)
        waiting = {item.path for item in items if item.nodeid.startswith(_LONG)}
        place: dict[Path, tuple[int, bool]] = {}
        for group in (waiting, files.keys() - waiting):
            by_count = sorted(group, key=lambda path: (-files[path], path))
            place.update((path, (number, path not in waiting)) for number, path in enumerate(by_count))
        items.sort(key=lambda item: (*place[item.path], item.path))


def pytest_collection_finish() -> None:
    """Spare the collector what stays to the end: every module, and every test that there is."""
    gc.freeze()


def pytest_runtest_setup() -> None:
    """Let each test that fails show its own warnings, also those that an earlier one has logged already."""
    for warnings in (throttled_warnings, outage_warnings):
        warnings._logged.clear()


def _note(config: pytest.Config, name: str, version: str) -> None:
    """Remember that a real server runs, also where this is one of several processes."""
    config.stash[_started][name] = version
    if hasattr(config, "workeroutput"):
        config.workeroutput.setdefault("started", {})[name] = version


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a process of its own has noted."""
    node.config.stash[_started].update(getattr(node, "workeroutput", {}).get("started", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which real servers the run was against."""
    if started := config.stash[_started]:
        servers = ", ".join(f"{name} {version} started" for name, version in sorted(started.items()))
        terminalreporter.write_line(f"storage: {servers}")


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """The session's PostgreSQL server."""
    with running_postgres() as server:
        _note(request.config, "PostgreSQL", server.version)
        yield server


@pytest.fixture(scope="session")
def redis_server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    """The session's Redis server."""
    with running_redis() as server:
        server.clear()
        _note(request.config, "Redis", server.version)
        yield server


@pytest.fixture(scope="session")
def _sqlite_template() -> Path:
    return migrated()


@pytest.fixture
def one_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """No window of a rate limit ends during the test."""
    keep_one_window(monkeypatch)


@pytest.fixture
async def postgres_url(postgres: PostgresServer) -> AsyncIterator[str]:
    """A new PostgreSQL database with all tables."""
    url = await postgres.migrated()
    yield url
    await postgres.drop(url)


@pytest.fixture
def sqlite_url(_sqlite_template: Path, tmp_path: Path) -> str:
    """A new SQLite database with all tables."""
    path = tmp_path / "zonewright.db"
    shutil.copy(_sqlite_template, path)
    return f"sqlite+aiosqlite:///{path}"


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """A new database with all tables, of each kind in turn."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    return url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """An open new database, of each kind in turn."""
    opened = Database.open(database_url)
    yield opened
    await opened.close()


@pytest.fixture
async def sqlite_database(sqlite_url: str) -> AsyncIterator[Database]:
    """An open new SQLite database."""
    opened = Database.open(sqlite_url)
    yield opened
    await opened.close()


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """An empty Redis."""
    redis_server.clear()
    return redis_server.url


@pytest.fixture(scope="session")
def zoned_on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service over SQLite, for tests that each have an organization of their own on it."""
    with serve(tmp_path_factory.mktemp("zoned") / "data") as running:
        yield running


@pytest.fixture(scope="session")
def zoned_on_postgresql(
    postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A service over PostgreSQL, for the same."""
    url = asyncio.run(postgres.migrated())
    with serve(tmp_path_factory.mktemp("zoned") / "data", database_url=url) as running:
        yield running


@pytest.fixture
async def memory_state() -> AsyncIterator[StateStore]:
    """Short-lived state in this process."""
    state = InProcessState()
    yield state
    await state.close()


@pytest.fixture
async def redis_state(redis_url: str) -> AsyncIterator[StateStore]:
    """Short-lived state in Redis."""
    state = RedisState.open(redis_url)
    yield state
    await state.close()


@pytest.fixture(params=["memory", "redis"])
def state(request: pytest.FixtureRequest) -> StateStore:
    """Empty short-lived state, of each form in turn."""
    made: StateStore = request.getfixturevalue(f"{request.param}_state")
    return made
