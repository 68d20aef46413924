"""Upstream tokens over two nodes: one of them refreshes, and what ends a token ends it at both."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import update
from tests.runtime.nodes.conftest import Nodes
from tests.runtime.vault.conftest import TOKENS, account_at, desk_at
from tests.support.factories import App, company_of
from tests.support.rotating_provider import INVALID_GRANT, RotatingProvider, rotating_provider
from tests.support.scene import Scene
from tests.support.scripted_provider import Scripted
from tests.support.server import Server
from tests.support.waiting import let_pass

from runtime.domain.kinds import DELEGATED_GRANT, SECRET, USER
from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE
from runtime.services.container import Services
from runtime.services.vault import credential_cache
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.tables import vault_tokens
from runtime.storage.sql.vault_tokens import VaultPlace

EXPIRING = replace(TOKENS, refresh_token="rt-0")
BOUND_SECONDS = 1.0
AT_EACH = 50


@dataclass
class Connected:
    """Ann's account at a provider, its access token just over, and exchanges for it at two nodes."""

    nodes: Nodes
    idp: RotatingProvider

    def __post_init__(self) -> None:
        self.nodes.first.call(lambda _: self._begin())

    async def _begin(self) -> None:
        company = company_of(self.nodes.first)
        scene = Scene(company, await company.zone())
        self.account = account = await account_at(scene, self.idp.server.url, **self.idp.settings)
        await account.connect(EXPIRING)
        await self.expire()
        self.subject = await company.token(scene.zone, account.agent, account.ann)

    async def expire(self, left: timedelta = timedelta(seconds=-1), **columns: Any) -> None:
        """Let the access token end in a moment that far ahead."""
        account, services = self.account, self.account.scene.services
        now, zone_id = services.clock(), account.scene.zone.id
        due = {"expires_at": now + left, "refresh_at": now - timedelta(seconds=1), **columns}
        async with services.database.transaction() as conn:
            await conn.execute(update(vault_tokens).where(vault_tokens.c.zone_id == zone_id).values(**due))
        place = VaultPlace(zone_id, account.ann.user.id, account.resource.id, account.provider.id)
        await services.state.delete(credential_cache.entry_key(place))  # over by then, too

    def exchange(self, node: Server, app: App | None = None) -> httpx.Response:
        """The answer of a node."""
        account = self.account
        form = {
            "grant_type": GRANT_TYPE,
            "subject_token": self.subject,
            "subject_token_type": ACCESS_TOKEN,
            "resource": account.resource.identifier,
            **(app or account.agent).form,
        }
        issuer = account.scene.zone.protocols.oauth2.issuer
        return httpx.post(self.nodes.at(node, f"{issuer}/oauth/token"), data=form, trust_env=False)

    def exchanges(self, count: int) -> list[httpx.Response]:
        """The answers to so many exchanges at each node, all at once."""
        with ThreadPoolExecutor(2 * count) as pool:
            return list(pool.map(self.exchange, [*self.nodes.both] * count))

    def begun(
        self, pool: ThreadPoolExecutor, node: Server, app: App | None = None
    ) -> "Future[httpx.Response]":
        """An exchange that waits for the provider."""
        self.idp.delay_seconds = 0.5
        request = pool.submit(self.exchange, node, app)
        assert self.idp.asked.wait(10)
        return request

    def rows(self, table: str) -> list[dict[str, Any]]:
        """What the zone has in a table."""
        return self.nodes.first.call(lambda _: self.account.rows(table))


@pytest.fixture
def connected(nodes: Nodes) -> Iterator[Connected]:
    for node in nodes.both:
        nodes.wait(node)
    with rotating_provider() as idp:
        yield Connected(nodes, idp)


@pytest.mark.threat("20a")
def test_a_hundred_exchanges_at_once_make_one_refresh(connected: Connected) -> None:
    """Half of them at each node: the provider sees one request, and everybody gets its answer."""
    connected.idp.delay_seconds = 0.2

    answers = connected.exchanges(AT_EACH)

    assert {answer.json().get("access_token") for answer in answers} == {"at-1"}
    assert connected.idp.refreshes == 1


@pytest.mark.threat("20b", "20c", "20f")
def test_a_dead_grant_is_dead_at_both(connected: Connected) -> None:
    """Each exchange is told where the user can connect again, and the provider is asked twice at most."""
    connected.idp.answer = INVALID_GRANT

    answers = connected.exchanges(10) + connected.exchanges(5)

    assert {(each.status_code, each.json()["error"]) for each in answers} == {(400, "access_denied")}
    assert all("/oauth/connect?link=" in each.json()["error_uri"] for each in answers)
    assert connected.idp.refreshes == 2


@pytest.mark.threat("20d", "20e", "20f")
def test_a_provider_that_fails_is_said_to_at_both(connected: Connected) -> None:
    """503 with the time to wait; the grant lives, and the next token is handed out by both afterwards."""
    connected.idp.answer = Scripted(status=503)

    answers = connected.exchanges(10)

    assert {each.status_code for each in answers} == {503}
    assert all(1 <= int(each.headers["retry-after"]) <= 60 for each in answers)
    assert connected.idp.refreshes == 1
    assert [each["status"] for each in connected.rows("delegated_grants")] == ["active"]
    connected.idp.answer = None
    paused = {"lease_until": connected.account.scene.services.clock() - timedelta(seconds=1)}
    connected.nodes.first.call(lambda _: connected.expire(**paused))
    assert {each.json().get("access_token") for each in connected.exchanges(2)} == {"at-2"}


@pytest.mark.threat("18m")
@pytest.mark.parametrize("what", ["user", "grant"])
def test_what_ends_at_the_other_node_during_a_refresh(connected: Connected, what: str) -> None:
    """The exchange that waits for the provider gets no token, and nobody does afterwards."""
    account, second = connected.account, connected.nodes.second
    zone_id = account.scene.zone.id
    (grant,) = connected.rows("delegated_grants")
    company = replace(account.scene.company, services=second.services)
    with ThreadPoolExecutor(1) as pool:
        request = connected.begun(pool, connected.nodes.first)
        if what == "user":
            second.call(lambda _: company.update(USER, zone_id, account.ann.user.id, status="disabled"))
        else:
            second.call(lambda _: company.update(DELEGATED_GRANT, zone_id, grant["id"], status="revoked"))
        answer = request.result()

    assert answer.status_code == 400, answer.text
    let_pass(BOUND_SECONDS)
    assert {each.status_code for each in connected.exchanges(1)} == {400}


@pytest.mark.threat("16h")
@pytest.mark.parametrize(
    ("scopes", "expected"), [(["read"], "at-again"), (["read", "write"], None)], ids=["same", "more"]
)
def test_more_scopes_that_arrive_at_the_other_node_during_a_refresh(
    connected: Connected, scopes: list[str], expected: str | None
) -> None:
    """Ann lets one application read, and connects the account for more there while that application waits."""
    account, (first, second) = connected.account, connected.nodes.both
    shy = account.shy

    async def for_reading(_: Services) -> None:
        await account.connect(replace(EXPIRING, scopes=frozenset({"read"})), ["read"])
        await connected.expire()
        await account.agree(ClientRef(application_id=shy.id), ["read"])
        connected.subject = await account.scene.company.token(account.scene.zone, shy, account.ann)

    async def for_more(services: Services) -> None:
        there = replace(
            account, scene=replace(account.scene, company=replace(account.scene.company, services=services))
        )
        await there.connect(replace(TOKENS, access_token="at-again", scopes=frozenset(scopes)), scopes)

    first.call(for_reading)
    with ThreadPoolExecutor(1) as pool:
        request = connected.begun(pool, first, shy)
        second.call(for_more)
        answer = request.result()

    assert answer.json().get("access_token") == expected, answer.text


@pytest.mark.parametrize("what", ["deleted", "replaced"])
def test_a_shared_key_that_is_withdrawn_is_handed_out_by_neither(nodes: Nodes, what: str) -> None:
    """Both have handed it out; a second after it was taken away at one of them the other has it no more."""
    first, second = nodes.both
    for node in nodes.both:
        nodes.wait(node)
    company = company_of(first)

    async def begun(_: Services) -> tuple[Any, str, str]:
        desk = await desk_at(Scene(company, await company.zone()))
        data = {"type": "token", "token": "sk-old"}
        made = await company.create(
            SECRET, desk.scene.zone.id, name="key", entity_id=desk.resource.id, data=data
        )
        return desk, made.id, await company.token(desk.scene.zone, desk.agent, desk.ann)

    desk, secret_id, subject = first.call(begun)

    def exchange(node: Server) -> httpx.Response:
        form = {
            "grant_type": GRANT_TYPE,
            "subject_token": subject,
            "subject_token_type": ACCESS_TOKEN,
            "resource": desk.resource.identifier,
            **desk.agent.form,
        }
        issuer = desk.scene.zone.protocols.oauth2.issuer
        return httpx.post(nodes.at(node, f"{issuer}/oauth/token"), data=form, trust_env=False)

    assert all(
        {exchange(node).json().get("access_token") for node in nodes.both} == {"sk-old"} for _ in range(2)
    )
    there, zone_id = replace(company, services=second.services), desk.scene.zone.id
    if what == "deleted":
        second.call(lambda _: there.delete(SECRET, zone_id, secret_id))
    else:
        data = {"type": "token", "token": "sk-new"}
        second.call(lambda _: there.update(SECRET, zone_id, secret_id, data=data))
    let_pass(BOUND_SECONDS)

    told = [exchange(node).json() for node in nodes.both]

    assert {each.get("access_token") for each in told} == {None if what == "deleted" else "sk-new"}, told
