"""What is ended at one node is refused by the other while both are busy, and by one that starts afterwards.

How long it takes is measured by `make bench ONLY=revocation`; here only a generous deadline holds.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event

import httpx
import jwt
import pytest
from tests.runtime.nodes.conftest import Nodes
from tests.runtime.nodes.lives import ENDS, Life, Shop, answers, wrongly_granted
from tests.support.redis import RedisServer
from tests.support.server import serve
from tests.support.waiting import wait_until

from zonewright.access_token import AccessToken
from zonewright.keys import ZoneKeys
from zonewright.metadata import ZoneMetadata
from zonewright.revocations import RevocationList

pytestmark = pytest.mark.long

DEADLINE_SECONDS = 15.0
SENDERS = 6
REVOCATIONS = [end for end in ENDS if end is not Life.remove_dependencies]


@pytest.fixture
def shop(nodes: Nodes, redis: RedisServer) -> Shop:
    """A shop whose nodes share a Redis of the test's own."""
    return Shop(nodes)


@dataclass
class Load:
    """Requests of a user whom no revocation concerns, to both nodes without a pause.

    Attributes:
        answered: for each request, whether it was granted.
    """

    stopping: Event = field(default_factory=Event)
    answered: list[bool] = field(default_factory=list)

    def send(self, ask: Callable[[], bool]) -> None:
        """Ask until told to stop."""
        while not self.stopping.is_set():
            self.answered.append(ask())


@pytest.fixture
def load(nodes: Nodes, shop: Shop) -> Iterator[Load]:
    """Both nodes exchange and introspect tokens of somebody else for as long as the test takes."""
    life, load = Life(shop), Load()
    asked = [
        life.asked(nodes.both[number % 2])["introspection" if number < 2 else "exchange"]
        for number in range(SENDERS)
    ]
    with ThreadPoolExecutor(SENDERS) as pool:
        sending = [pool.submit(load.send, ask) for ask in asked]
        try:
            yield load
        finally:
            load.stopping.set()
    for each in sending:
        each.result()


def ended_at_second(shop: Shop, end: Callable[[Life], None]) -> Life:
    """Tokens that both nodes have cached, and that then lost what they rest on."""
    life = Life(shop, ends_at=shop.nodes.second)
    assert all(set(answers({end: life}, shop.nodes).values()) == {True} for _ in range(2))
    end(life)
    return life


@pytest.mark.threat("18a", "18b", "18c", "18d", "18e", "18f", "18g", "18i", "18k", "18l", "18n", "18r")
@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
def test_ended_at_both_while_they_are_busy(
    nodes: Nodes, shop: Shop, load: Load, end: Callable[[Life], None]
) -> None:
    """Exchange, further links, introspection, userinfo and the management API refuse, and go on refusing."""
    life = ended_at_second(shop, end)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while (granted := wrongly_granted(answers({end: life}, nodes))) and time.monotonic() < deadline:
        pass
    assert granted == []
    assert wrongly_granted(answers({end: life}, nodes)) == []
    assert len(load.answered) > SENDERS
    assert all(load.answered)


@pytest.mark.threat("18j")
@pytest.mark.parametrize("end", REVOCATIONS, ids=lambda end: end.__name__)
def test_the_other_node_lists_what_was_revoked(shop: Shop, load: Load, end: Callable[[Life], None]) -> None:
    """A server that verifies tokens by itself refuses the exchanged token by the other node's list."""
    life = ended_at_second(shop, end)
    claims = jwt.decode(life.exchanged, options={"verify_signature": False})
    token = AccessToken.from_claims(claims, raw=life.exchanged)

    async def is_listed() -> bool:
        async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
            keys = ZoneKeys(http, ZoneMetadata(http, life.issuer))
            revocations = RevocationList(http, life.issuer, keys, max_age_seconds=0.0)
            deadline = time.monotonic() + DEADLINE_SECONDS
            while time.monotonic() < deadline:
                if await revocations.is_revoked(token):
                    return True
        return False

    assert asyncio.run(is_listed())


@pytest.mark.threat("18s")
def test_an_application_that_is_active_again_begins_anew(nodes: Nodes, shop: Shop) -> None:
    """Its accountable user was disabled at one node, and enabled: tokens from before are refused at both."""
    life = ended_at_second(shop, Life.disable_accountable_user)
    life.enable_accountable_user()

    def is_taken_from_now_on() -> bool:
        life.token = nodes.first.call(lambda _: shop.company.token(shop.zone, life.app, life.customer))
        return all(life.asked(node)["exchange"]() for node in nodes.both)

    before = life.token
    wait_until(is_taken_from_now_on)
    life.token = before
    assert wrongly_granted(answers({Life.disable_accountable_user: life}, nodes)) == []


@pytest.mark.threat("18h")
def test_a_node_that_starts_afterwards_refuses(nodes: Nodes, shop: Shop) -> None:
    """It has nothing in its memory, and reads that everything has ended."""
    lives = {end: ended_at_second(shop, end) for end in ENDS}
    settings = nodes.first.settings
    with serve(
        settings.data_dir,
        database_url=settings.database_url,
        redis_url=settings.redis_url,
        public_url=nodes.first.url,
    ) as restarted:
        found = answers(lives, Nodes(nodes.first, restarted, nodes.ways))

    assert {node for _, node, _ in found} == {nodes.first.url, restarted.url}
    assert wrongly_granted(found) == []
