"""An upstream token is refreshed by one worker of two nodes, and is lost or kept when that one is killed.

Two nodes with two workers each, as processes, over one PostgreSQL and one Redis, and a provider over HTTP
that rotates refresh tokens and revokes the account when one is used twice.
"""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from sqlalchemy import update
from tests.end_to_end.fleet import Fleet, Node, running_fleet
from tests.runtime.vault.conftest import TOKENS, account_at
from tests.support.factories import found_company, opened_parts
from tests.support.postgres import PostgresServer
from tests.support.redis import RedisServer
from tests.support.rotating_provider import RotatingProvider, rotating_provider
from tests.support.scene import Scene
from tests.support.scripted_provider import Received, Scripted
from tests.support.waiting import let_pass, wait_until

from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE
from runtime.storage.sql.database import Database
from runtime.storage.sql.tables import vault_tokens

pytestmark = pytest.mark.long

AT_ONCE = 100


@pytest.fixture(scope="module")
def fleet(
    postgres: PostgresServer, redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """Two nodes of two workers each."""
    with running_fleet(postgres, redis_server, tmp_path_factory.mktemp("fleet"), workers=2) as running:
        yield running


@dataclass
class Holding:
    """The provider, which holds its answer to the first refresh until it is told to go on.

    Attributes:
        rotates: whether it has rotated the refresh token by then; otherwise it never does for that request.
        worker_port: of the connection of who asks, at their side.
    """

    idp: RotatingProvider
    rotates: bool
    worker_port: int = 0
    asked: threading.Event = field(default_factory=threading.Event)
    may_answer: threading.Event = field(default_factory=threading.Event)

    def script(self, received: Received) -> Scripted:
        """The answer to a request."""
        if received.path != "/token" or self.asked.is_set():
            return self.idp.script(received)
        self.worker_port = received.port
        answer = self.idp.script(received) if self.rotates else self._without_rotation()
        self.asked.set()
        self.may_answer.wait(60)
        return answer

    def _without_rotation(self) -> Scripted:
        self.idp.refreshes += 1
        return Scripted(status=503)


@dataclass(frozen=True)
class Connected:
    """Somebody with an account at the provider whose access token is over, and the form of an exchange."""

    fleet: Fleet
    zone_id: str
    form: dict[str, str]

    def exchange(self, node: Node) -> httpx.Response:
        """What an exchange at a node is answered with."""
        address = f"{node.url}/z/{self.zone_id}/oauth/token"
        return httpx.post(address, data=self.form, trust_env=False, timeout=60)

    def exchange_until_answered(self, node: Node) -> httpx.Response:
        """What it is answered with by somebody who tries again when told so."""
        deadline = time.monotonic() + 120
        while (answer := self.exchange(node)).status_code == 503 and time.monotonic() < deadline:
            let_pass(int(answer.headers["retry-after"]))
        return answer

    def exchanges(
        self, *nodes: Node, count: int = AT_ONCE, ask: Callable[[Node], httpx.Response] | None = None
    ) -> list[httpx.Response]:
        """What so many at once are answered with, over these nodes."""
        with ThreadPoolExecutor(count) as pool:
            return list(
                pool.map(ask or self.exchange, [nodes[number % len(nodes)] for number in range(count)])
            )

    def end_lease(self) -> None:
        """Let the time be over for which a refresher is waited for."""

        async def end() -> None:
            database = Database.open(self.fleet.database_url)
            try:
                async with database.transaction() as conn:
                    held = vault_tokens.c.lease_owner.is_not(None)
                    done = await conn.execute(
                        update(vault_tokens)
                        .where(vault_tokens.c.zone_id == self.zone_id, held)
                        .values(lease_until=datetime.now(UTC) - timedelta(seconds=1))
                    )
                    assert done.rowcount == 1
            finally:
                await database.close()

        asyncio.run(end())


async def connect(fleet: Fleet, idp: RotatingProvider) -> Connected:
    """Connect an account whose access token has expired."""
    first = fleet.nodes[0]
    settings = {"database_url": fleet.database_url, "redis_url": fleet.redis_url, "public_url": first.url}
    async with opened_parts(first.directory, **settings) as services:
        company = await found_company(services)
        zone = await company.zone()
        account = await account_at(Scene(company, zone), idp.server.url, **idp.settings)
        await account.connect(replace(TOKENS, refresh_token="rt-0"))
        past = services.clock() - timedelta(seconds=1)
        async with services.database.transaction() as conn:
            of_zone = vault_tokens.c.zone_id == zone.id
            await conn.execute(update(vault_tokens).where(of_zone).values(expires_at=past, refresh_at=past))
        form = {
            "grant_type": GRANT_TYPE,
            "subject_token": await company.token(zone, account.agent, account.ann),
            "subject_token_type": ACCESS_TOKEN,
            "resource": account.resource.identifier,
            **account.agent.form,
        }
        return Connected(fleet, zone.id, form)


@pytest.fixture
def idp() -> Iterator[RotatingProvider]:
    """The provider."""
    with rotating_provider() as running:
        yield running


@pytest.fixture
def connected(fleet: Fleet, idp: RotatingProvider) -> Connected:
    """An account of this test alone."""
    return asyncio.run(connect(fleet, idp))


def process_with_port(pids: list[int], port: int) -> int:
    """Which of these processes has a TCP connection from that local port."""
    for pid in pids:
        sockets = set()
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                sockets.add(str(descriptor.readlink()))
        for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
            columns = line.split()
            if int(columns[1].partition(":")[2], 16) == port and f"socket:[{columns[9]}]" in sockets:
                return pid
    raise AssertionError("no worker has that connection")


@pytest.mark.threat("20a")
def test_a_hundred_exchanges_at_once_make_one_refresh(connected: Connected, idp: RotatingProvider) -> None:
    """Over four workers: the provider sees one request, and everybody gets what it has issued.

    Who is told to ask again, as happens on busy machines, does so.
    """
    idp.delay_seconds = 0.5

    answers = connected.exchanges(*connected.fleet.nodes, ask=connected.exchange_until_answered)

    assert {answer.status_code for answer in answers} == {200}
    assert {answer.json()["access_token"] for answer in answers} == {"at-1"}
    assert idp.refreshes == 1


@contextmanager
def killed_refresher(connected: Connected, holding: Holding) -> Iterator[Node]:
    """The node that is left whole when the worker is killed that the provider has not answered yet."""
    fleet = connected.fleet
    holding.idp.server.script = holding.script

    def ask() -> None:
        with suppress(httpx.TransportError):  # the worker dies with this request
            connected.exchange(fleet.nodes[0])

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask)
        assert holding.asked.wait(60)
        workers = [pid for node in fleet.nodes for pid in node.workers]
        worker = process_with_port(workers, holding.worker_port)
        node = fleet.node_of(worker)
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: worker not in node.workers)
        holding.may_answer.set()
        asking.result(60)
    yield fleet.nodes[1] if node is fleet.nodes[0] else fleet.nodes[0]
    wait_until(lambda: len(node.workers) == 2, seconds=60)  # for the next test


@pytest.mark.threat("20a", "20b")
@pytest.mark.parametrize("rotates", [True, False], ids=["rotated", "not rotated"])
def test_what_becomes_of_a_token_whose_refresher_is_killed(
    connected: Connected, idp: RotatingProvider, rotates: bool
) -> None:
    """Until its lease is over the others are told to wait. Then one of them asks.

    Where the provider had not rotated the token, it is refreshed. Where it had, the new one is lost: after
    two refusals the grant is known as dead, and everybody is told where the user can connect again.

    In one case the lease runs out by itself, while somebody asks again whenever told to: half a minute. In
    the other it is ended by hand.
    """
    with killed_refresher(connected, Holding(idp, rotates)) as node:
        waiting = connected.exchange(node)
        assert (waiting.status_code, waiting.json()["error"]) == (503, "temporarily_unavailable")
        assert int(waiting.headers["retry-after"]) >= 1
        assert idp.refreshes == 1

        if rotates:
            connected.end_lease()
        else:
            assert connected.exchange_until_answered(node).json()["access_token"] == "at-2"
        answers = connected.exchanges(node) + connected.exchanges(node, count=10)

    told = [answer.json() for answer in answers]
    if rotates:
        assert {(each["error"], each["reason"]) for each in told} == {
            ("access_denied", "user_authorization_required")
        }
        assert all("/oauth/connect?link=" in each["error_uri"] for each in told)
        assert idp.refreshes == 3  # the one that was lost, and two refusals
    else:
        assert {each.get("access_token") for each in told} == {"at-2"}, told
        assert idp.refreshes == 2
