"""Each metric moves with what it tells of, at a running service; and alerts ask for values that there are.

What is measured in one place for all requests, and that no caller makes a time series, is in `test_metrics`.
"""

import re
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

import httpx
import pytest
from prometheus_client.utils import floatToGoString
from promql_parser import MatchOp
from sqlalchemy import update
from tests.runtime.test_metrics import series
from tests.runtime.vault.conftest import TOKENS, Account, account_at
from tests.runtime.vault.test_refresh import expire
from tests.runtime.vault.test_upstream_revocation import again, end, make_due
from tests.support.applying import Git, create
from tests.support.factories import App, company_of
from tests.support.kms import ALL_KEYS, Kms, running_kms
from tests.support.oauth_site import PASSWORD, Answer, Browser, Client, Page, Site, chained
from tests.support.proxy import Proxy, proxied
from tests.support.redis import RedisServer
from tests.support.rewired import run_job
from tests.support.rotating_provider import INVALID_GRANT, RotatingProvider, rotating_provider
from tests.support.scene import Scene
from tests.support.scripted_provider import Received, Scripted
from tests.support.server import Server, serve
from tests.support.transit import Transit, running_transit
from tests.support.waiting import let_pass, wait_until
from tests.test_monitoring import EXPRESSIONS, declared, parsed, selectors

from runtime import metrics
from runtime.adapters.outbound import Purpose
from runtime.adapters.upstream_oauth import circuit_breaker
from runtime.adapters.upstream_oauth import client as upstream_client
from runtime.adapters.upstream_oauth.revocation_request import RevocationOutcome
from runtime.api.shared.request_metrics import endpoint_of
from runtime.app import build, listening_socket
from runtime.domain import errors
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import PROVIDER, ZONE, Verb
from runtime.domain.oauth.decision_events import DecisionEvent, DecisionOutcome
from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE
from runtime.services import cache_sizes, data_keys, measuring
from runtime.services.container import Services
from runtime.services.decision_log import Decision
from runtime.services.management.zones import moving
from runtime.services.measuring import Measuring
from runtime.services.schedule import JOBS
from runtime.settings import Settings
from runtime.storage.sql.tables import outbox

EXPIRING = replace(TOKENS, refresh_token="rt-0")
TWO_HOURS = timedelta(hours=2)
# What a node may have, and since when it runs: that does not move.
_SETTINGS = {"zoned_database_connections_max", "zoned_node_start_time_seconds"}
# Kept by the process above several workers: tests/end_to_end/test_supervisor.py kills one.
_OF_SUPERVISOR = {"zoned_workers_replaced"}


@dataclass(frozen=True)
class World:
    """A service on SQLite and Redis.

    Attributes:
        way: to Redis.
    """

    site: Site
    redis: RedisServer
    way: Proxy

    @property
    def server(self) -> Server:
        return self.site.server

    def job(self, name: str) -> None:
        """Run a periodic job."""
        self.server.call(lambda services: run_job(services, name))

    def is_ready(self) -> str:
        """What readiness says."""
        return str(httpx.get(f"{self.server.url}/readyz").json()["status"])

    def sql(self, statement: str) -> None:
        """Change the database as another process does."""
        with closing(sqlite3.connect(self.server.settings.database_file, timeout=30)) as other:
            other.execute(statement)


@pytest.fixture(scope="module")
def world(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A service that measures five times a second, the outbox too."""
    redis_server.clear()
    directory = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patched, proxied(redis_server.url) as way:
        patched.setattr(measuring, "EVERY_SECONDS", 0.2)
        patched.setattr(measuring, "_OUTBOX_EVERY_SECONDS", 0.2)
        _let_measure_alone(directory, patched)
        with serve(directory, redis_url=way.redis_url) as server:
            yield World(Site(server, company_of(server)), redis_server, way)


def _let_measure_alone(directory: Path, patched: pytest.MonkeyPatch) -> None:
    """Of the services in this process, those of other modules among them: they share its gauges."""
    measure, measure_outbox = Measuring.measure, Measuring._measure_outbox

    def measure_own(self: Measuring) -> None:
        if self._services.settings.data_dir == directory:
            measure(self)

    async def measure_own_outbox(self: Measuring) -> None:
        if self._services.settings.data_dir == directory:
            await measure_outbox(self)

    patched.setattr(Measuring, "measure", measure_own)
    patched.setattr(Measuring, "_measure_outbox", measure_own_outbox)


@dataclass(frozen=True)
class Keyed:
    """A service whose keys Vault wraps, and AWS KMS those of some zones; it asks no private address."""

    site: Site
    vault: Transit
    kms: Kms

    @property
    def server(self) -> Server:
        return self.site.server

    def forget(self, zone_id: str) -> None:
        """Hold the data key of a zone no longer: the next request has its service unwrap it."""

        async def work(services: Services) -> None:
            services.data_keys.forget(zone_id)

        self.server.call(work)

    def keys(self, zone_id: str) -> int:
        """The status of an answer that needs the zone's keys."""
        return httpx.get(f"{self.server.url}/z/{zone_id}/.well-known/jwks.json").status_code

    def check(self, *, later: float) -> None:
        """Check what is held, as the background does so many seconds later."""

        async def work(services: Services) -> None:
            for held in services.data_keys._held.values():
                held.checked_at -= later
                held.usable_until -= later
            await services.data_keys.check()

        self.server.call(work)


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    with pytest.MonkeyPatch.context() as patched, running_transit() as vault, running_kms() as kms:
        patched.setattr(data_keys, "REFUSED_SECONDS", 0.0)
        patched.setattr(data_keys, "UNREACHABLE_SECONDS", 0.0)
        kms.let_it_be_found(patched)
        vault.key("own", token="known")
        settings: dict[str, Any] = {
            "key_encryption_key": "vault-transit:transit/own",
            "transit_address": vault.url,
            "transit_token": "known",
            "zone_encryption_keys": ALL_KEYS,
            "allow_private_addresses": False,
        }
        with serve(tmp_path_factory.mktemp("keyed"), **settings) as server:
            yield Keyed(Site(server, company_of(server)), vault, kms)


@dataclass(frozen=True)
class Case:
    """Something that is done at a service, and what its series come to by it.

    Attributes:
        deed: what is looked at is so inside the block.
        world: the fixture that it is done at.
        grows: by how much, exactly.
        at_least: the same, where more may come beside it.
        levels: what gauges are meanwhile.
        afterwards: what they are when the block has ended.
    """

    deed: Callable[[Any], AbstractContextManager[None]]
    world: str = "world"
    grows: Mapping[str, float] = field(default_factory=dict)
    at_least: Mapping[str, float] = field(default_factory=dict)
    levels: Mapping[str, float] = field(default_factory=dict)
    afterwards: Mapping[str, float] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        """The series that it tells of."""
        return {*self.grows, *self.at_least, *self.levels}

    def wrong(self, before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float | None]:
        """What has grown otherwise, or is at another level."""
        grown = {name: now.get(name, 0) - before.get(name, 0) for name in self.names}
        return (
            {name: grown[name] for name, by in self.grows.items() if grown[name] != by}
            | {name: grown[name] for name, by in self.at_least.items() if grown[name] < by}
            | _not_at(self.levels, now)
        )


def _not_at(levels: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float | None]:
    return {name: now.get(name) for name, level in levels.items() if now.get(name) != level}


CASES: dict[str, Case] = {}
_Deed = Callable[[Any], Iterator[None]]


def moves(**expected: Any) -> Callable[[_Deed], _Deed]:
    """Add a deed to the cases, under its name. It yields once: where the series are as expected."""

    def add(deed: _Deed) -> _Deed:
        CASES[deed.__name__] = Case(contextmanager(deed), **expected)
        return deed

    return add


def _sent(client: str, outcome: str) -> str:
    """The series of requests to other servers."""
    return f'zoned_outbound_request_seconds_count{{client="{client}",outcome="{outcome}"}}'


def _asked(service: str, operation: str, outcome: str) -> str:
    """The series of requests to key-management services."""
    labels = f'operation="{operation}",outcome="{outcome}",service="{service}"'
    return f"zoned_key_encryption_seconds_count{{{labels}}}"


# --- what callers get


@dataclass(frozen=True)
class Tool:
    """An application, the resource that it may have tokens for, and whose that resource is."""

    client: Client
    provider: App
    resource: str

    def token(self, **changes: str) -> httpx.Response:
        """Ask for a token of the application's own."""
        form: dict[str, Any] = {"grant_type": "client_credentials", "resource": self.resource}
        return self.client.token(**{**form, **changes})

    def introspect(self, token: str, **changes: str) -> httpx.Response:
        """Ask about a token, as the resource does."""
        form = {"token": token, **self.provider.form, **changes}
        return httpx.post(f"{self.client.issuer}/oauth/introspect", data=form)


def tool_of(site: Site) -> Tool:
    """One in a zone of its own."""
    zone = site.zone()
    provider = site.run(site.company.app(zone, "tool-server"))
    resource = site.run(site.company.resource(zone, "https://tools.example/mcp", application_id=provider.id))
    return Tool(site.app(zone, dependencies=[resource]), provider, resource.identifier)


@moves(
    grows={
        'zoned_introspections_total{result="active"}': 1,
        'zoned_introspections_total{result="inactive"}': 2,
        'zoned_token_requests_total{grant="introspection",outcome="inactive"}': 2,
        'zoned_token_requests_total{grant="client_credentials",outcome="issued"}': 1,
    }
)
def introspections(world: World) -> Iterator[None]:
    tool = tool_of(world.site)
    token = tool.token().json()["access_token"]
    told = [tool.introspect(each).json()["active"] for each in (token, "unknown", "a.b.c")]
    assert told == [True, False, False]
    yield


@moves(
    grows={
        'zoned_refusals_total{code="invalid_client",event="client_credentials"}': 2,
        'zoned_refusals_total{code="invalid_client",event="introspection"}': 1,
        'zoned_refusals_total{code="invalid_target",event="client_credentials"}': 1,
        'zoned_token_requests_total{grant="client_credentials",outcome="refused"}': 3,
        'zoned_introspections_total{result="active"}': 0,
        'zoned_introspections_total{result="inactive"}': 0,
    }
)
def refusals(world: World) -> Iterator[None]:
    tool = tool_of(world.site)
    answers = [tool.token(client_secret="wrong") for _ in range(2)]
    answers += [tool.introspect("unknown", client_secret="wrong")]
    answers += [tool.token(resource="https://other.example")]
    assert [each.status_code for each in answers] == [401, 401, 401, 400]
    yield


@moves(
    grows={
        'zoned_token_requests_total{grant="sign_in",outcome="signed_in"}': 1,
        'zoned_token_requests_total{grant="sign_in",outcome="refused"}': 1,
        'zoned_refusals_total{code="wrong_password",event="sign_in"}': 1,
        'zoned_token_requests_total{grant="authorization_code",outcome="issued"}': 1,
        'zoned_token_requests_total{grant="authorize",outcome="refused"}': 1,
        'zoned_refusals_total{code="login_required",event="authorize"}': 1,
    }
)
def sign_ins(world: World) -> Iterator[None]:
    zone = world.site.zone()
    world.site.user(zone)
    client, browser = world.site.app(zone), Browser()
    refused = browser.open(client.url(prompt="none"))
    assert isinstance(refused, Answer)
    page = browser.open(client.url())
    assert isinstance(page, Page)
    page_again = browser.send(page, email="ada@acme.example", password=f"not {PASSWORD}")
    code = browser.sign_in(page_again).code
    assert client.redeem(code).status_code == 200
    yield


@moves(
    grows={'zoned_token_requests_total{grant="callback",outcome="signed_in"}': 1},
    at_least={_sent("fetches", "2xx"): 2},
)
def sign_in_at_another_zone(world: World) -> Iterator[None]:
    product = chained(world.site).product
    world.site.app(product).sign_in(Browser())
    yield


@moves(grows={"zoned_former_address_requests_total": 3})
def requests_to_a_former_address(world: World) -> Iterator[None]:
    tool = tool_of(world.site)
    elsewhere = f"http://localhost:{urlsplit(world.server.url).port}"

    async def move(services: Services) -> None:
        ends_at = services.clock() + timedelta(days=30)
        assert await moving.move(services, tool.client.zone.id, elsewhere, ends_at=ends_at)

    assert tool.introspect("unknown").status_code == 200
    world.server.call(move)
    assert {tool.introspect("unknown").status_code for _ in range(3)} == {200}
    yield


# --- the database, and what waits for it


@moves(
    at_least={
        "zoned_database_statements_total": 3,
        "zoned_database_wait_seconds_count": 1,
    }
)
def a_write(world: World) -> Iterator[None]:
    world.site.zone()
    yield


@moves(grows={"zoned_replay_seconds_count": 1})
def a_dry_run_that_replays_a_decision(world: World) -> Iterator[None]:
    zone = world.site.zone()

    async def plan(services: Services) -> None:
        decision = Decision(
            zone.organization_id,
            zone.id,
            services.clock(),
            new_id(),
            event=DecisionEvent.CLIENT_CREDENTIALS,
            application_id=new_id(),
            resource_id=new_id(),
            actors=("agent",),
        )
        decision.issue()
        services.decisions.record(decision)
        await services.decisions.flush()
        git = Git(company_of(world.server))
        await git.apply(create("Group", "replayed", zone.id, name="Replayed"), dry_run=True)

    world.server.call(plan)
    yield


@moves(
    grows={
        'zoned_job_runs_total{job="unused_clients",outcome="failed"}': 1,
        'zoned_job_runs_total{job="unused_clients",outcome="done"}': 0,
        'zoned_job_work_total{job="unused_clients"}': 0,
        'zoned_job_seconds_count{job="unused_clients"}': 1,
        'zoned_job_last_success_timestamp_seconds{job="unused_clients"}': 0,
        'zoned_request_seconds_count{endpoint="management list",outcome="service_unavailable"}': 1,
        "zoned_database_unavailable_total": 2,  # once for the job, and once for the request
    },
)
def a_missing_table(world: World) -> Iterator[None]:
    address = f"{world.server.url}/zones/{world.site.zone().id}/user-agents"
    world.sql("ALTER TABLE user_agents RENAME TO elsewhere")
    try:
        with pytest.raises(errors.Unavailable):
            world.job("unused_clients")
        assert httpx.get(address, headers=world.server.headers).status_code == 503
        yield
    finally:
        world.sql("ALTER TABLE elsewhere RENAME TO user_agents")


@moves(
    levels={
        'zoned_queue_length{queue="decisions"}': 2,
        "zoned_database_waiting": 1,
        "zoned_database_connections_in_use": 1,
    },
    afterwards={
        'zoned_queue_length{queue="decisions"}': 0,
        "zoned_database_waiting": 0,
        "zoned_database_connections_in_use": 0,
    },
)
def another_process_writes(world: World) -> Iterator[None]:
    tool = tool_of(world.site)
    assert tool.introspect("unknown").status_code == 200
    world.server.call(lambda services: services.decisions.flush())
    address, headers = f"{world.server.url}/zones", world.server.headers
    file = world.server.settings.database_file
    with closing(sqlite3.connect(file, isolation_level=None)) as other, ThreadPoolExecutor(1) as aside:
        other.execute("BEGIN IMMEDIATE")
        assert {tool.introspect("unknown").status_code for _ in range(2)} == {200}
        made = aside.submit(httpx.post, address, json={"name": "Late"}, headers=headers)
        try:
            yield
        finally:
            other.execute("ROLLBACK")
        assert made.result().is_success


# --- Redis


@moves(grows={'zoned_state_seconds_count{outcome="answered"}': 1, "zoned_state_skipped_total": 0})
def redis_answers(world: World) -> Iterator[None]:
    assert world.is_ready() == "ok"
    yield


@moves(grows={'zoned_state_seconds_count{outcome="refused"}': 2}, levels={"zoned_state_breaker_open": 0})
def redis_is_full(world: World) -> Iterator[None]:
    world.redis.fill()
    try:
        assert {world.is_ready() for _ in range(2)} == {"degraded"}
        yield
    finally:
        world.redis.make_room()


@moves(
    grows={'zoned_state_seconds_count{outcome="unavailable"}': 1, "zoned_state_skipped_total": 2},
    levels={"zoned_state_breaker_open": 1},
    afterwards={"zoned_state_breaker_open": 0},
)
def redis_is_away(world: World) -> Iterator[None]:
    world.way.cut()
    try:
        assert {world.is_ready() for _ in range(3)} == {"degraded"}
        yield
    finally:
        world.way.lead_to(world.redis.url)


@moves(grows={'zoned_request_seconds_count{endpoint="/oauth/sign-in",outcome="5xx"}': 1})
def a_sign_in_without_redis(world: World) -> Iterator[None]:
    zone = world.site.zone()
    world.site.user(zone)
    browser = Browser()
    page = browser.open(world.site.app(zone).url())
    assert isinstance(page, Page)
    world.way.cut()
    try:
        assert browser.post(page, email="ada@acme.example", password=PASSWORD).status_code == 503
        yield
    finally:
        world.way.lead_to(world.redis.url)
        wait_until(lambda: world.is_ready() == "ok")


# --- providers


@dataclass(frozen=True)
class Connected:
    """Ann's account at a provider, its access token just over."""

    world: World
    account: Account
    idp: RotatingProvider

    def expire(self) -> None:
        """Let the access token be over, and nobody be at it."""
        now = self.world.server.services.clock()
        self.world.site.run(expire(self.account, lease_until=now - timedelta(seconds=1)))

    def exchange(self) -> httpx.Response:
        """Ask for the provider's token."""
        scene, account = self.account.scene, self.account
        token = self.world.site.run(scene.company.token(scene.zone, account.agent, account.ann))
        return Client(scene.zone, account.agent).token(
            grant_type=GRANT_TYPE,
            subject_token=token,
            subject_token_type=ACCESS_TOKEN,
            resource=account.resource.identifier,
        )

    def revoke(self) -> None:
        """Take the grant back, and tell the provider."""
        self.world.site.run(end(self.account, "revoked"))
        self.world.job("outbox")


@contextmanager
def connected(world: World, *, without: str = "") -> Iterator[Connected]:
    """One at a provider of its own.

    Args:
        without: an endpoint that the provider lacks.
    """
    with rotating_provider() as idp:
        scene = Scene(world.site.company, world.site.zone())
        settings = idp.settings_without(without)
        account = world.site.run(account_at(scene, idp.server.url, **settings))
        world.site.run(account.connect(EXPIRING))
        made = Connected(world, account, idp)
        made.expire()
        yield made


@contextmanager
def held_up(idp: RotatingProvider) -> Iterator[threading.Event]:
    """Let the provider do what it is asked, and answer once the event is set."""
    answer, may_answer = idp.server.script, threading.Event()

    def script(received: Received) -> Scripted:
        told = answer(received)
        may_answer.wait(30)
        return told

    idp.server.script = script
    try:
        yield may_answer
    finally:
        may_answer.set()


@moves(
    grows={
        'zoned_upstream_refreshes_total{outcome="refreshed"}': 1,
        _sent("connected_accounts", "2xx"): 1,
        'zoned_token_requests_total{grant="token_exchange",outcome="issued"}': 1,
    }
)
def a_refresh(world: World) -> Iterator[None]:
    with connected(world) as account:
        assert account.exchange().json()["access_token"] == "at-1"
        yield


@moves(
    grows={
        'zoned_upstream_refreshes_total{outcome="refused"}': 1,
        'zoned_upstream_refreshes_total{outcome="dead"}': 1,
        _sent("connected_accounts", "4xx"): 2,
        'zoned_refusals_total{code="access_denied",event="token_exchange"}': 1,
    }
)
def a_provider_that_refuses_the_account(world: World) -> Iterator[None]:
    with connected(world) as account:
        account.idp.answer = INVALID_GRANT
        assert account.exchange().status_code == 400
        yield


@moves(
    grows={
        'zoned_upstream_refreshes_total{outcome="misconfigured"}': 1,
        'zoned_refusals_total{code="provider_unavailable",event="token_exchange"}': 1,
        'zoned_request_seconds_count{endpoint="/oauth/token",outcome="temporarily_unavailable"}': 1,
    },
    levels={"zoned_upstream_circuits_open": 0},
)
def a_provider_that_refuses_the_zone(world: World) -> Iterator[None]:
    with connected(world) as account:
        account.idp.answer = Scripted({"error": "invalid_client"}, 401)
        assert account.exchange().status_code == 503
        yield


@moves(
    grows={
        'zoned_upstream_refreshes_total{outcome="temporary"}': 6,
        _sent("connected_accounts", "5xx"): 5,
    },
    levels={"zoned_upstream_circuits_open": 1},
    afterwards={"zoned_upstream_circuits_open": 0},
)
def a_provider_that_fails(world: World) -> Iterator[None]:
    with connected(world) as account:
        account.idp.answer = Scripted(status=503)
        for _ in range(circuit_breaker.FAILURES_TO_OPEN + 1):
            assert account.exchange().status_code == 503
            account.expire()
        yield
        account.idp.answer = None
        with pytest.MonkeyPatch.context() as patched:  # the pause of ten seconds is over
            breakers = world.server.services.upstream_oauth._breakers
            now = breakers._clock()
            patched.setattr(breakers, "_clock", lambda: now + circuit_breaker.FIRST_PAUSE_SECONDS)
            assert account.exchange().status_code == 200


@moves(
    grows={
        'zoned_upstream_refreshes_total{outcome="temporary"}': 1,
        _sent("connected_accounts", "timeout"): 1,
    },
    levels={"zoned_upstream_circuits_open": 0},  # one failure is not enough
    afterwards={"zoned_upstream_circuits_open": 0},
)
def a_provider_that_says_nothing(world: World) -> Iterator[None]:
    with connected(world) as account, pytest.MonkeyPatch.context() as patched:
        patched.setattr(upstream_client, "REFRESH_TIMEOUT_SECONDS", 0.3)
        with held_up(account.idp):
            assert account.exchange().status_code == 503
            yield
        patched.undo()
        account.expire()
        assert account.exchange().status_code == 400  # it has rotated the token, and nobody has heard


@moves(grows={'zoned_upstream_refreshes_total{outcome="superseded"}': 1})
def a_refresh_of_what_is_revoked_meanwhile(world: World) -> Iterator[None]:
    with connected(world) as account, ThreadPoolExecutor(1) as aside:
        with held_up(account.idp) as may_answer:
            asking = aside.submit(account.exchange)
            assert account.idp.asked.wait(30)
            world.site.run(end(account.account, "revoked"))
            may_answer.set()
            assert asking.result().status_code == 400
        yield
        world.job("outbox")


@moves(
    grows={
        'zoned_upstream_revocations_total{outcome="revoked"}': 2,
        'zoned_job_runs_total{job="outbox",outcome="done"}': 1,
        'zoned_job_work_total{job="outbox"}': 1,
        'zoned_job_seconds_count{job="outbox"}': 1,
    },
    at_least={'zoned_job_last_success_timestamp_seconds{job="outbox"}': 0.001},
)
def a_revocation(world: World) -> Iterator[None]:
    with connected(world) as account:
        account.revoke()
        assert len(account.idp.revoked) == 2
        yield


@moves(grows={'zoned_upstream_revocations_total{outcome="not_supported"}': 2})
def a_revocation_without_an_endpoint(world: World) -> Iterator[None]:
    with connected(world, without="revocation_endpoint") as account:
        account.idp.server.answers(status=404)
        account.revoke()
        yield


@moves(grows={'zoned_upstream_revocations_total{outcome="superseded"}': 1})
def a_revocation_beside_another_account(world: World) -> Iterator[None]:
    with connected(world) as account:
        world.site.run(again(account.account, "another"))
        account.revoke()
        assert account.idp.revoked == []
        yield


@moves(
    grows={'zoned_upstream_revocations_total{outcome="failed"}': 2},
    at_least={"zoned_outbox_oldest_seconds": TWO_HOURS.total_seconds() - 1},
    levels={
        'zoned_outbox_messages{state="waiting"}': 1,
        'zoned_outbox_messages{state="dead"}': 1,
    },
    afterwards={
        'zoned_outbox_messages{state="waiting"}': 0,
        'zoned_outbox_messages{state="dead"}': 1,
        "zoned_outbox_oldest_seconds": 0,
    },
)
def revocations_that_fail(world: World) -> Iterator[None]:
    async def grow_old(services: Services) -> None:
        async with services.database.transaction() as conn:
            before = services.clock() - TWO_HOURS
            await conn.execute(update(outbox).where(outbox.c.parked_at.is_(None)).values(created_at=before))

    with connected(world) as refused, connected(world) as failing:
        refused.idp.revocation = Scripted({"error": "invalid_client"}, 401)
        refused.revoke()
        failing.idp.revocation = Scripted(status=503)
        failing.revoke()
        world.server.call(grow_old)
        yield
        failing.idp.revocation = None
        world.site.run(make_due(failing.account))
        world.job("outbox")


def signing_in_at(site: Site, issuer: str) -> Client:
    """An application of a zone whose people sign in at that provider."""
    zone, company = site.zone(), site.company
    body = {"name": "Elsewhere", "client_id": "zone", "protocols": {"oauth2": {"issuer": issuer}}}
    provider = site.run(company.create(PROVIDER, zone.id, identifier=issuer, **body))
    patch = {"user_identity_provider_id": provider.id}
    return site.app(site.run(company.run(ZONE, Verb.UPDATE, {}, zone.id, patch)))


def free_address() -> str:
    """An address on this machine where nobody listens."""
    with closing(listening_socket("127.0.0.1:0")) as bound:
        return f"127.0.0.1:{bound.getsockname()[1]}"


@moves(
    grows={
        _sent("fetches", "failed"): 1,
        'zoned_refusals_total{code="provider_unavailable",event="authorize"}': 1,
    }
)
def an_identity_provider_that_is_away(world: World) -> Iterator[None]:
    client = signing_in_at(world.site, f"http://{free_address()}")
    assert isinstance(Browser().open(client.url()), Answer)
    yield


@moves(
    world="keyed",
    grows={
        _sent("fetches", "refused"): 1,
        'zoned_refusals_total{code="provider_unavailable",event="authorize"}': 1,
    },
)
def an_identity_provider_at_a_private_address(keyed: Keyed) -> Iterator[None]:
    client = signing_in_at(keyed.site, "https://127.0.0.1")
    assert isinstance(Browser().open(client.url()), Answer)
    yield


# --- key-management services


@moves(
    world="keyed",
    grows={
        _asked("vault_transit", "encrypt", "ok"): 1,
        _asked("vault_transit", "decrypt", "ok"): 2,  # the new key is tried first
        _sent("key_encryption", "2xx"): 3,
        "zoned_database_unavailable_total": 0,
    },
)
def a_zone_of_vault(keyed: Keyed) -> Iterator[None]:
    zone = keyed.site.zone()
    keyed.forget(zone.id)
    assert [keyed.keys(zone.id) for _ in range(2)] == [200, 200]
    yield


@moves(
    world="keyed",
    grows={
        _asked("vault_transit", "decrypt", "unreachable"): 1,
        _sent("key_encryption", "5xx"): 1,
        "zoned_database_unavailable_total": 0,
    },
)
def vault_is_sealed(keyed: Keyed) -> Iterator[None]:
    zone = keyed.site.zone()
    keyed.forget(zone.id)
    keyed.vault.is_sealed = True
    try:
        assert keyed.keys(zone.id) == 503
        yield
    finally:
        keyed.vault.is_sealed = False


@moves(
    world="keyed",
    grows={
        _asked("vault_transit", "decrypt", "refused"): 1,
        _sent("key_encryption", "4xx"): 1,
    },
)
def vault_refuses(keyed: Keyed) -> Iterator[None]:
    zone = keyed.site.zone()
    keyed.forget(zone.id)
    allowed = keyed.vault.tokens.pop("known")
    try:
        assert keyed.keys(zone.id) == 503
        yield
    finally:
        keyed.vault.tokens["known"] = allowed


@moves(
    world="keyed",
    grows={
        _asked("aws_kms", "encrypt", "ok"): 1,
        _asked("aws_kms", "decrypt", "ok"): 2,
        _asked("aws_kms", "decrypt", "refused"): 1,
        "zoned_database_unavailable_total": 0,
    },
)
def a_zone_of_kms(keyed: Keyed) -> Iterator[None]:
    arn = keyed.kms.key()
    zone = keyed.site.zone(encryption_key={"type": "cloud", "arn": arn})
    keyed.forget(zone.id)
    assert keyed.keys(zone.id) == 200
    keyed.forget(zone.id)
    keyed.kms.denied.add(arn)
    assert keyed.keys(zone.id) == 503
    yield


@moves(
    world="keyed",
    levels={'zoned_data_keys{state="held"}': 0, 'zoned_data_keys{state="unreachable"}': 1},
    afterwards={'zoned_data_keys{state="held"}': 1, 'zoned_data_keys{state="unreachable"}': 0},
)
def a_check_that_is_overdue(keyed: Keyed) -> Iterator[None]:
    for zone_id in list(keyed.server.services.data_keys._held):
        keyed.forget(zone_id)
    zone = keyed.site.zone()
    assert keyed.keys(zone.id) == 200
    keyed.vault.is_sealed = True
    try:
        keyed.check(later=1.6 * keyed.server.settings.encryption_key_check_seconds)
        assert keyed.keys(zone.id) == 200
        yield
    finally:
        keyed.vault.is_sealed = False
    keyed.check(later=0)


# --- the process itself


@moves(
    at_least={
        'zoned_cache_lookups_total{cache="clients",result="miss"}': 1,
        'zoned_cache_lookups_total{cache="clients",result="hit"}': 1,
        'zoned_cache_entries{cache="clients"}': 1,
    }
)
def requests_of_one_client(world: World) -> Iterator[None]:
    tool = tool_of(world.site)
    assert {tool.token().status_code for _ in range(2)} == {200}
    yield


@moves(at_least={"zoned_event_loop_lag_seconds_count": 1, "zoned_event_loop_lag_seconds_sum": 0.2})
def work_that_holds_the_loop_up(world: World) -> Iterator[None]:
    async def work(_services: Services) -> None:
        let_pass(0.5)

    for _ in range(2):  # the first may fall between two measurements
        world.server.call(work)
    yield


@moves(levels={f'zoned_build_info{{version="{version("zonewright")}"}}': 1})
def nothing(_world: World) -> Iterator[None]:
    yield


def _come_to(server: Server, wrong: Callable[[Mapping[str, float]], object]) -> None:
    """Return once nothing is wrong with the series; gauges are measured now and then."""
    wait_until(
        lambda: not wrong(series(server)), seconds=30, otherwise=lambda: f"not so: {wrong(series(server))}"
    )


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_each_series_moves(case: Case, request: pytest.FixtureRequest) -> None:
    """Counters by so much and gauges to so much; and gauges back, when it is over."""
    server: Server = request.getfixturevalue(case.world).server
    before = series(server)

    with case.deed(request.getfixturevalue(case.world)):
        _come_to(server, lambda now: case.wrong(before, now))
    _come_to(server, lambda now: _not_at(case.afterwards, now))


def _metric(sample: str) -> str:
    """The name that a metric is declared with."""
    name = sample.partition("{")[0]
    return next((each for each in declared() if re.fullmatch(rf"{each}(_\w+)?", name)), name)


def test_no_metric_is_left_out() -> None:
    """Each that is declared moves in one of the cases, or where there is a supervisor."""
    moved = {_metric(name) for case in CASES.values() for name in case.names}

    assert declared().keys() - moved == _SETTINGS | _OF_SUPERVISOR


# --- the values that are asked for


def _classes(of: type[errors.ServiceError]) -> Iterator[type[errors.ServiceError]]:
    yield of
    for each in of.__subclasses__():
        yield from _classes(each)


# Errors that are told in JSON: the outcome of the request is their code. That of a page is its status.
_TOLD = [each for base in (errors.ManagementError, errors.OAuthError) for each in _classes(base)]
_TOLD = [each for each in _TOLD if hasattr(each, "code") and hasattr(each, "status")]
_DEFECT = "internal_error"  # of what is no error of the service
_STATUSES = frozenset(f"{number}xx" for number in range(1, 6))


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, str], frozenset[str]]:
    """Metric and label -> the values that there are."""
    app = build(Settings(data_dir=tmp_path_factory.mktemp("values")), name="metric-values")
    events = frozenset(DecisionEvent)
    buckets = frozenset(map(floatToGoString, metrics.BUCKETS))
    return {
        ("zoned_request_seconds", "endpoint"): frozenset(
            endpoint_of(each.name, each.path) for each in app.router.routes
        ),
        ("zoned_request_seconds", "outcome"): _STATUSES
        | {each.code for each in _TOLD}
        | {_DEFECT, "too_many_requests"},
        ("zoned_request_seconds", "le"): buckets,
        ("zoned_token_requests", "grant"): events,
        ("zoned_token_requests", "outcome"): frozenset(DecisionOutcome),
        ("zoned_refusals", "event"): events,
        ("zoned_refusals", "code"): errors.codes(),
        ("zoned_state_seconds", "outcome"): frozenset({"answered", "refused", "unavailable"}),
        ("zoned_queue_length", "queue"): frozenset({"decisions"}),
        ("zoned_outbox_messages", "state"): frozenset({"waiting", "dead"}),
        ("zoned_cache_lookups", "cache"): frozenset(each.name for each in cache_sizes.ALL),
        ("zoned_cache_lookups", "result"): frozenset({"hit", "miss"}),
        ("zoned_outbound_request_seconds", "client"): frozenset(get_args(Purpose)),
        ("zoned_key_encryption_seconds", "outcome"): frozenset({"ok", "refused", "unreachable", "failed"}),
        ("zoned_upstream_revocations", "outcome"): frozenset({*RevocationOutcome, "superseded"}),
        ("zoned_job_runs", "exported_job"): frozenset(each.name for each in JOBS),
        ("zoned_job_runs", "outcome"): frozenset({"done", "failed"}),
    }


def _asks_for_nothing(matcher: Any, known: frozenset[str]) -> bool:
    """Tell whether some of what a matcher names is no value, or it leaves nothing."""
    if matcher.op in (MatchOp.Equal, MatchOp.NotEqual):
        return matcher.value not in known
    unknown = [
        each for each in matcher.value.split("|") if not any(re.fullmatch(each, value) for value in known)
    ]
    return bool(unknown) or (
        matcher.op is MatchOp.NotRe and all(re.fullmatch(matcher.value, value) for value in known)
    )


_OF_TARGETS = {"instance", "job", "worker"}


@pytest.mark.parametrize("where", EXPRESSIONS)
def test_each_value_is_one_that_there_is(
    where: str, values: Mapping[tuple[str, str], frozenset[str]]
) -> None:
    """One that is misspelt matches nothing: an alert on it never fires, or one without it always does."""
    asked = [
        (_metric(selector.name), matcher)
        for selector in selectors(parsed(EXPRESSIONS[where]))
        for matcher in selector.matchers.matchers
        if matcher.name not in _OF_TARGETS
    ]

    assert [
        (metric, str(matcher))
        for metric, matcher in asked
        if _asks_for_nothing(matcher, values[metric, matcher.name])
    ] == []


@pytest.mark.parametrize(
    ("matcher", "is_wrong"),
    [
        ('a="yes"', False),
        ('a="yse"', True),
        ('a!="yse"', True),
        ('a=~"y.*|no"', False),
        ('a=~"yes|on"', True),
        ('a!~"y.*"', False),
        ('a!~".*"', True),
    ],
)
def test_what_the_check_of_values_finds(matcher: str, is_wrong: bool) -> None:
    """Each alternative has to match something, and what is excluded must not be everything."""
    [found] = parsed(f"up{{{matcher}}}").matchers.matchers

    assert _asks_for_nothing(found, frozenset({"yes", "no"})) is is_wrong


@pytest.mark.parametrize("where", ["alert ZonedServerErrors", "panel Share of 5xx answers, A"])
def test_an_answer_of_the_server_class_is_a_failure(where: str) -> None:
    """Every code of an error with a status of 500 and above, and the class itself for pages; nothing else."""
    [asked] = {
        matcher.value
        for selector in selectors(parsed(EXPRESSIONS[where]))
        for matcher in selector.matchers.matchers
        if matcher.name == "outcome"
    }
    codes = {each.code for each in _TOLD if each.status >= 500}

    assert set(asked.split("|")) == codes | {_DEFECT, "5xx"}


def test_the_cases_name_what_is_declared() -> None:
    """Every series that a case names is one of a metric."""
    names = {name.partition("{")[0] for case in CASES.values() for name in case.names}

    assert {name for name in names if _metric(name) not in declared()} == set()
