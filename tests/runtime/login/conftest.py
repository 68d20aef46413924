"""One server for the tests of a module; every test makes the zones it needs.

Modules whose facts depend on what the storage promises run on both: they say so with `STORAGE`.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.factories import company_of
from tests.support.oauth_site import Browser, Site
from tests.support.server import serve


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "site" in metafunc.fixturenames:
        forms = getattr(metafunc.module, "STORAGE", ("embedded",))
        metafunc.parametrize("site", forms, indirect=True, scope="module")


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A running server with an organization: on SQLite and its own memory, or on PostgreSQL and Redis."""
    settings: dict[str, Any] = {}
    if request.param == "servers":
        redis = request.getfixturevalue("redis_server")
        redis.clear()
        postgres = request.getfixturevalue("postgres")
        settings = {"database_url": asyncio.run(postgres.migrated()), "redis_url": redis.url}
    with serve(tmp_path_factory.mktemp("server"), **settings) as server:
        yield Site(server, company_of(server))


@pytest.fixture
def browser() -> Iterator[Browser]:
    """A browser without cookies."""
    made = Browser()
    yield made
    made.http.close()
