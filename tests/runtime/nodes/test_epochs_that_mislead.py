"""Epochs that the short-lived state has and the database has not, or the other way round, at two nodes."""

import pytest
import redis as redis_client
from tests.runtime.nodes.conftest import Nodes
from tests.runtime.nodes.lives import ENDS, Life, Lives, Shop, answers, wrongly_granted
from tests.support.redis import RedisServer
from tests.support.waiting import let_pass, wait_until

from runtime.services import epochs

pytestmark = pytest.mark.long

BOUND_SECONDS = 1.0


@pytest.fixture
def shop(nodes: Nodes, redis: RedisServer) -> Shop:
    """A shop whose nodes share a Redis of the test's own."""
    return Shop(nodes)


def lives_in(shop: Shop) -> Lives:
    """One for each end, and all that both nodes have cached of it."""
    lives = {end: Life(shop) for end in ENDS}
    assert all(set(answers(lives, shop.nodes).values()) == {True} for _ in range(2))
    return lives


@pytest.mark.threat("35h")
def test_a_node_that_dies_between_commit_and_publication(
    nodes: Nodes, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has told nobody what it has ended; the other one refuses within a second all the same."""
    lives = lives_in(shop)

    async def publish_nothing(*_arguments: object, **_named: object) -> None:
        """As far as the others go, it has died after the commit."""

    monkeypatch.setattr(nodes.first.services.epochs, "publish", publish_nothing)
    for end, life in lives.items():
        end(life)
    let_pass(BOUND_SECONDS)

    found = answers(lives, Nodes(nodes.second, nodes.second, nodes.ways))

    assert {node for _, node, _ in found} == {nodes.second.url}
    assert wrongly_granted(found) == []


@pytest.mark.threat("35h")
@pytest.mark.parametrize("told", ["0", "1000000000"], ids=["older", "newer"])
def test_epochs_that_contradict_the_database(nodes: Nodes, shop: Shop, redis: RedisServer, told: str) -> None:
    """What was ended is refused by both nodes whatever Redis says; what was not works afterwards."""
    lives, other = lives_in(shop), Life(shop)

    with redis_client.Redis.from_url(redis.url) as client:

        def contradict() -> None:
            names = list(client.scan_iter("zonewright:epoch:*"))
            assert f"zonewright:{epochs.zone_key(shop.zone.id)}".encode() in names
            client.mset(dict.fromkeys(names, told))

        contradict()
        for end, life in lives.items():
            end(life)
        contradict()
        let_pass(BOUND_SECONDS)
        assert wrongly_granted(answers(lives, nodes)) == []
        client.delete(*client.scan_iter("zonewright:epoch:*"))

    wait_until(lambda: set(answers({Life.end_sessions: other}, nodes).values()) == {True})
    assert wrongly_granted(answers(lives, nodes)) == []
