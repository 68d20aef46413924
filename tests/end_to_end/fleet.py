"""Two nodes that are one service, as processes, over one PostgreSQL and one Redis."""

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.end_to_end.operated import Server
from tests.support.postgres import PostgresServer
from tests.support.redis import RedisServer
from tests.support.waiting import wait_until


class Node(Server):
    """A server of some workers, at the addresses of another one."""

    public_url = ""
    expected_workers = 1

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | ({"ZONED_PUBLIC_URL": self.public_url} if self.public_url else {})

    @property
    def log(self) -> Path:
        return self.directory / f"{self.port}.log"

    @property
    def workers(self) -> list[int]:
        """Their process ids."""
        assert self.process is not None
        told = subprocess.run(
            ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
        )
        rows = [line.split(None, 2) for line in told.stdout.splitlines()]
        ours = str(self.process.pid)
        return [int(pid) for pid, parent, what in rows if parent == ours and "spawn_main" in what]

    def are_ready(self) -> bool:
        """Tell whether all workers have said that they serve: each warns of this setting once."""
        said = self.log.read_text().count("outbound fetches may reach private addresses")
        return said >= self.expected_workers


@dataclass
class Fleet:
    """Both nodes, and where their data is."""

    nodes: tuple[Node, Node]
    database_url: str
    redis_url: str

    def node_of(self, worker: int) -> Node:
        """The node that a worker belongs to."""
        return next(node for node in self.nodes if worker in node.workers)


@contextmanager
def running_fleet(
    postgres: PostgresServer, redis: RedisServer, folder: Path, *, workers: int
) -> Iterator[Fleet]:
    """Both nodes, until the block ends.

    Args:
        workers: of each node.
    """
    redis.clear()
    database_url = asyncio.run(postgres.migrated())
    storage = {"ZONED_DATABASE_URL": database_url, "ZONED_REDIS_URL": redis.url}
    settings = storage | {"ZONED_WORKERS": str(workers)}
    first, second = Node(folder, settings), Node(folder, settings)
    second.public_url = first.url
    first.init()
    try:
        for node in (first, second):
            node.expected_workers = workers
            node.start(seconds=120)
            wait_until(node.are_ready, seconds=120, otherwise=node.log.read_text)
        yield Fleet((first, second), database_url, redis.url)
    finally:
        for node in (first, second):
            node.kill()
        asyncio.run(postgres.drop(database_url))
