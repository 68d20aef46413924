"""Fixtures of modules whose tests run on a database of their own, of each kind in turn."""

from collections.abc import AsyncIterator

import pytest
from tests.support.factories import opened_parts
from tests.support.postgres import PostgresServer

from runtime.services.container import Services
from runtime.storage.sql.migrate import migrate

__all__ = ["server", "storage"]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def server(request: pytest.FixtureRequest) -> PostgresServer | None:
    """Where the database is; None for SQLite."""
    return request.getfixturevalue("postgres") if request.param == "postgresql" else None


@pytest.fixture(scope="module")
async def storage(
    server: PostgresServer | None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Services]:
    """Parts over a new database."""
    folder = tmp_path_factory.mktemp("storage")
    if server is None:
        url = f"sqlite+aiosqlite:///{folder / 'zonewright.db'}"
        await migrate(url)
    else:
        url = await server.migrated()
    async with opened_parts(folder, database_url=url) as services:
        yield services
