"""A configuration of a new company; tests that need another one bring their own."""

import asyncio
import shutil
from collections.abc import AsyncIterator

import pytest
from tests.support.applying import Git, create
from tests.support.factories import found_company, opened_parts
from tests.support.postgres import PostgresServer

from runtime.services.container import Services


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def storage(request: pytest.FixtureRequest) -> str | PostgresServer:
    """What a database is copied from, of each kind in turn: a file, or a server's template."""
    if request.param == "sqlite":
        return str(request.getfixturevalue("_sqlite_template"))
    server: PostgresServer = request.getfixturevalue("postgres")
    return server


@pytest.fixture(scope="module")
async def shared_parts(
    storage: str | PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Services]:
    """Parts over a new database: a module's tests look each at its own company."""
    folder = tmp_path_factory.mktemp("changes")
    if isinstance(storage, PostgresServer):
        url = await storage.migrated()
    else:
        await asyncio.to_thread(shutil.copy, storage, folder / "zonewright.db")
        url = f"sqlite+aiosqlite:///{folder / 'zonewright.db'}"
    async with opened_parts(folder, database_url=url, public_url="https://zones.test") as services:
        yield services
    if isinstance(storage, PostgresServer):
        await storage.drop(url)


@pytest.fixture
async def git(shared_parts: Services) -> Git:
    """A configuration for a new company, beside those of the module's other tests."""
    return Git(await found_company(shared_parts, "Example"))


@pytest.fixture
async def zone(git: Git) -> str:
    """The id of a zone that the configuration owns."""
    await git.apply(create("Zone", "acme", name="Acme"))
    return git.id("Zone", "acme")
