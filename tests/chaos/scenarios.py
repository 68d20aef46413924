"""The scenarios: what breaks under load, and how it is mended again.

A scenario is a context: entered when the load has run for a while, left when it is to be mended.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from tests.chaos.ledger import Bound
from tests.chaos.platform import DRAIN_SECONDS, Platform, ShiftedNode
from tests.end_to_end.fleet import Node
from tests.support.proxy import proxied
from tests.support.redis import running_redis
from tests.support.waiting import let_pass

from runtime.cli.worker import STOP_SECONDS

Scenario = Callable[[Platform], AbstractContextManager[None]]


@contextmanager
def nothing(_platform: Platform) -> Iterator[None]:
    """All is well: the yardstick."""
    yield


@contextmanager
def worker_kill(platform: Platform) -> Iterator[None]:
    """A worker is killed."""
    os.kill(platform.nodes[0].workers[0], signal.SIGKILL)
    yield


@contextmanager
def master_kill(platform: Platform) -> Iterator[None]:
    """The main process of a node is killed; its workers end by themselves."""
    node = platform.nodes[0]
    assert node.process is not None
    node.process.kill()
    node.process.wait(10)
    yield


@contextmanager
def node_kill(platform: Platform) -> Iterator[None]:
    """A machine fails."""
    platform.nodes[0].kill()
    yield


@contextmanager
def sigterm(platform: Platform) -> Iterator[None]:
    """Both nodes are restarted in turn, as an upgrade does."""
    for node in platform.nodes:
        _stop(node)
        node.start()
    yield


def _stop(node: Node) -> None:
    """Ask a node to stop, and let it take the time that it says."""
    assert node.process is not None
    node.process.terminate()
    node.process.wait(STOP_SECONDS + DRAIN_SECONDS + 10)


@contextmanager
def sigterm_while_starting(platform: Platform) -> Iterator[None]:
    """A node is asked to stop while its workers start."""
    node = platform.nodes[0]
    _stop(node)
    for seconds in (0.5, 1.5, 2.5):
        _stop_after(platform, seconds)
    yield


def _stop_after(platform: Platform, seconds: float) -> None:
    node = platform.nodes[0]
    process = node.launch()
    let_pass(seconds)
    process.terminate()
    process.wait(STOP_SECONDS + DRAIN_SECONDS + 10)


@contextmanager
def redis_down(platform: Platform) -> Iterator[None]:
    """Redis refuses connections."""
    for way in platform.to_redis:
        way.cut()
    yield


@contextmanager
def redis_empty(platform: Platform) -> Iterator[None]:
    """Redis is killed, and comes back with nothing."""
    platform.redis.restart()
    yield


@contextmanager
def redis_hangs(platform: Platform) -> Iterator[None]:
    """Redis takes connections and answers nothing: its process is stopped."""
    with platform.redis.hung():
        yield


@contextmanager
def redis_swallowed(platform: Platform) -> Iterator[None]:
    """What is sent to Redis arrives nowhere: a network that drops packets."""
    for way in platform.to_redis:
        way.hold_up()
    yield


@contextmanager
def redis_full(platform: Platform) -> Iterator[None]:
    """Redis has no room, and forgets nothing for it."""
    platform.redis.fill()
    try:
        yield
    finally:
        platform.redis.make_room()


@contextmanager
def redis_replica(platform: Platform) -> Iterator[None]:
    """Both nodes reach a read-only replica."""
    with running_redis() as replica:
        replica.follow(platform.to_redis[0].port)
        for way in platform.to_redis:
            way.lead_to(replica.url)
        yield


@contextmanager
def redis_failover(platform: Platform) -> Iterator[None]:
    """A replica that lacks the last second takes over; in the end the first one does, as its replica."""
    with running_redis() as replica:
        replica.follow(platform.to_redis[0].port)
        replica.lead()
        let_pass(1)
        for way in platform.to_redis:
            way.lead_to(replica.url)
        yield
        with proxied(replica.url) as way:
            platform.redis.follow(way.port)
            for each in platform.to_redis:
                each.lead_to(platform.redis.url)
            platform.redis.lead()


@contextmanager
def cut_off_from_redis(platform: Platform) -> Iterator[None]:
    """One node does not reach Redis; the other does."""
    platform.to_redis[0].cut()
    yield


@contextmanager
def clocks_apart(platform: Platform) -> Iterator[None]:
    """The clock of one node is ten minutes ahead of the other's."""
    node = platform.nodes[0]
    _stop(node)
    shifted = ShiftedNode(node.directory, node.settings | {"ZONED_WORKERS": "1"}, port=node.port)
    shifted.public_url, shifted.shift_seconds = node.public_url, 600.0
    shifted.start()
    try:
        yield
    finally:
        _stop(shifted)


@contextmanager
def postgres_restart(platform: Platform) -> Iterator[None]:
    """PostgreSQL is stopped, and started again."""
    platform.postgres.stop()
    platform.postgres.start()
    yield


@contextmanager
def postgres_kill(platform: Platform) -> Iterator[None]:
    """PostgreSQL is killed, and recovers."""
    platform.postgres.kill()
    platform.postgres.start()
    yield


@contextmanager
def postgres_hangs(platform: Platform) -> Iterator[None]:
    """PostgreSQL takes connections and answers nothing."""
    with platform.postgres.hung():
        yield


@contextmanager
def postgres_read_only(platform: Platform) -> Iterator[None]:
    """PostgreSQL takes no writes."""
    _read_only(platform, "on")
    try:
        yield
    finally:
        _read_only(platform, "off")


def _read_only(platform: Platform, value: str) -> None:
    platform.postgres.sql(
        f"ALTER SYSTEM SET default_transaction_read_only = {value}", "SELECT pg_reload_conf()"
    )


@contextmanager
def postgres_without_connections(platform: Platform) -> Iterator[None]:
    """Every connection is ended, and others take all there are."""
    postgres = platform.postgres
    postgres.sql(
        f"ALTER DATABASE {platform.database} CONNECTION LIMIT 0",
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        f" WHERE datname = '{platform.database}'",
    )
    try:
        yield
    finally:
        postgres.sql(f"ALTER DATABASE {platform.database} CONNECTION LIMIT -1")


@contextmanager
def postgres_failover(platform: Platform) -> Iterator[None]:
    """The primary's machine fails, and its synchronous standby takes over."""
    primary, standby = platform.postgres, platform.postgres.standby(platform.new_directory("standby"))
    let_pass(1)
    primary.kill()
    standby.sql("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
    standby.promote()
    platform.lead_to(standby)
    yield


@contextmanager
def full_disk(disk: Path) -> Iterator[None]:
    """There is no room left on a disk."""
    ballast = disk / "ballast"
    with ballast.open("wb") as file, suppress(OSError):
        while True:
            file.write(bytes(65536))
    try:
        yield
    finally:
        ballast.unlink()


DISK_FULL = "disk-full"
ALL: dict[str, Scenario] = {
    each.__name__.replace("_", "-"): each
    for each in (
        nothing,
        worker_kill,
        master_kill,
        node_kill,
        sigterm,
        sigterm_while_starting,
        redis_down,
        redis_empty,
        redis_hangs,
        redis_swallowed,
        redis_full,
        redis_replica,
        redis_failover,
        cut_off_from_redis,
        clocks_apart,
        postgres_restart,
        postgres_kill,
        postgres_hangs,
        postgres_read_only,
        postgres_without_connections,
        postgres_failover,
    )
}
# A fault of Redis costs at most one short timeout; then a breaker answers in its place. Where Redis refuses,
# not even that.
_ONE_TIMEOUT = Bound(longest_gap=1.5, p99_ms=1500)
_NO_TIMEOUT = Bound(longest_gap=1.5, p99_ms=500)
BOUNDS: dict[str, Bound] = {
    "redis-hangs": _ONE_TIMEOUT,
    "redis-swallowed": _ONE_TIMEOUT,
    "redis-down": _NO_TIMEOUT,
    "redis-empty": _NO_TIMEOUT,
    "redis-full": _NO_TIMEOUT,
    "redis-replica": _NO_TIMEOUT,
    "redis-failover": _NO_TIMEOUT,
    "cut-off-from-redis": _NO_TIMEOUT,
}
