"""A stored zone, in a transaction of each kind of database in turn."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support import entities as make
from tests.support.postgres import PostgresServer, forget_rows

from runtime.storage.sql.database import Database


@pytest.fixture(scope="session")
async def _kept(postgres: PostgresServer) -> AsyncIterator[Database]:
    url = await postgres.migrated()
    opened = Database.open(url)
    yield opened
    await opened.close()
    await postgres.drop(url)


@pytest.fixture
async def emptied_database(_kept: Database) -> AsyncIterator[Database]:
    """An open PostgreSQL database without rows. To make one takes longer than most tests here do."""
    yield _kept
    await forget_rows(_kept)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Database:
    """An open database without rows, of each kind in turn, for tests that change nothing but rows."""
    known = {"sqlite": "sqlite_database", "postgresql": "emptied_database"}
    found: Database = request.getfixturevalue(known[request.param])
    return found


@pytest.fixture
async def conn(database):
    """A connection in a write transaction."""
    async with database.transaction() as opened:
        yield opened


@pytest.fixture
async def zone(conn):
    """A stored zone."""
    return await make.add_zone(conn)


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_server(request: pytest.FixtureRequest) -> PostgresServer | None:
    """Of each kind in turn: None for SQLite. A server is started here, where no event loop runs yet."""
    return None if request.param == "sqlite" else request.getfixturevalue("postgres")


@pytest.fixture
async def empty_url(empty_server: PostgresServer | None, tmp_path: Path) -> AsyncIterator[str]:
    """A new database without tables, of each kind in turn."""
    if empty_server is None:
        yield f"sqlite+aiosqlite:///{tmp_path}/empty.db"
        return
    url = await empty_server.empty()
    yield url
    await empty_server.drop(url)
