"""Two nodes whose machines do not agree on the time. They go by one clock, so neither takes what has ended.

With a difference of none each test shows what it is without the trouble.
"""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial

import httpx
import jwt
import pytest
from sqlalchemy import update
from tests.runtime.nodes.conftest import Nodes
from tests.runtime.nodes.lives import ENDS, Life, Shop, answers, wrongly_granted
from tests.support.factories import App
from tests.support.oauth_site import Browser, Site
from tests.support.postgres import PostgresServer
from tests.support.proxy import proxied
from tests.support.redis import RedisServer
from tests.support.server import Server, serve
from tests.support.waiting import let_pass

from runtime.domain.identifiers import new_id
from runtime.domain.kinds.zone import Zone
from runtime.services.clock import TOLERATED, system_time
from runtime.services.container import Services
from runtime.services.grants.refresh_token_rotation import GRACE_SECONDS
from runtime.services.management.zones.key_rotation import rotate
from runtime.storage.sql.tables import refresh_families as families

pytestmark = pytest.mark.long

LIFE_SECONDS = 4.0
BOUND_SECONDS = 1.0
APART_SECONDS = 2 * TOLERATED.total_seconds()


@pytest.fixture(scope="module", params=[0, -5, 600, -600], ids=lambda seconds: f"{seconds} s off")
def nodes(
    request: pytest.FixtureRequest,
    postgres: PostgresServer,
    redis_server: RedisServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Nodes]:
    """The clock of the second machine is off from the start."""
    folder, url = tmp_path_factory.mktemp("nodes"), asyncio.run(postgres.migrated())
    off = timedelta(seconds=request.param)
    redis_server.clear()
    with (
        proxied(redis_server.url) as one,
        proxied(redis_server.url) as two,
        serve(folder, database_url=url, redis_url=one.redis_url) as first,
        serve(
            folder,
            database_url=url,
            redis_url=two.redis_url,
            public_url=first.url,
            system=lambda: system_time() + off,
        ) as second,
    ):
        yield Nodes(first, second, (one, two))
    asyncio.run(postgres.drop(url))


@pytest.fixture(scope="module")
def shop(nodes: Nodes) -> Shop:
    return Shop(nodes)


@pytest.mark.threat("35d", "35e", "43h", "43i", "43j")
def test_what_either_node_ends_both_refuse(nodes: Nodes, shop: Shop) -> None:
    """What one node issues both take, and what either ends is refused by both within a second."""
    first, second = nodes.both
    for begins_at, ends_at in ((first, second), (second, first)):
        lives = {end: Life(shop, begins_at=begins_at, ends_at=ends_at) for end in ENDS}
        assert set(answers(lives, nodes).values()) == {True}
        for end, life in lives.items():
            end(life)
        let_pass(BOUND_SECONDS)
        assert wrongly_granted(answers(lives, nodes)) == []


@pytest.mark.threat("35d", "35e")
def test_what_has_expired_is_taken_by_neither(nodes: Nodes, shop: Shop) -> None:
    """Tokens that live for seconds, and a session that does, begun at either node."""

    async def short(services: Services) -> list[str]:
        company = replace(shop.company, services=services)
        lasting = await company.person(shop.zone, f"{new_id()}@customer.example")
        brief = await company.signed_in(shop.zone, lasting.user, hours=LIFE_SECONDS / 3600)
        life = timedelta(seconds=LIFE_SECONDS)
        return [
            await company.token(shop.zone, shop.provider, lasting, lifetime=life),
            await company.token(shop.zone, shop.provider, brief),
        ]

    def is_taken(node: Server, token: str) -> bool:
        address = nodes.at(node, f"{shop.zone.protocols.oauth2.issuer}/openid/userinfo")
        answer = httpx.get(address, headers={"Authorization": f"Bearer {token}"}, trust_env=False)
        assert answer.status_code in (200, 401), answer.text
        return answer.status_code == 200

    began_at = time.monotonic()
    tokens = [token for begins_at in nodes.both for token in begins_at.call(short)]
    issued_at = time.monotonic()
    taken = [is_taken(node, token) for node in nodes.both for token in tokens]
    if time.monotonic() - began_at < LIFE_SECONDS - APART_SECONDS:  # else the machine is too busy to tell
        assert taken == [True] * 8
    let_pass(issued_at + LIFE_SECONDS + APART_SECONDS + 0.5 - time.monotonic())
    assert [is_taken(node, token) for node in nodes.both for token in tokens] == [False] * 8


@pytest.mark.threat("35d", "35e")
def test_a_refresh_token_is_repeated_for_a_moment_alone(nodes: Nodes, shop: Shop) -> None:
    """At the other node, too: the same successor at first, and later the end of the family."""
    site = Site(nodes.first, shop.company)
    site.user(shop.zone, f"{(name := new_id()[:12])}@customer.example")
    client = site.app(shop.zone, name)
    browser = Browser()
    code = browser.sign_in(browser.open(client.url()), f"{name}@customer.example").code
    tokens = client.redeem(code).json()

    def refresh(node: Server, token: str) -> httpx.Response:
        form = {"grant_type": "refresh_token", "refresh_token": token, **client.app.form}
        return httpx.post(nodes.at(node, f"{client.issuer}/oauth/token"), data=form, trust_env=False)

    async def long_ago(services: Services) -> None:
        async with services.database.transaction() as conn:
            at = services.clock() - timedelta(seconds=GRACE_SECONDS + APART_SECONDS + 1)
            of_it = families.c.id == tokens["refresh_token"].partition(".")[0]
            await conn.execute(update(families).where(of_it).values(rotated_at=at))

    successor = refresh(nodes.first, tokens["refresh_token"]).json()["refresh_token"]
    assert refresh(nodes.second, tokens["refresh_token"]).json()["refresh_token"] == successor
    nodes.first.call(long_ago)

    answers = [refresh(nodes.second, token) for token in (tokens["refresh_token"], successor)]
    assert [(each.status_code, each.json()["error"]) for each in answers] == [(400, "invalid_grant")] * 2


@pytest.mark.threat("35d")
def test_keys_count_at_once_at_both(nodes: Nodes, shop: Shop) -> None:
    """Of a zone that was just made at the other node; and of one whose keys were just withdrawn there."""

    async def begin(services: Services) -> tuple[Zone, App]:
        company = replace(shop.company, services=services)
        zone = await company.zone()
        api = await company.resource(zone, "https://api.example")
        return zone, await company.app(zone, "job", dependencies=[api])

    def token(node: Server) -> str:
        form = {"grant_type": "client_credentials", "resource": "https://api.example", **app.form}
        address = nodes.at(node, f"{zone.protocols.oauth2.issuer}/oauth/token")
        answer = httpx.post(address, data=form, trust_env=False)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["access_token"])

    async def keys_of(services: Services, zone_id: str) -> set[str]:
        return set((await services.zones.get(zone_id)).keys)

    def kid(token: str) -> str:
        return str(jwt.get_unverified_header(token)["kid"])

    for node in nodes.both:
        zone, app = node.call(begin)
        before = {kid(token(each)) for each in nodes.both}
        assert len(before) == 1
        new = node.call(partial(rotate, zone_id=zone.id, at_once=True))
        let_pass(BOUND_SECONDS)
        assert {kid(token(each)) for each in nodes.both} == {new}
        assert not [
            each for each in nodes.both if not before.isdisjoint(each.call(partial(keys_of, zone_id=zone.id)))
        ]
