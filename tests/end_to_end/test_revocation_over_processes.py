"""What one `zoned` process ends, another one refuses: each has its own memory, and its own connections.

`tests/runtime/nodes` has more of it, on two nodes in one process, which share what modules keep.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.end_to_end.fleet import Fleet, running_fleet
from tests.runtime.nodes.conftest import Nodes
from tests.runtime.nodes.lives import ENDS, Life, Lives, Shop, answers, wrongly_granted
from tests.support.postgres import PostgresServer
from tests.support.redis import RedisServer
from tests.support.server import serve
from tests.support.waiting import wait_until

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def fleet(
    postgres: PostgresServer, redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """Two nodes of a worker each."""
    with running_fleet(postgres, redis_server, tmp_path_factory.mktemp("fleet"), workers=1) as running:
        yield running


@pytest.fixture(scope="module")
def nodes(fleet: Fleet) -> Iterator[Nodes]:
    """Both processes; `call` works in a node of this one, which answers no request."""
    first, second = fleet.nodes
    storage = {"database_url": fleet.database_url, "redis_url": fleet.redis_url}
    with serve(first.directory, public_url=first.url, **storage) as here:
        yield Nodes(replace(here, url=first.url), replace(here, url=second.url), ())


@pytest.fixture(scope="module")
def ended(nodes: Nodes) -> Lives:
    """Tokens that both processes have answered for twice, and that the second has then ended."""
    shop = Shop(nodes)
    lives = {end: Life(shop, ends_at=nodes.second) for end in ENDS}
    assert [set(answers(lives, nodes).values()) for _ in range(2)] == [{True}] * 2
    for end, life in lives.items():
        end(life)
    return lives


@pytest.mark.threat("18a", "18b", "18c", "18d", "18e", "18f", "18g", "18i", "18k", "18l", "18n", "18r")
def test_what_one_process_ends_both_refuse(nodes: Nodes, ended: Lives) -> None:
    """Exchange, further links, introspection, userinfo and the management API, from then on."""
    wait_until(
        lambda: not wrongly_granted(answers(ended, nodes)),
        otherwise=lambda: str(wrongly_granted(answers(ended, nodes))),
    )
    assert wrongly_granted(answers(ended, nodes)) == []


@pytest.mark.threat("18h")
def test_a_process_that_is_killed_and_started_again_refuses_too(
    fleet: Fleet, nodes: Nodes, ended: Lives
) -> None:
    """It has nothing in its memory, and begins with what has ended."""
    fleet.nodes[0].kill()
    fleet.nodes[0].start(seconds=120)
    nodes.wait(nodes.first)

    assert wrongly_granted(answers(ended, nodes)) == []
    alive = Life(Shop(nodes))
    assert set(answers({Life.end_sessions: alive}, nodes).values()) == {True}
