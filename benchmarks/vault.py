"""Tokens of connected accounts: handed out while they are valid, and after a refresh where they are over."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

import httpx
from acme import Server, claims

from benchmarks import servers
from benchmarks.exchange import Stage, empty_rate, exchange_form, prepare, put, row
from benchmarks.load import Load
from benchmarks.provider import LIFETIME_SECONDS
from benchmarks.table import Row
from runtime.adapters.upstream_oauth.token_response import UpstreamTokens
from runtime.app import close_services, make_services
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.attenuation import limit_upstream
from runtime.services import epochs
from runtime.services.authorization.consent_decision import record_consents
from runtime.services.client_types import Client
from runtime.services.container import Services
from runtime.services.vault.upstream_tokens import store_connected
from runtime.services.zones import CachedZone
from runtime.settings import Settings


@dataclass(frozen=True)
class Accounts:
    """What people's accounts are for.

    Attributes:
        users: ids, in the order of the stage's people.
        resources: id -> identifier.
    """

    zone_id: str
    users: list[str]
    resources: dict[str, str]


# Of each person but the first, whose one account is valid. A token that is over is used once.
_PEOPLE, _ACCOUNTS = 6, 60
_SCOPES = frozenset({"issues.read"})


def measure(directory: Path) -> Iterator[Row]:
    """Rows for both forms of storage."""
    yield from _on("SQLite", Server(directory / "vault-sqlite"), directory)
    with servers.postgresql(directory / "vault-pg") as database, servers.redis(directory / "vault") as state:
        settings = {"ZONED_DATABASE_URL": database, "ZONED_REDIS_URL": state}
        yield from _on("PostgreSQL + Redis", Server(directory / "vault-postgresql", settings), directory)


def _on(storage: str, server: Server, directory: Path) -> Iterator[Row]:
    server.init()
    server.start()
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(server.stop)
        double = cleanup.enter_context(servers.provider())
        stage = prepare(server, directory / f"vault-config-{server.port}", people=_PEOPLE)
        accounts = _configure(server, stage, double.url)
        server.stop()
        asyncio.run(_connect(server, stage.agent.client_id, accounts))
        server.start()
        address, forms = f"{stage.agent.issuer}/oauth/token", _forms(stage, [*accounts.resources.values()])
        empty = empty_rate(forms[0])
        yield row(f"vault hit, {storage}", put(Load(address, forms[0])), empty)
        yield _misses(f"vault miss, {storage}", Load(address, bodies=forms[1:], seconds=8), double, empty)


def _misses(what: str, load: Load, double: servers.Provider, empty: float) -> Row:
    """The row of exchanges each of which has one token refreshed. Raises RuntimeError where one has not."""
    before = double.done()
    outcome = put(load)
    after = double.done()
    if (refreshed := after.refreshes - before.refreshes) != outcome.sent:
        raise RuntimeError(f"{refreshed} refreshes for {outcome.sent} exchanges")
    share = (after.cpu_seconds - before.cpu_seconds) / outcome.seconds
    return Row(
        what,
        outcome.rate,
        empty,
        f"p50 {outcome.p50_ms:.1f} ms, p99 {outcome.p99_ms:.1f} ms, the provider has {share:.0%} of a core",
    )


def _forms(stage: Stage, resources: Sequence[str]) -> list[str]:
    """A form for each account: of one that is valid first, then of those that are over, person after person.

    Resources in the outer loop: requests beside each other are of different people.
    """
    accounts = [(stage.subjects[0], resources[0])]
    accounts += [(subject, resource) for resource in resources for subject in stage.subjects[1:]]
    form = exchange_form(stage)
    return [urlencode(form | {"subject_token": subject, "resource": name}) for subject, name in accounts]


def _configure(server: Server, stage: Stage, url: str) -> Accounts:
    """Resources whose tokens the provider issues, and which the agent depends on."""
    zone_id, resources = server.zone("acme-product")["id"], {}
    zone = f"/zones/{zone_id}"
    with server.management() as client:
        oauth2 = {"authorization_endpoint": f"{url}/authorize", "token_endpoint": f"{url}/token"}
        body = {"name": "Tracker", "identifier": url, "client_id": "zone", "protocols": {"oauth2": oauth2}}
        made = client.post(f"{zone}/providers", json=body).raise_for_status().json()
        agent = _found(client, f"{zone}/applications", stage.agent.client_id)
        for number in range(_ACCOUNTS):
            api = {"name": f"Tracker {number}", "identifier": f"{url}/api/{number}", "scopes": [*_SCOPES]}
            issued = {**api, "credential_provider_id": made["id"]}
            resource = client.post(f"{zone}/resources", json=issued).raise_for_status().json()["id"]
            resources[resource] = str(api["identifier"])
            client.put(f"{zone}/applications/{agent}/dependencies/{resource}").raise_for_status()
        users = [_found(client, f"{zone}/users", claims(subject)["sub"]) for subject in stage.subjects]
    return Accounts(zone_id, users, resources)


def _found(client: httpx.Client, collection: str, identifier: str) -> str:
    """The id of what has that identifier."""
    answer = client.get(collection, params={"filter[identifier]": identifier})
    (item,) = answer.raise_for_status().json()["items"]
    return str(item["id"])


async def _connect(server: Server, client_id: str, accounts: Accounts) -> None:
    """Connect everybody's accounts as the callback of a connection does, while no server runs."""
    services = await make_services(
        Settings(
            data_dir=server.directory,
            public_url=server.url,
            allow_private_addresses=True,
            database_url=server.settings.get("ZONED_DATABASE_URL"),
            redis_url=server.settings.get("ZONED_REDIS_URL"),
        )
    )
    try:
        zone = await services.zones.get(accounts.zone_id)
        client = await zone.clients.get(client_id)
        found = [await zone.resources.get(each) for each in accounts.resources]
        resources = [each for each in found if each is not None]
        if client is None or len(resources) != len(found):
            raise RuntimeError("what was just configured is not there")
        now = services.clock()
        over = now - timedelta(seconds=2 * LIFETIME_SECONDS)
        first, *others = accounts.users
        await _store(services, zone, client, first, resources[:1], now)
        for user_id in others:
            await _store(services, zone, client, user_id, resources, over)
    finally:
        await close_services(services)


async def _store(
    services: Services,
    zone: CachedZone,
    client: Client,
    user_id: str,
    resources: Sequence[Resource],
    issued_at: datetime,
) -> None:
    async with services.epochs.transaction() as (conn, bumped):
        bumped.update(await epochs.bump_user(conn, zone.id, user_id))
        for resource in resources:
            issuer = await zone.providers.get(str(resource.credential_provider_id))
            if issuer is None:
                raise RuntimeError("the provider is not there")
            tokens = UpstreamTokens(
                "access-0", LIFETIME_SECONDS, "refresh-0", True, None, _SCOPES, has_named_scopes=True
            )
            await store_connected(
                conn,
                services,
                zone,
                user_id=user_id,
                resource=resource,
                provider=issuer,
                tokens=tokens,
                scopes=limit_upstream(_SCOPES, _SCOPES),
                now=issued_at,
            )
        wanted = {resource.id: _SCOPES for resource in resources}
        await record_consents(conn, zone, client, user_id, wanted, None, now=issued_at)
