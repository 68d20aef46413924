"""Two nodes over one PostgreSQL, each with its own way to Redis, which a test may disturb."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import httpx
import pytest
from tests.support.postgres import PostgresServer
from tests.support.proxy import Proxy, proxied
from tests.support.redis import RedisServer, running_redis
from tests.support.server import Server, serve
from tests.support.waiting import wait_until


@dataclass
class Nodes:
    """Two servers that are one service.

    Attributes:
        first, second: the addresses of zones are those of the first.
        ways: of each to its Redis.
    """

    first: Server
    second: Server
    ways: tuple[Proxy, Proxy]

    @property
    def both(self) -> tuple[Server, Server]:
        return self.first, self.second

    def wait(self, node: Server) -> None:
        """Return when a node has found what it works with."""
        wait_until(
            lambda: httpx.get(f"{node.url}/readyz", trust_env=False).json()["status"] == "ok",
            otherwise=lambda: "a node does not find what it works with",
        )

    def at(self, node: Server, address: str) -> str:
        """What a zone's address is at one of the nodes."""
        return address.replace(self.first.url, node.url)


@pytest.fixture(scope="module")
def nodes(
    postgres: PostgresServer, redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nodes]:
    """Both running, with the session's Redis until a test leads them elsewhere."""
    folder = tmp_path_factory.mktemp("nodes")
    database_url = asyncio.run(postgres.migrated())
    with ExitStack() as stack:
        ways = tuple(stack.enter_context(proxied(redis_server.url)) for _ in range(2))
        first = stack.enter_context(serve(folder, database_url=database_url, redis_url=ways[0].redis_url))
        second = stack.enter_context(
            serve(folder, database_url=database_url, redis_url=ways[1].redis_url, public_url=first.url)
        )
        yield Nodes(first, second, (ways[0], ways[1]))
    asyncio.run(postgres.drop(database_url))


@pytest.fixture
def redis(nodes: Nodes) -> Iterator[RedisServer]:
    """A Redis of the test's own, which both nodes use."""
    with running_redis() as server:
        for way in nodes.ways:
            way.lead_to(server.url)
        for node in nodes.both:
            nodes.wait(node)
        yield server
