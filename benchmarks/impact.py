"""The impact of a policy change on 100,000 recorded decisions: how long a plan that shows it takes.

The records are of requests as unlike as they may be: of every user, application and resource alike. Their
zone's policies go by groups, as most do, and then by users' addresses, so that no two users are alike.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
from acme import Server
from argon2 import PasswordHasher
from sqlalchemy import select, text

from benchmarks import floors, servers
from benchmarks.exchange import put
from benchmarks.load import Load
from benchmarks.table import Row
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import APPLICATION, APPLICATION_CREDENTIAL, RESOURCE, USER, ZONE
from runtime.domain.oauth.decision_events import DecisionEvent, DecisionOutcome
from runtime.storage.sql import token_events
from runtime.storage.sql.database import Database
from runtime.storage.sql.tables import TABLES
from runtime.storage.sql.token_events import TokenEvent

_users, _resources, _applications, _zones = (
    TABLES[kind.name] for kind in (USER, RESOURCE, APPLICATION, ZONE)
)
_credentials = TABLES[APPLICATION_CREDENTIAL.name]
RECORDS = 100_000
_USERS, _APPLICATIONS, _RESOURCES, _GROUPS = 1_000, 10, 10, 20
_BATCH, _APART = 2_000, timedelta(seconds=10)
_CHANGES = 2  # exit code of `zonectl plan`
_HASH = PasswordHasher().hash("nobody signs in")
_HEAD = "apiVersion: zonewright/v1\nkind: {kind}\nmetadata: {{zone: bench, name: {name}}}\nspec:\n"
_PERMIT = "permit (principal, action, resource);"
_RULES = {
    "groups": 'forbid (principal in Group::"group-1", action, resource);',
    "addresses": (
        'forbid (principal, action, resource) when { principal has email && principal.email like "user-1*" };'
    ),
}


def measure(directory: Path) -> Iterator[Row]:
    """A row for each sort of rule and storage; what is counted is records, a second of the whole command."""
    with servers.empty_sanic() as url:
        empty = put(Load(f"{url}/empty", "a=b", seconds=3)).rate
    yield from _on("SQLite", Server(directory / "impact-sqlite"), directory, empty)
    with (
        servers.postgresql(directory / "impact-pg") as database,
        servers.redis(directory / "impact-redis") as state,
    ):
        settings = {"ZONED_DATABASE_URL": database, "ZONED_REDIS_URL": state}
        yield from _on("PostgreSQL + Redis", Server(directory / "impact", settings), directory, empty)


def _on(storage: str, server: Server, directory: Path, empty: float) -> Iterator[Row]:
    server.init()
    server.start()
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(server.stop)
        config = directory / f"impact-config-{server.port}"
        config.mkdir()
        _write(config, _PERMIT)
        written = directory / f"impact-secrets-{server.port}"
        server.zonectl("apply", str(config), "--yes", "--secrets-dir", str(written))
        people = directory / f"impact-people-{server.port}.jsonl"
        people.write_bytes(b"".join(map(_imported, range(_USERS))))
        server.run("user", "import", "--zone", "bench", str(people))
        embedded = f"sqlite+aiosqlite:///{server.directory / 'zonewright.db'}"
        asyncio.run(_fill(server.settings.get("ZONED_DATABASE_URL", embedded)))
        for sort, rule in _RULES.items():
            _write(config, f"{_PERMIT}\n{rule}")
            began = time.perf_counter()
            shown = server.zonectl("plan", str(config), "--output", "json", expect=(_CHANGES,))
            took = time.perf_counter() - began
            (impact,) = orjson.loads(shown.stdout)["decision_impact"]
            told = f"{took:.2f} s; {impact['replayed']:,} of {impact['recorded']:,} replayed"
            refused = f"{impact['loses']['decisions']:,} would be refused"
            yield Row(f"{floors.IMPACT} by {sort}, {storage}", RECORDS / took, empty, f"{told}, {refused}")


def _imported(number: int) -> bytes:
    """A line of `zoned user import`."""
    user = {"email": f"user-{number}@acme.example", "email_verified": True, "password_hash": _HASH}
    return orjson.dumps(user, option=orjson.OPT_APPEND_NEWLINE)


def _write(config: Path, cedar: str) -> None:
    """Write a zone whose policy is that text."""
    documents = ["apiVersion: zonewright/v1\nkind: Zone\nmetadata: {name: bench}\nspec: {name: Bench}\n"]

    def add(kind: str, name: str, *lines: str) -> None:
        documents.append(_HEAD.format(kind=kind, name=name) + "".join(f"  {line}\n" for line in lines))

    names = [f"resource-{number}" for number in range(_RESOURCES)]
    for name in names:
        add(
            "Resource",
            name,
            f"name: {name}",
            f"identifier: https://{name}.acme.example",
            "scopes: [read, write]",
        )
    for number in range(_APPLICATIONS):
        add(
            "Application",
            f"application-{number}",
            f"name: Application {number}",
            "consent: implicit",
            f"dependencies: [{', '.join(names)}]",
        )
        add(
            "ApplicationCredential",
            f"application-{number}",
            f"application: application-{number}",
            "type: password",
        )
    for number in range(_GROUPS):
        members = ", ".join(f"user-{user}@acme.example" for user in range(number, _USERS, _GROUPS))
        add("Group", f"group-{number}", f"name: Group {number}", f"members: [{members}]")
    indented = "".join(f"\n    {line}" for line in cedar.splitlines())
    add("Policy", "access", "name: access", f"cedar: |{indented}")
    add("PolicySet", "main", "name: main", "policies: [access]")
    (config / "zonectl.yaml").write_text("owner: acme/bench\n")
    (config / "bench.yaml").write_text("---\n".join(documents), "utf-8")


async def _fill(address: str) -> None:
    """Put records into the zone behind the service's back: minutes of requests in a few seconds."""
    database, chance, now = Database.open(address), random.Random(1), datetime.now(UTC)
    try:
        async with database.reading() as conn:
            zone = (await conn.execute(select(_zones).where(_zones.c.name == "Bench"))).one()
            users, resources = [
                (await conn.execute(select(each.c.id).where(each.c.zone_id == zone.id, *own))).scalars().all()
                for each, own in ((_users, ()), (_resources, (_resources.c.owner_type == "customer",)))
            ]
            clients = (
                await conn.execute(
                    select(_credentials.c.id, _applications.c.id, _applications.c.identifier)
                    .join(_applications, _applications.c.id == _credentials.c.application_id)
                    .where(_applications.c.zone_id == zone.id)
                )
            ).all()
        for first in range(0, RECORDS, _BATCH):
            records = [
                _record(zone, chance.choice(users), chance.choice(clients), chance.choice(resources), at)
                for at in (now - number * _APART for number in range(first, first + _BATCH))
            ]
            async with database.transaction() as conn:
                await token_events.add(conn, records)
        async with database.transaction() as conn:
            await conn.execute(text("ANALYZE"))
    finally:
        await database.close()


def _record(zone: Any, user_id: str, client: Any, resource_id: str, at: datetime) -> TokenEvent:
    credential_id, application_id, identifier = client
    return TokenEvent(
        id=new_id(),
        organization_id=zone.organization_id,
        zone_id=zone.id,
        at=at,
        event=DecisionEvent.TOKEN_EXCHANGE,
        outcome=DecisionOutcome.ISSUED,
        user_id=user_id,
        application_id=application_id,
        resource_id=resource_id,
        actors=(identifier,),
        determining=(f"{new_id()}#0",),
        request_id=new_id(),
        credential_id=credential_id,
    )
