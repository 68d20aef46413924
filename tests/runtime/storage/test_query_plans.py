"""How the databases run what requests ask of the tables of grants, vault tokens, consents and ownerships.

A scan of a whole table, or of all rows of a zone, is slow only where there are many: with ten million grants.
The plan shows it with ten thousand, once the database has counted them.
"""

import asyncio
import inspect
import json
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, event, insert, text
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.support import entities as make
from tests.support.postgres import PostgresServer
from tests.support.server import migrated

from runtime.domain.kinds import APPLICATION as APPLICATION_KIND
from runtime.domain.kinds import DELEGATED_GRANT, PROVIDER, RESOURCE, Kind
from runtime.domain.kinds.zone import Zone
from runtime.storage.sql import consents, deletion_effects, entities, ownership, vault_resources, vault_tokens
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.consents import ConsentRecord
from runtime.storage.sql.database import Database
from runtime.storage.sql.entities import Condition, Equals, SqlCondition
from runtime.storage.sql.grant_states import has_status
from runtime.storage.sql.tables import METADATA
from runtime.storage.sql.vault_tokens import SealedTokens

USERS, RESOURCES = 1000, 10
LARGE = ("consents", "delegated_grants", "vault_tokens", "ownerships")
NOW = datetime(2026, 3, 1, tzinfo=UTC)
# Users and resources are not needed for a plan: until the transaction ends, nothing refers to them.
FORGET_REFERENCES = {
    "postgresql": "SET LOCAL session_replication_role = replica",
    "sqlite": "PRAGMA defer_foreign_keys=1",
}
SEALED_TOKEN = bytes(1_200)  # as long as a JWT with a few claims, sealed
SEALED = SealedTokens(b"access", b"refresh", "Bearer", NOW)
APPLICATION, USER_AGENT = ClientRef(application_id="application-1"), ClientRef(user_agent_id="agent-1")

Call = Callable[[AsyncConnection, Zone], Awaitable[Any]]
OF_USER: Mapping[str, str] = {"user_id": "user-7"}
# What a dry run counts that goes with an entity, for one to which little refers. Where a third of a table
# does, PostgreSQL rightly reads all of it.
EFFECTS = {APPLICATION_KIND: "application-new", PROVIDER: "provider-new", RESOURCE: "resource-new"}
# What requests of applications and users ask and write, by function.
CALLS: Mapping[str, Call] = {
    "vault_tokens.find": lambda conn, zone: vault_tokens.find(
        conn, zone_id=zone.id, **OF_USER, resource_id="resource-1", provider_id="provider-1", now=NOW
    ),
    "vault_tokens.put": lambda conn, zone: vault_tokens.put(
        conn, "token-new", SEALED, zone_id=zone.id, grant_id="grant-7-1", now=NOW
    ),
    "vault_tokens.remove": lambda conn, zone: vault_tokens.remove(conn, "grant-7-1", zone_id=zone.id),
    "vault_tokens.issued of a grant": lambda conn, zone: vault_tokens.issued(
        conn, zone_id=zone.id, limit=100, grant_id="grant-7-1"
    ),
    "vault_tokens.issued of a user": lambda conn, zone: vault_tokens.issued(
        conn, zone_id=zone.id, limit=100, user_id="user-7"
    ),
    "vault_tokens.take_lease": lambda conn, zone: vault_tokens.take_lease(
        conn, "token-7-1", zone_id=zone.id, version=1, owner="me", now=NOW, until=NOW + timedelta(minutes=1)
    ),
    "vault_tokens.replace": lambda conn, zone: vault_tokens.replace(
        conn, "token-7-1", SEALED, zone_id=zone.id, version=1, now=NOW
    ),
    "vault_tokens.note_failure": lambda conn, zone: vault_tokens.note_failure(
        conn, "token-7-1", zone_id=zone.id, version=1, owner="me", dead_after=1, now=NOW
    ),
    "vault_tokens.pause": lambda conn, zone: vault_tokens.pause(
        conn, "token-7-1", zone_id=zone.id, version=1, owner="me", until=NOW
    ),
    "vault_tokens.note_used": lambda conn, zone: vault_tokens.note_used(
        conn, [(zone.id, "token-7-1")], now=NOW
    ),
    "vault_tokens.connected_providers": lambda conn, zone: vault_tokens.connected_providers(
        conn, zone_id=zone.id, **OF_USER, now=NOW
    ),
    "consents.of_client": lambda conn, zone: consents.of_client(
        conn, zone_id=zone.id, **OF_USER, client_ref=APPLICATION
    ),
    "consents.of_client of a user agent": lambda conn, zone: consents.of_client(
        conn, zone_id=zone.id, **OF_USER, client_ref=USER_AGENT
    ),
    "consents.agreed": lambda conn, zone: consents.agreed(
        conn, zone_id=zone.id, **OF_USER, client_ref=APPLICATION
    ),
    "consents.agreed of a user agent": lambda conn, zone: consents.agreed(
        conn, zone_id=zone.id, **OF_USER, client_ref=USER_AGENT
    ),
    "consents.record": lambda conn, zone: consents.record(
        conn,
        [ConsentRecord("resource-1", frozenset({"read"}), "app.example")],
        zone_id=zone.id,
        **OF_USER,
        client_ref=APPLICATION,
        now=NOW,
    ),
    "consents.grant": lambda conn, zone: consents.grant(
        conn,
        organization_id=zone.organization_id,
        zone_id=zone.id,
        **OF_USER,
        resource_id="resource-1",
        provider_id="provider-1",
        scopes=["more"],
        now=NOW,
    ),
    "consents.revoke": lambda conn, zone: consents.revoke(conn, "grant-7-1", zone_id=zone.id, now=NOW),
    "consents.withdraw": lambda conn, zone: consents.withdraw(
        conn, zone_id=zone.id, **OF_USER, resource_id="resource-1", now=NOW
    ),
    "vault_resources.reachable": lambda conn, zone: vault_resources.reachable(
        conn, zone_id=zone.id, **OF_USER, now=NOW
    ),
}
# What periodic jobs ask, of all zones at once.
JOBS: Mapping[str, Call] = {
    "vault_tokens.forget": lambda conn, _: vault_tokens.forget(conn, before=NOW, limit=100),
    "vault_tokens.due": lambda conn, _: vault_tokens.due(conn, now=NOW, used_since=NOW, limit=100),
    "vault_tokens.forget_uses": lambda conn, _: vault_tokens.forget_uses(
        conn, before=NOW, now=NOW, limit=100
    ),
}
EXPIRED = SqlCondition(has_status(NOW, "expired"))
# The lists of grants that can be long, by the conditions that select them.
LISTS: Mapping[str, Sequence[Condition]] = {
    "all": [],
    "of a resource": [Equals("resource_id", ["resource-1"])],
    "revoked": [SqlCondition(has_status(NOW, "revoked"))],
    "active": [SqlCondition(has_status(NOW, "active"))],
    "expired": [EXPIRED],
    "of a resource, expired": [Equals("resource_id", ["resource-1"]), EXPIRED],
}
# Of the modules that keep these tables, what no request of an application or a user calls, and why.
OTHERS = {
    "vault_tokens.hold_provider": "reads providers alone",
    "consents.revoke_credentials": "an administrator changes a resource or a provider",
    "consents.withdraw_all": "an administrator deletes a client",
}


def row(name: str, zone: Zone, /, **values: Any) -> dict[str, Any]:
    """A row of a table, its times and tenant filled in."""
    common = {
        "zone_id": zone.id,
        "organization_id": zone.organization_id,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return {key: value for key, value in {**common, **values}.items() if key in METADATA.tables[name].c}


def rows(zone: Zone, user: int, resource: int) -> dict[str, dict[str, Any]]:
    """The grant of a user for a resource, its token, and a consent."""
    place = {"user_id": f"user-{user}", "resource_id": f"resource-{resource}"}
    of_agent = resource % 2 == 1
    client = {"user_agent_id": "agent-1"} if of_agent else {"application_id": f"application-{resource % 5}"}
    return {
        "delegated_grants": row(
            "delegated_grants",
            zone,
            id=f"grant-{user}-{resource}",
            **place,
            provider_id=f"provider-{resource % 3}",
            scopes=["read"],
            status="revoked" if user % 50 == 0 else "active",
            epoch=1,
            refresh_token_set=True,
        ),
        "vault_tokens": row(
            "vault_tokens",
            zone,
            id=f"token-{user}-{resource}",
            grant_id=f"grant-{user}-{resource}",
            version=1,
            access_token=SEALED_TOKEN,
            token_type="Bearer",
            state="live",
            failures=0,
            refresh_at=NOW,
            used_at=NOW if user % 50 == 0 else None,
        ),
        "consents": row(
            "consents",
            zone,
            id=f"consent-{user}-{resource}",
            **place,
            **{"application_id": None, "user_agent_id": None, **client},
            scopes=["read"],
        ),
        "ownerships": row(
            "ownerships",
            zone,
            kind="Resource",
            entity_id=f"resource-{user}-{resource}",
            owner="acme/identity",
            name=f"name-{user}-{resource}",
            fields=[],
            applied={},
            secret_versions={},
            protect=False,
            revision=1,
        ),
    }


@dataclass(frozen=True)
class Filled:
    """A closed database in which one zone has ten thousand rows of each large table."""

    url: str
    zone: Zone


async def fill(url: str) -> Filled:
    """Make these rows, and let the database count them."""
    database = Database.open(url)
    try:
        async with database.transaction() as conn:
            zone = await make.add_zone(conn)
            if conn.dialect.name == "postgresql":
                await conn.execute(text(FORGET_REFERENCES["postgresql"]))
                await conn.run_sync(insert_rows, zone)
    finally:
        await database.close()
    if url.startswith("sqlite"):  # whose connections in the service look at references at every commit
        with create_engine(url.replace("+aiosqlite", "")).begin() as plain:
            insert_rows(plain, zone)
    return Filled(url, zone)


def insert_rows(conn: Connection, zone: Zone) -> None:
    """Insert and count them."""
    made = [rows(zone, user, resource) for user in range(USERS) for resource in range(RESOURCES)]
    for name in ("delegated_grants", "vault_tokens", "consents", "ownerships"):
        conn.execute(insert(METADATA.tables[name]), [each[name] for each in made])
    for name in (*LARGE, "sessions") if conn.dialect.name == "postgresql" else ("",):
        conn.execute(text(f"ANALYZE {name}"))


@pytest.fixture(scope="module")
def filled_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """On SQLite. Filled once, since that takes longer than all that is asked of it."""
    path = shutil.copy(migrated(), tmp_path_factory.mktemp("plans") / "zonewright.db")
    return asyncio.run(fill(f"sqlite+aiosqlite:///{path}"))


@pytest.fixture(scope="module")
def filled_postgresql(postgres: PostgresServer) -> Filled:
    """The same on PostgreSQL."""
    return asyncio.run(fill(asyncio.run(postgres.migrated())))


@pytest.fixture(params=["sqlite", "postgresql"])
def filled(request: pytest.FixtureRequest) -> Filled:
    """On each in turn."""
    found: Filled = request.getfixturevalue(f"filled_{request.param}")
    return found


@pytest.fixture
async def database(filled: Filled, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    """An open copy of it: what a test writes makes rows, and dead ones, that a plan goes by."""
    if filled.url.startswith("sqlite"):
        shutil.copy(filled.url.partition("///")[2], tmp_path / "copy.db")
        opened = Database.open(f"sqlite+aiosqlite:///{tmp_path / 'copy.db'}")
        yield opened
        await opened.close()
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    url = await server.copied(filled.url)
    opened = Database.open(url)
    yield opened
    await opened.close()
    await server.drop(url)


@pytest.fixture
def large(filled: Filled) -> Zone:
    """The zone."""
    return filled.zone


@pytest.fixture
async def conn(database: Database) -> AsyncIterator[AsyncConnection]:
    """A connection whose transaction is rolled back."""
    opened = database.transaction()
    connection = await opened.__aenter__()
    await connection.execute(text(FORGET_REFERENCES[connection.dialect.name]))
    yield connection
    await opened.__aexit__(RuntimeError, RuntimeError("rolled back"), None)


async def statements(conn: AsyncConnection, work: Awaitable[Any]) -> list[tuple[str, Any]]:
    """What is sent to the database meanwhile about the large tables, insertions apart."""
    seen: list[tuple[str, Any]] = []

    def note(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        if not statement.startswith("INSERT") and any(name in statement for name in LARGE):
            seen.append((statement, parameters))

    target = conn.sync_connection
    event.listen(target, "before_cursor_execute", note)
    try:
        await work
    finally:
        event.remove(target, "before_cursor_execute", note)
    return seen


async def accesses(conn: AsyncConnection, statement: str, parameters: Any) -> list[str]:
    """How a statement reaches rows of the large tables, as the database puts it."""
    if conn.dialect.name == "sqlite":
        told = await conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        return [each.detail for each in told if any(name in each.detail for name in LARGE)]
    told = await conn.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", parameters)
    found = told.scalar_one()
    ((plan),) = json.loads(found) if isinstance(found, str) else found
    return list(_scans(plan["Plan"]))


def _scans(node: Mapping[str, Any]) -> Any:
    """Each scan of a large table or of its indexes, with the condition by which its rows are found."""
    reached = f"{node.get('Relation Name', '')} {node.get('Index Name', '')}"
    if "Scan" in node["Node Type"] and node["Node Type"] != "Bitmap Heap Scan" and _is_large(reached):
        yield f"{node['Node Type']} {reached} ({node.get('Index Cond', '')})"
    for below in node.get("Plans", ()):
        yield from _scans(below)


def _is_large(text_: str) -> bool:
    return any(name in text_ for name in LARGE)


def is_by_index(access: str) -> bool:
    """Whether an index leads to few rows: by the zone and by something else."""
    return "SCAN" not in access and "Seq Scan" not in access and " AND " in access


@pytest.mark.parametrize("name", CALLS)
async def test_a_request_reaches_its_rows_by_an_index(conn: AsyncConnection, large: Zone, name: str) -> None:
    """No statement reads a whole table, nor all rows of a zone."""
    asked = await statements(conn, CALLS[name](conn, large))
    assert asked
    assert not [
        statement
        for statement, parameters in asked
        if [each for each in await accesses(conn, statement, parameters) if not is_by_index(each)] != []
    ]


@pytest.mark.parametrize("kind", EFFECTS, ids=lambda kind: kind.name)
async def test_effects_of_a_deletion_are_counted_by_an_index(
    conn: AsyncConnection, large: Zone, kind: Kind
) -> None:
    """Of one entity, however many there are in the zone that go with others."""
    counted = deletion_effects.count(conn, kind, large.id, [EFFECTS[kind]], now=NOW)
    asked = await statements(conn, counted)
    assert asked
    assert not [
        (statement, each)
        for statement, parameters in asked
        for each in await accesses(conn, statement, parameters)
        if not is_by_index(each)
    ]


async def test_all_grants_of_a_provider_are_counted(conn: AsyncConnection, large: Zone) -> None:
    """As many as there are, of those that still stand."""
    counts = await deletion_effects.count(conn, PROVIDER, large.id, ["provider-1"], now=NOW)
    shown = await conn.scalar(
        text(
            "SELECT count(*) FROM delegated_grants"
            " WHERE provider_id = 'provider-1' AND status = 'active' AND zone_id = :zone"
        ),
        {"zone": large.id},
    )
    assert shown > 1_000
    assert counts["provider-1"]["delegated_grants"] == shown


@pytest.mark.parametrize("name", JOBS)
async def test_a_job_reaches_its_rows_by_an_index(conn: AsyncConnection, large: Zone, name: str) -> None:
    """No statement reads a whole table, nor an index from end to end."""
    asked = await statements(conn, JOBS[name](conn, large))
    assert asked
    found = [(statement, await accesses(conn, statement, parameters)) for statement, parameters in asked]
    assert not [statement for statement, places in found if not places]
    assert not [
        (statement, place)
        for statement, places in found
        for place in places
        if "SCAN" in place or "Seq Scan" in place or "()" in place
    ]


@pytest.mark.parametrize("name", ["vault_tokens.due", "vault_tokens.forget_uses"])
async def test_a_refresh_ahead_looks_at_what_is_in_use(conn: AsyncConnection, large: Zone, name: str) -> None:
    """What nobody uses is due for ever, and nearly all that there is: it is not read."""
    asked = await statements(conn, JOBS[name](conn, large))
    found = [each for one in asked for each in await accesses(conn, *one)]

    assert any("vault_tokens_in_use_idx" in each for each in found), found


@pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize("name", LISTS)
async def test_a_page_of_grants_is_read_in_its_order(
    conn: AsyncConnection, large: Zone, name: str, descending: bool
) -> None:
    """So that a page costs the same, however long the list is: nothing is sorted for it."""
    asked = await statements(
        conn,
        entities.page(
            conn,
            DELEGATED_GRANT,
            within={"zone_id": large.id},
            where=LISTS[name],
            descending=descending,
            limit=20,
        ),
    )
    assert asked
    explain = "EXPLAIN QUERY PLAN" if conn.dialect.name == "sqlite" else "EXPLAIN"
    told = [
        str(each[-1])
        for statement, parameters in asked
        for each in await conn.exec_driver_sql(f"{explain} {statement}", parameters)
    ]
    assert any("delegated_grants_" in each for each in told), told
    assert not [each for each in told if "SORT" in each.upper() or "TEMP B-TREE" in each], told


async def test_a_statement_without_an_index_is_found(conn: AsyncConnection, large: Zone) -> None:
    """By a column that no index begins with, both databases read everything, and the check says so."""
    asked = await statements(
        conn, conn.execute(text("SELECT id FROM delegated_grants WHERE status = 'active'"))
    )
    found = [each for one in asked for each in await accesses(conn, *one)]

    assert found
    assert not any(map(is_by_index, found))


async def test_a_manifest_name_is_found_by_name(conn: AsyncConnection, large: Zone) -> None:
    """Whoever owns the manifest: the index does not read all objects of the kind in the zone."""
    found: dict[str, str] = {}

    async def find() -> None:
        found.update(await ownership.named(conn, large.id, RESOURCE, "name-7-1", limit=10))

    asked = await statements(conn, find())

    assert found == {"resource-7-1": "acme/identity"}
    (access,) = [each for one in asked for each in await accesses(conn, *one)]
    assert is_by_index(access)
    assert re.search(r"\bname\b", access.partition("(")[2])


@pytest.mark.parametrize("module", [consents, vault_tokens, vault_resources])
def test_every_function_is_a_request_or_says_why_it_is_none(module: ModuleType) -> None:
    """A new statement on these tables is looked at, too."""
    short = module.__name__.rpartition(".")[2]
    functions = {
        f"{short}.{name}"
        for name, each in inspect.getmembers(module, inspect.iscoroutinefunction)
        if each.__module__ == module.__name__ and not name.startswith("_")
    }

    assert functions == {
        name.partition(" ")[0] for name in (*CALLS, *JOBS, *OTHERS) if name.startswith(f"{short}.")
    }
