"""Grants and the vault are read by index: what a request costs does not grow with the number of users."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.runtime.vault.conftest import Desk

from runtime.domain.kinds import DELEGATED_GRANT
from runtime.services.management.listing import ListQuery
from runtime.services.management.people import delegated_grants
from runtime.services.management.unit_of_work import unit_of_work
from runtime.services.vault import credentials
from runtime.storage.sql import connected_applications, consents, vault_resources, vault_tokens
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.database import Database

_GROWING = "delegated_grants|vault_tokens|consents"


@contextmanager
def noted(database: Database) -> Iterator[list[tuple[str, Any]]]:
    """The statements that read one of these tables, with their parameters."""
    found: list[tuple[str, Any]] = []

    def note(_conn: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        if statement.startswith(("SELECT", "WITH", "DELETE")) and re.search(_GROWING, statement):
            found.append((statement, parameters))

    engine = database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", note)


async def scans(conn: AsyncConnection, statement: str, parameters: Any) -> list[str]:
    """The steps of a plan that read one of the tables from end to end."""
    if conn.dialect.name == "sqlite":
        rows = (await conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)).all()
        steps, scan = [str(row[-1]) for row in rows], rf"^SCAN ({_GROWING})(?! USING)"
    else:
        await conn.execute(text("SET LOCAL enable_seqscan = off"))  # the tables are too small for an index
        rows = (await conn.exec_driver_sql(f"EXPLAIN {statement}", parameters)).all()
        steps, scan = [str(row[0]) for row in rows], rf"Seq Scan on ({_GROWING})"
    return [step for step in steps if re.search(scan, step)]


async def _exchange(desk: Desk) -> None:
    zone = await desk.scene.services.zones.get(desk.scene.zone.id)
    now = desk.scene.services.clock()
    assert await credentials.find(desk.scene.services, zone, desk.ann.user.id, desk.resource, desk.vault, now)


async def _due(desk: Desk) -> None:
    now = desk.scene.services.clock()
    async with desk.scene.services.database.reading() as conn:
        assert await vault_tokens.due(conn, now=now, used_since=now, limit=10) == []


async def _forgotten(desk: Desk) -> None:
    now = desk.scene.services.clock()
    async with desk.scene.services.database.transaction() as conn:
        assert await vault_tokens.forget(conn, before=now - timedelta(days=30), limit=10) == 0


async def _revoked(desk: Desk) -> None:
    """What is revoked at a provider with a user, a resource, a provider and a zone."""
    zone_id, whole = desk.scene.zone.id, {"limit": 10}
    async with desk.scene.services.database.transaction() as conn:
        selections = (
            {"user_id": desk.ann.user.id},
            {"resource_id": desk.resource.id},
            {"provider_id": desk.vault.id},
            {},
        )
        found = [await vault_tokens.issued(conn, zone_id=zone_id, **whole, **named) for named in selections]
        assert found == [[], [], [], []]
        now = desk.scene.services.clock()
        of_user = {"zone_id": zone_id, "user_id": desk.ann.user.id}
        assert await vault_tokens.connected_providers(conn, now=now, **of_user)


async def _account(desk: Desk) -> None:
    of_user = {"zone_id": desk.scene.zone.id, "user_id": desk.ann.user.id}
    now = desk.scene.services.clock()
    async with desk.scene.services.database.reading() as conn:
        assert await vault_resources.reachable(conn, now=now, **of_user)
        assert await connected_applications.grants(conn, now=now, **of_user)
        assert await connected_applications.consents(conn, **of_user)


async def _agreed(desk: Desk) -> None:
    async with desk.scene.services.database.reading() as conn:
        assert await consents.agreed(
            conn,
            zone_id=desk.scene.zone.id,
            user_id=desk.ann.user.id,
            client_ref=ClientRef(application_id=desk.shy.id),
        )


async def _listed(desk: Desk, **query: Any) -> None:
    parents = {"zone_id": desk.scene.zone.id}
    async with unit_of_work(desk.scene.services, desk.scene.company.caller, "test") as unit:
        found = await delegated_grants.list_(unit, DELEGATED_GRANT, parents, ListQuery(**query))
    assert len(found.items) == 1


async def _all(desk: Desk) -> None:
    await _listed(desk)


async def _by_user(desk: Desk) -> None:
    await _listed(desk, filters={"user_id": (desk.ann.user.id,)})


async def _by_resource(desk: Desk) -> None:
    await _listed(desk, filters={"resource_id": (desk.resource.id,)})


async def _by_status(desk: Desk) -> None:
    await _listed(desk, special={"status": ("active",)})


@pytest.mark.parametrize(
    "read",
    [
        _exchange,
        _due,
        _forgotten,
        _revoked,
        _account,
        _agreed,
        _all,
        _by_user,
        _by_resource,
        _by_status,
    ],
    ids=lambda each: each.__name__[1:],
)
async def test_no_statement_reads_a_whole_table(desk: Desk, read: Any) -> None:
    """Neither of an exchange, nor of a job, nor of the account page, nor of a list of the management API."""
    await desk.store()
    await desk.agree(ClientRef(application_id=desk.shy.id))
    database = desk.scene.services.database
    with noted(database) as statements:
        await read(desk)

    assert statements
    async with database.transaction() as conn:
        assert not [
            statement
            for statement, parameters in statements
            if await scans(conn, statement, parameters) != []
        ]
