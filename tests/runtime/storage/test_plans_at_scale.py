"""How PostgreSQL runs lists, searches and exchanges where there are many zones, users and grants.

`plans.txt` has the plan of each statement, without its values: nodes, tables and indexes. The data are those
of the benchmark's generator, a fiftieth of them, and all of them counted. WRITE_TABLES=1 writes the file
again, for a review.
"""

import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from benchmarks.scale_data import FilledZone, fill
from sqlalchemy import event, insert
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.support import entities as make

from runtime.domain.kinds import APPLICATION, DELEGATED_GRANT, PROVIDER, RESOURCE, SESSION, USER, Kind
from runtime.domain.kinds.zone import Zone
from runtime.storage.sql import paging, session_roots
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.database import Database
from runtime.storage.sql.filters import Condition, Contains, Equals, SqlCondition
from runtime.storage.sql.grant_states import has_status
from runtime.storage.sql.paging import Position
from runtime.storage.sql.tables import METADATA

PLANS = Path(__file__).parent / "plans.txt"
ZONES, USERS = 20, 20_000
LARGE = ("users", "subjects", "sessions", "consents", "delegated_grants")
NOW = datetime(2026, 3, 1, tzinfo=UTC)
# The eighth user, an application and a resource, as the generator names those of the first zone.
FILLED, CLIENT, WANTED = "u" + "0" * 24 + "8", "scale" + "0" * 18 + "app", "scale" + "0" * 18 + "001"

Call = Callable[[AsyncConnection, Zone], Awaitable[Any]]


def listed(kind: Kind[Any], *conditions: Condition, sort: str = "created_at", after: Any = None) -> Call:
    position = None if after is None else Position(after, FILLED)
    return lambda conn, zone: paging.page(
        conn, kind, within={"zone_id": zone.id}, where=conditions, sort=sort, limit=100, after=position
    )


CALLS: Mapping[str, Call] = {
    "list users": listed(USER),
    "list users, a later page": listed(USER, after=NOW),
    "list users by e-mail": listed(USER, sort="email"),
    "find a user by e-mail": listed(USER, Equals("email", ["person-7@scale.example"])),
    "find a user by identifier": listed(USER, Equals("identifier", ["person-7@scale.example"])),
    "search users": listed(USER, Contains(["email"], ["person-77"])),
    "list sessions": listed(SESSION),
    "list sessions of a user": listed(SESSION, Equals("user_id", [FILLED])),
    "list grants": listed(DELEGATED_GRANT),
    "list grants of a user": listed(DELEGATED_GRANT, Equals("user_id", [FILLED])),
    "list grants that are revoked": listed(DELEGATED_GRANT, SqlCondition(has_status(NOW, "revoked"))),
    "exchange: session and user": lambda conn, zone: session_roots.session(conn, zone.id, FILLED),
    "exchange: epochs": lambda conn, zone: session_roots.root_epochs(conn, zone.id, FILLED, FILLED),
    "exchange: groups and roles": lambda conn, zone: session_roots.memberships(conn, zone.id, FILLED),
    "exchange: grants": lambda conn, zone: session_roots.delegated(conn, zone.id, FILLED),
    "exchange: consent": lambda conn, zone: session_roots.consent(
        conn, zone.id, FILLED, ClientRef(application_id=CLIENT), WANTED
    ),
}


@pytest.fixture
async def filled(postgres_url: str) -> AsyncIterator[tuple[AsyncConnection, Zone]]:
    """A connection to a database with many zones, one of which has a tenth of all users."""
    database = Database.open(postgres_url)
    try:
        async with database.transaction() as conn:
            zones = [await make.add_zone(conn) for _ in range(ZONES)]
            await _add_samples(conn, zones[0])
            await conn.exec_driver_sql("SET LOCAL default_statistics_target = 1000")  # every row counts
            rest = USERS - USERS // 10
            await fill(
                conn,
                zones[0].id,
                [
                    FilledZone(zone.id, zone.organization_id, rest // (ZONES - 1) if place else USERS // 10)
                    for place, zone in enumerate(zones)
                ],
            )
            yield conn, zones[0]
    finally:
        await database.close()


async def _add_samples(conn: AsyncConnection, zone: Zone) -> None:
    """A row of each table that the generator copies."""
    application, provider = make.application(zone), make.provider(zone)
    resource, user = make.resource(zone), make.user(zone)
    for kind, entity in (
        (APPLICATION, application),
        (PROVIDER, provider),
        (RESOURCE, resource),
        (USER, user),
    ):
        await make.stored(conn, kind, entity)
    of_zone = {
        "organization_id": zone.organization_id,
        "zone_id": zone.id,
        "created_at": NOW,
        "updated_at": NOW,
    }
    of_user = {**of_zone, "user_id": user.id}
    consent = {
        "id": "consent",
        "application_id": application.id,
        "resource_id": resource.id,
        "scopes": ["read"],
    }
    grant = {"id": "grant", "resource_id": resource.id, "provider_id": provider.id, "scopes": ["read"]}
    session = {"id": "session", "session_type": "user", "status": "active", "epoch": 1, "expires_at": NOW}
    rows: dict[str, dict[str, Any]] = {
        "consents": {**of_user, **consent},
        "delegated_grants": {**of_user, **grant, "status": "active", "epoch": 1, "refresh_token_set": False},
        "sessions": {**of_user, **session},
    }
    for name, row in rows.items():
        table = METADATA.tables[name]
        await conn.execute(insert(table), {key: value for key, value in row.items() if key in table.c})


async def _plan(conn: AsyncConnection, work: Awaitable[Any]) -> list[str]:
    """The plans of the statements that are sent meanwhile, without their values."""
    sent: list[tuple[str, Any]] = []

    def note(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        sent.append((statement, parameters))

    event.listen(conn.sync_connection, "before_cursor_execute", note)
    try:
        await work
    finally:
        event.remove(conn.sync_connection, "before_cursor_execute", note)
    told = []
    for statement, parameters in sent:
        plan = await conn.exec_driver_sql(f"EXPLAIN (COSTS OFF) {statement}", parameters)
        lines = [row[0] for row in plan]
        told += [line for line in lines if not re.match(r"\s*[A-Z][\w ]*: ", line)]
    return told


async def test_statements_at_scale_have_the_plans_that_were_reviewed(
    filled: tuple[AsyncConnection, Zone],
) -> None:
    """Each reaches the rows of large tables by an index of the zone, and reads none of them whole."""
    conn, zone = filled
    found = {name: await _plan(conn, call(conn, zone)) for name, call in CALLS.items()}
    text = "".join(
        f"## {name}\n\n" + "".join(f"    {line}\n" for line in plan) + "\n" for name, plan in found.items()
    )
    if os.environ.get("WRITE_TABLES"):
        PLANS.write_text(text, "utf-8")

    assert text == PLANS.read_text("utf-8")
    assert [
        line for line in text.splitlines() if re.search(rf"Seq Scan on ({'|'.join(LARGE)})\b", line)
    ] == []


async def test_a_table_that_is_read_whole_is_seen(filled: tuple[AsyncConnection, Zone]) -> None:
    """What the other test looks for is how PostgreSQL says it."""
    conn, _ = filled

    plan = await _plan(conn, conn.exec_driver_sql("SELECT count(*) FROM users WHERE status = 'x'"))

    assert [line.strip() for line in plan if "Seq Scan on users" in line]
