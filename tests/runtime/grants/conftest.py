"""One organization for each module of tests, on the embedded default and on PostgreSQL with Redis."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.login.conftest import browser, pytest_generate_tests, site
from tests.support.factories import App, Company, Person, found_company, opened_parts
from tests.support.postgres import PostgresServer
from tests.support.redis import RedisServer
from tests.support.scene import Scene

from runtime.domain.kinds.resource import Resource
from runtime.services.container import Services

__all__ = ["browser", "pytest_generate_tests", "site"]


@pytest.fixture(scope="module", params=["embedded", "networked"])
def servers(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What a storage mode is made of: an empty SQLite file, or real PostgreSQL and Redis servers."""
    if request.param == "embedded":
        return {"template": request.getfixturevalue("_sqlite_template")}
    return {
        "postgres": request.getfixturevalue("postgres"),
        "redis": request.getfixturevalue("redis_server"),
    }


@pytest.fixture(scope="module")
async def storage_settings(
    servers: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[dict[str, Any]]:
    """The settings that name a new migrated database, and the short-lived state beside it."""
    folder = tmp_path_factory.mktemp("zoned")
    if "template" in servers:
        template: Path = servers["template"]
        await asyncio.to_thread(shutil.copy, template, folder / "zonewright.db")
        yield {
            "data_dir": folder,
            "database_url": f"sqlite+aiosqlite:///{folder / 'zonewright.db'}",
            "redis_url": None,
        }
        return
    postgres: PostgresServer = servers["postgres"]
    redis: RedisServer = servers["redis"]
    url = await postgres.migrated()
    yield {"data_dir": folder, "database_url": url, "redis_url": redis.url}
    await postgres.drop(url)


@pytest.fixture(scope="module")
async def services(storage_settings: dict[str, Any]) -> AsyncIterator[Services]:
    """Parts over SQLite with state in this process, then over PostgreSQL with Redis."""
    async with opened_parts(**storage_settings) as opened:
        yield opened


@pytest.fixture(scope="module")
async def company(services: Services) -> Company:
    return await found_company(services)


@pytest.fixture(scope="module")
async def scene(company: Company) -> Scene:
    """A zone that the module's tests share; each brings its own applications and resources."""
    return Scene(company, await company.zone())


@pytest.fixture
async def own_scene(company: Company) -> Scene:
    """A zone of this test alone, for those that change its policies or keys."""
    return Scene(company, await company.zone())


@pytest.fixture(scope="module")
async def api(scene: Scene) -> Resource:
    """What tokens are exchanged for, where a module says nothing else."""
    return await scene.company.resource(scene.zone, "https://api.test", scopes=["read"])


@pytest.fixture(scope="module")
async def agent(scene: Scene, api: Resource) -> App:
    """An application that depends on it."""
    return await scene.company.app(scene.zone, "agent", dependencies=[api])


@pytest.fixture(scope="module")
async def ann(scene: Scene) -> Person:
    """Somebody who has signed in."""
    return await scene.company.person(scene.zone, "ann@acme.test")


@pytest.fixture
async def subject(scene: Scene, agent: App, ann: Person) -> str:
    """A token that the agent has for her."""
    return await scene.company.token(scene.zone, agent, ann)
