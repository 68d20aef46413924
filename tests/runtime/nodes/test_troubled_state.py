"""Revocation at one node is in force at the other within a second, whatever is the matter with Redis.

Each test first sees everything work, and go on working while Redis is in trouble; then things are ended.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import pytest
import redis as redis_client
from tests.runtime.nodes.conftest import Nodes
from tests.runtime.nodes.lives import ENDS, Life, Lives, Shop, answers, wrongly_granted
from tests.support.proxy import proxied
from tests.support.redis import RedisServer, running_redis
from tests.support.waiting import let_pass

from runtime.services import epochs

pytestmark = pytest.mark.long

BOUND_SECONDS = 1.0


@pytest.fixture(scope="module")
def shop(nodes: Nodes) -> Shop:
    return Shop(nodes)


@dataclass(frozen=True)
class Trouble:
    """What is the matter.

    Attributes:
        url: of the Redis that the second node would hear of epochs from in the end.
        strike: comes after things were ended.
    """

    url: str
    strike: Callable[[], None] = lambda: None


Begin = Callable[[Nodes, RedisServer], AbstractContextManager[Trouble]]


@contextmanager
def healthy(_nodes: Nodes, redis: RedisServer) -> Iterator[Trouble]:
    yield Trouble(redis.url)


@contextmanager
def full(_nodes: Nodes, redis: RedisServer) -> Iterator[Trouble]:
    redis.fill()
    yield Trouble(redis.url)


@contextmanager
def read_only_replica(nodes: Nodes, redis: RedisServer) -> Iterator[Trouble]:
    """Both nodes were led to a replica by a failover that did not promote it."""
    with running_redis() as replica, proxied(redis.url) as way:
        replica.follow(way.port)
        for each in nodes.ways:
            each.lead_to(replica.url)
        yield Trouble(replica.url)


@contextmanager
def promoted_replica_that_lags(nodes: Nodes, redis: RedisServer) -> Iterator[Trouble]:
    """What was written last is lost; the new one takes writes."""
    with running_redis() as replica, proxied(redis.url) as way:
        replica.follow(way.port)
        replica.lead()

        def fail_over() -> None:
            for each in nodes.ways:
                each.lead_to(replica.url)

        yield Trouble(replica.url, fail_over)


@contextmanager
def restored_from_disk(_nodes: Nodes, redis: RedisServer) -> Iterator[Trouble]:
    redis.save()
    yield Trouble(redis.url, redis.restart)


@contextmanager
def cut_off_from_who_ends(nodes: Nodes, redis: RedisServer) -> Iterator[Trouble]:
    nodes.ways[0].cut()
    yield Trouble(redis.url)


@contextmanager
def cut_off_from_the_other(nodes: Nodes, redis: RedisServer) -> Iterator[Trouble]:
    nodes.ways[1].cut()
    yield Trouble(redis.url)


@contextmanager
def hung(nodes: Nodes, redis: RedisServer) -> Iterator[Trouble]:
    for each in nodes.ways:
        each.hold_up()
    yield Trouble(redis.url)


KEEP_OLD = (full, read_only_replica, promoted_replica_that_lags, restored_from_disk, cut_off_from_who_ends)
NO_OLD = (healthy, cut_off_from_the_other, hung)


def published(lives: Lives, url: str) -> list[bytes | None]:
    """The epochs at a Redis that say whether what is going to be ended still stands."""
    names = [
        epochs.zone_key(lives[Life.remove_dependencies].shop.zone.id),
        epochs.session_key(lives[Life.end_sessions].customer.session_id),
        epochs.user_key(lives[Life.disable_users].customer.user.id),
        epochs.denials_key(lives[Life.revoke_token].shop.zone.id),
        epochs.user_key(lives[Life.withdraw_consent].customer.user.id),
    ]
    with redis_client.Redis.from_url(url) as client:
        return list(client.mget([f"zonewright:{name}" for name in names]))


@pytest.mark.threat("18o", "35a", "35c", "35e", "35f")
@pytest.mark.threat("43a", "43b", "43c", "43d", "43e", "43f", "43g", "43j")
@pytest.mark.parametrize("trouble", [*NO_OLD, *KEEP_OLD], ids=lambda trouble: trouble.__name__)
def test_what_ends_without_the_state_ends_everywhere(
    nodes: Nodes, shop: Shop, redis: RedisServer, trouble: Begin
) -> None:
    """A session, a user, a token, a consent, a grant, an application, its accountable user, a dependency.

    Each is ended at one node and asked for at both.
    """
    lives = {end: Life(shop) for end in ENDS}
    assert all(set(answers(lives, nodes).values()) == {True} for _ in range(2))
    before = published(lives, redis.url)
    assert None not in before
    with trouble(nodes, redis) as disturbed:
        assert set(answers(lives, nodes).values()) == {True}
        for end, life in lives.items():
            end(life)
        ended_at = time.monotonic()
        disturbed.strike()
        let_pass(ended_at + BOUND_SECONDS - time.monotonic())
        after = published(lives, disturbed.url)
        found = answers(lives, nodes)

    # Redis would have vouched for everything that was ended, or for nothing any more.
    if trouble in KEEP_OLD:
        assert after == before
    elif trouble is not hung:
        assert not set(zip(before, range(5), strict=True)) & set(zip(after, range(5), strict=True))
    assert wrongly_granted(found) == []
