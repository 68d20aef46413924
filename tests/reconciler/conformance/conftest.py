"""The servers that have to answer alike: the model of the management API, and `zoned` on both databases."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.reconciler.conformance.configuration import Configuration, FakeHand, HttpHand
from tests.reconciler.fake_server import API_KEY, ORGANIZATION, FakeServer, World
from tests.support.applying import create
from tests.support.server import Server, serve

from reconciler.kinds import Kinds

SERVERS = ("fake", "sqlite", "postgresql")


@pytest.fixture(scope="session")
def zoned_on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The real server on SQLite; every test has an owner and a zone of its own."""
    with serve(tmp_path_factory.mktemp("served") / "data", organization="acme") as server:
        yield server


@pytest.fixture(scope="session")
def zoned_on_postgresql(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Server]:
    """The real server on PostgreSQL."""
    url = asyncio.run(request.getfixturevalue("postgres").migrated())
    directory = tmp_path_factory.mktemp("served") / "data"
    with serve(directory, organization="acme", database_url=url) as server:
        yield server


@pytest.fixture(params=SERVERS)
def empty(request: pytest.FixtureRequest, kinds: Kinds) -> Iterator[Configuration]:
    """A configuration that manages nothing yet, on each server in turn."""
    if request.param == "fake":
        world = World(kinds)
        with FakeServer.running(world) as fake, _client(fake.url, API_KEY) as client:
            yield Configuration.new(client, ORGANIZATION, FakeHand(world))
    else:
        server: Server = request.getfixturevalue(f"zoned_on_{request.param}")
        with _client(server.url, server.api_key) as client:
            yield Configuration.new(client, server.organization_id, HttpHand(client))


@pytest.fixture
def git(empty: Configuration) -> Configuration:
    """A configuration that manages a zone with an application `agent` in it."""
    empty.apply(
        create("Zone", empty.zone, name=empty.zone),
        create(
            "Application",
            "agent",
            {"local_id": f"Zone:{empty.zone}"},
            name="Agent",
            identifier="agent",
        ),
    )
    return empty


@pytest.fixture
def zone_id(git: Configuration) -> str:
    """The id of its zone."""
    return git.id("Zone", git.zone)


def _client(url: str, api_key: str) -> httpx.Client:
    headers: dict[str, Any] = {"Authorization": f"Bearer {api_key}"}
    return httpx.Client(base_url=url, headers=headers, timeout=60)
