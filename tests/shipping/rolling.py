"""Two nodes behind a balancer under load, which are restarted while it lasts; what callers were answered."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.ledger import Ledger
from tests.chaos.load import EXCHANGE, Site, begin, look_for_created
from tests.chaos.platform import site_of, wait_until_ready
from tests.end_to_end.fleet import Node
from tests.support.balancer import balancing
from tests.support.postgres import PostgresServer
from tests.support.redis import RedisServer
from tests.support.waiting import wait_until

from runtime.cli.worker import STOP_SECONDS

DRAIN_SECONDS = 6  # the test's balancer looks four times a second, and waits four seconds for an answer
# As many as are answered on a busy machine, too: each sends its next request after the answer to the last.
_CLIENTS = 4
_STEP = 40  # answers between one step and the next: both nodes have had their turn


@dataclass
class Nodes:
    """Two nodes behind a balancer, and who writes down what callers are answered."""

    site: Site
    nodes: list[Node]

    @contextmanager
    def under_load(self) -> Iterator[Ledger]:
        """Send while the block runs; what was answered is complete when it has ended."""
        ledger = Ledger()
        stop = begin(self.site, ledger, clients=_CLIENTS)
        try:
            self.go_on(ledger)
            yield ledger
            self.go_on(ledger)
        finally:
            stop()
        look_for_created(self.site, ledger)

    def go_on(self, ledger: Ledger) -> None:
        """Return when further requests were answered."""
        before = len(ledger.answers)
        wait_until(
            lambda: len(ledger.answers) >= before + _STEP,
            seconds=120,
            otherwise=lambda: f"no more than {len(ledger.answers) - before} answers",
        )

    def restart(self, node: Node, release: Path | None = None) -> None:
        """Stop a node as a supervisor does, and start it again.

        Args:
            release: the tree that it runs from then on; the same as before without one.
        """
        assert node.process is not None
        node.process.terminate()
        assert node.process.wait(STOP_SECONDS + DRAIN_SECONDS + 10) == 0
        if release is not None:
            node.settings = run_by(node, release)
        node.start(seconds=120)
        wait_until_ready(node)


@contextmanager
def running_alone(folder: Path) -> Iterator[Nodes]:
    """One node with the embedded database, as `running` has two."""
    with ExitStack() as stack:
        balancer = stack.enter_context(balancing())
        node = Node(folder / "data", {})
        node.public_url = balancer.url
        node.init()
        stack.callback(node.kill)
        node.start(seconds=120)
        balancer.lead_to(node.url)
        yield Nodes(site_of(balancer.url, [node], folder), [node])


def run_by(node: Node, release: Path) -> dict[str, str]:
    """The settings of a node with which another release runs."""
    return {**node.settings, "PYTHONPATH": str(release / "src")}


@contextmanager
def running(
    postgres: PostgresServer, redis: RedisServer, folder: Path, release: Path | None = None
) -> Iterator[Nodes]:
    """Both nodes, with the example configuration and somebody who has signed in.

    Args:
        release: the tree that they run; this one without.
    """
    redis.clear()
    url = asyncio.run(postgres.empty())
    with ExitStack() as stack:
        stack.callback(lambda: asyncio.run(postgres.drop(url)))
        balancer = stack.enter_context(balancing())
        settings = {
            "ZONED_DATABASE_URL": url,
            "ZONED_REDIS_URL": redis.url,
            "ZONED_DRAIN_SECONDS": str(DRAIN_SECONDS),
        }
        nodes = [Node(folder / "data", settings) for _ in range(2)]
        for node in nodes:
            node.public_url = balancer.url
            if release is not None:
                node.settings = run_by(node, release)
        nodes[0].init()
        for node in nodes:
            stack.callback(node.kill)
            node.start(seconds=120)
        balancer.lead_to(*(node.url for node in nodes))
        balancer.watch()
        yield Nodes(site_of(balancer.url, nodes, folder), nodes)


def failures(ledger: Ledger) -> Counter[str]:
    """Each request that failed, and what was lost, used twice or allowed wrongly: how often."""
    exchanges = {EXCHANGE, "cold"}
    failed = Counter(
        f"{each.kind}: {each.status} {each.told}"
        for each in ledger.answers
        if each.is_error or (each.kind in exchanges and each.status != 200)
    )
    return failed + Counter(ledger.wrong) + Counter(ledger.lost) + Counter(ledger.used_twice)
