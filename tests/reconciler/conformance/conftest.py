"""The servers that have to answer alike: the model of the management API, and `zoned` on both databases."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.reconciler.conformance.configuration import Configuration, FakeHand, HttpHand
from tests.reconciler.fake_server import API_KEY, ORGANIZATION, FakeServer, World
from tests.support.applying import create
from tests.support.server import another_organization

from reconciler.kinds import Kinds

SERVERS = ("fake", "sqlite", "postgresql")


@pytest.fixture(params=SERVERS)
def empty(request: pytest.FixtureRequest, kinds: Kinds) -> Iterator[Configuration]:
    """A configuration that manages nothing yet, on each server in turn."""
    if request.param == "fake":
        world = World(kinds)
        with FakeServer.running(world) as fake, _client(fake.url, API_KEY) as client:
            yield Configuration.new(client, ORGANIZATION, FakeHand(world))
    else:
        # An organization for each test: a snapshot reads all of one.
        server = another_organization(request.getfixturevalue(f"zoned_on_{request.param}"), "acme")
        with _client(server.url, server.api_key) as client:
            yield Configuration.new(client, server.organization_id, HttpHand(client, server))


@pytest.fixture
def zone_id(empty: Configuration) -> str:
    """The id of the configuration's zone, with an application `agent` in it."""
    made = empty.apply(
        create("Zone", empty.zone, name=empty.zone),
        create(
            "Application",
            "agent",
            {"local_id": f"Zone:{empty.zone}"},
            name="Agent",
            identifier="agent",
        ),
    )
    return str(made["operations"][0]["id"])


@pytest.fixture
def git(empty: Configuration, zone_id: str) -> Configuration:
    """The configuration, once it manages that zone."""
    return empty


def _client(url: str, api_key: str) -> httpx.Client:
    headers: dict[str, Any] = {"Authorization": f"Bearer {api_key}"}
    return httpx.Client(base_url=url, headers=headers, timeout=60)
