"""One server for the tests of a module; every test makes the zones it needs.

Modules whose facts depend on what the storage promises run on both: they say so with `STORAGE`. So do those
whose pages one node shows and another one takes the answer of.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.support.balancer import balancing
from tests.support.connections import Connections
from tests.support.factories import company_of
from tests.support.oauth_site import Browser, Site
from tests.support.server import serve


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "site" in metafunc.fixturenames:
        forms = getattr(metafunc.module, "STORAGE", ("embedded",))
        metafunc.parametrize("site", forms, indirect=True, scope="module")


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A running server with an organization: on SQLite and its own memory, or on PostgreSQL and Redis.

    With `nodes`, two servers on those take turns with every request; the administrators are at the first.
    """
    settings: dict[str, Any] = {}
    if request.param != "embedded":
        redis = request.getfixturevalue("redis_server")
        redis.clear()
        postgres = request.getfixturevalue("postgres")
        settings = {"database_url": asyncio.run(postgres.migrated()), "redis_url": redis.url}
    folder = tmp_path_factory.mktemp("server")
    with ExitStack() as stack:
        if request.param == "nodes":
            balancer = stack.enter_context(balancing())
            settings |= {"public_url": balancer.url, "keep_alive": False}
            second = stack.enter_context(serve(folder, **settings))
        server = stack.enter_context(serve(folder, **settings))
        if request.param == "nodes":
            balancer.lead_to(server.url, second.url)
        yield Site(server, company_of(server))


@pytest.fixture
def browser() -> Iterator[Browser]:
    """A browser without cookies."""
    made = Browser()
    yield made
    made.http.close()


@pytest.fixture
def connections() -> Connections:
    """What watches over the connections to the database."""
    return Connections()
