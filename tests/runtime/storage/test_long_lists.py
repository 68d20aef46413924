"""Lists that are as long as an organization makes them: of zones, sessions, applications, addresses.

PostgreSQL's driver refuses a statement with more than 32,767 values. No entity of these ids has to be there.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.support import entities as make

from runtime.domain.kinds import APPLICATION, SERVICE_ACCOUNT, ZONE
from runtime.domain.kinds.zone import Zone
from runtime.storage.sql import (
    accountability,
    bindings,
    changes,
    connected_applications,
    deletion_effects,
    directory,
    entities,
    logout_recipients,
    ownership,
    sessions,
    tombstones,
    undescribable,
    zone_addresses,
)
from runtime.storage.sql.batches import among
from runtime.storage.sql.bindings import ActivePolicySet
from runtime.storage.sql.database import Database
from runtime.storage.sql.tables import TABLES

IDS = [f"id-{number}" for number in range(33_000)]
NOW = datetime(2026, 3, 1, tzinfo=UTC)
_applications = TABLES["Application"]


async def _streamed(conn: AsyncConnection, zone: Zone, kind: Any) -> None:
    async for _ in changes.stream(conn, kind, zone.organization_id, IDS):
        pass


async def _texts(conn: AsyncConnection) -> None:
    sets = [ActivePolicySet(each, "set", "version", 1, 1, (("policy", "version"),), []) for each in IDS]
    await bindings.texts_of(conn, sets)


CALLS: Mapping[str, Callable[[AsyncConnection, Zone], Awaitable[Any]]] = {
    "logout_recipients.of": lambda conn, zone: logout_recipients.of(conn, IDS, zone_id=zone.id),
    "zone_addresses.told_to": lambda conn, zone: zone_addresses.told_to(conn, zone.id, IDS),
    "sessions.revoke": lambda conn, zone: sessions.revoke(conn, *IDS, zone_id=zone.id, now=NOW),
    "accountability.ended": lambda conn, zone: accountability.ended(conn, zone.id, IDS),
    "accountability.addresses": lambda conn, _: accountability.addresses(conn, IDS),
    "connected_applications._forget_grants": lambda conn, zone: connected_applications._forget_grants(
        conn, zone.id, "user", IDS
    ),
    "directory.disinvite": lambda conn, zone: directory.disinvite(conn, "group", IDS, zone_id=zone.id),
    "deletion_effects.used": lambda conn, zone: deletion_effects.used(
        conn, SERVICE_ACCOUNT, zone.organization_id, zone.organization_id, IDS, now=NOW
    ),
    "bindings.active_policy_sets": lambda conn, _: bindings.active_policy_sets(conn, IDS),
    "bindings.texts_of": lambda conn, _: _texts(conn),
    "ownership.of_kind": lambda conn, zone: ownership.of_kind(conn, zone.organization_id, APPLICATION, IDS),
    "tombstones.in_zones": lambda conn, zone: tombstones.in_zones(conn, zone.organization_id, IDS),
    "undescribable.secrets": lambda conn, zone: undescribable.secrets(
        conn, zone.organization_id, IDS, limit=1
    ),
    "undescribable.members": lambda conn, zone: undescribable.members(
        conn, zone.organization_id, zone.id, IDS, limit=1
    ),
    "changes.stream": lambda conn, zone: _streamed(conn, zone, APPLICATION),
    "changes.stream of zones": lambda conn, zone: _streamed(conn, zone, ZONE),
    "changes.platform_applications": lambda conn, _: changes.platform_applications(conn, IDS),
    "changes.handles_in_zones": lambda conn, _: changes.handles_in_zones(conn, APPLICATION, ["app"], IDS),
    "changes.written_by_others": lambda conn, zone: changes.written_by_others(
        conn, APPLICATION, zone.organization_id, IDS
    ),
    "changes.dependencies": lambda conn, _: changes.dependencies(conn, IDS),
    "changes.member_emails": lambda conn, _: changes.member_emails(conn, IDS),
    "changes.assigned_users": lambda conn, _: changes.assigned_users(conn, IDS),
    "changes.latest_texts": lambda conn, _: changes.latest_texts(conn, IDS),
    "changes.set_contents": lambda conn, _: changes.set_contents(conn, IDS),
    "changes.active_sets": lambda conn, _: changes.active_sets(conn, IDS),
}


@pytest.mark.parametrize("call", CALLS)
async def test_a_list_may_be_longer_than_a_statement_has_values(
    conn: AsyncConnection, zone: Zone, call: str
) -> None:
    """It is one value of the statement, or comes in batches."""
    assert not await CALLS[call](conn, zone)


# As PostgreSQL's arrays and JSON write them, each in its way.
NAMES = ("plain", "a,b", '"quoted"', "{braces}", "back\\slash", "null", "Ünïcode 🙂")


@pytest.mark.parametrize("listed", [NAMES, NAMES[1::2], ()])
async def test_finds_what_is_listed_and_nothing_else(
    conn: AsyncConnection, zone: Zone, listed: tuple[str, ...]
) -> None:
    """Whatever the texts have in them, and also where nothing is listed."""
    for name in NAMES:
        await entities.insert(conn, APPLICATION, make.application(zone, name=name))

    found = await conn.scalars(select(_applications.c.name).where(among(_applications.c.name, listed)))

    assert sorted(found) == sorted(listed)


async def test_a_list_is_looked_up_in_the_index(sqlite_database: Database) -> None:
    """SQLite compares nothing that it is asked for as a number: it would read the whole table for that."""
    query = select(_applications.c.name).where(
        _applications.c.zone_id == "zone", among(_applications.c.id, ["a", "b"])
    )

    async with sqlite_database.reading() as conn:
        plan = f"EXPLAIN QUERY PLAN {query.compile(dialect=conn.dialect)}"
        steps = {row.detail for row in await conn.exec_driver_sql(plan, ("zone", '["a", "b"]'))}

    assert "SEARCH applications USING INDEX sqlite_autoindex_applications_1 (zone_id=? AND id=?)" in steps
