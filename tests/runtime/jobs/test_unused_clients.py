"""Clients that nobody uses are forgotten; those that still work are not."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from tests.support.factories import found_company, opened_parts

from runtime.domain.identifiers import new_id
from runtime.services.clients import dynamic_registration
from runtime.services.clients import unused_clients as unused_clients
from runtime.services.container import Services
from runtime.storage.sql import refresh_families, sessions
from runtime.storage.sql.refresh_families import RefreshFamily
from runtime.storage.sql.sessions import SessionRecord
from runtime.storage.sql.tables import token_events


@pytest.fixture
async def services(database_url: str, tmp_path: Path) -> Any:
    async with opened_parts(tmp_path / "data", database_url=database_url) as opened:
        yield opened


async def _family(services: Services, zone: Any, user: Any, client: Any, *, days: int) -> None:
    """A refresh family that ends in so many days, and the session it stands on."""
    now = services.clock()
    session = SessionRecord(
        id=new_id(),
        organization_id=zone.organization_id,
        zone_id=zone.id,
        user_id=user.id,
        application_id=None,
        user_agent_id=client.id,
        session_type="offline",
        authenticated_at=now,
        expires_at=now + timedelta(hours=1),
        created_at=now,
        updated_at=now,
    )
    family = RefreshFamily(
        id=new_id(),
        zone_id=zone.id,
        user_agent_id=client.id,
        client_id=client.identifier,
        session_id=session.id,
        user_id=user.id,
        scopes=["openid"],
        resources={},
        current_hash=new_id().encode(),
        expires_at=now + timedelta(days=days),
        created_at=now,
    )
    async with services.database.transaction() as conn:
        await sessions.add(conn, session)
        await refresh_families.add(conn, family)


async def test_the_unused_are_forgotten(services: Services) -> None:
    """After thirty days, unless a refresh token still works; every worker sees the zone anew."""
    company = await found_company(services)
    zone = await company.zone()
    user = await company.user(zone, "ada@acme.example")
    view = await services.zones.get(zone.id)
    unused, ended, alive = [
        await dynamic_registration.register(
            services, view, {"client_name": name, "redirect_uris": ["http://localhost/callback"]}
        )
        for name in ("unused", "ended", "alive")
    ]
    await _family(services, zone, user, ended, days=10)
    await _family(services, zone, user, alive, days=40)
    assert await view.clients.get(unused.identifier) is not None
    assert await unused_clients.run(services) == 0

    later = replace(services, clock=lambda: unused.used_at + timedelta(days=31))
    assert await unused_clients.run(later) == 2

    async with services.database.reading() as conn:
        recorded = (await conn.execute(select(token_events).where(token_events.c.zone_id == zone.id))).all()
    told = {(row.event, row.outcome, row.user_agent_id) for row in recorded}
    assert told == {("client_forgotten", "ended", each.id) for each in (unused, ended)}
    view = await services.zones.get(zone.id)
    assert await view.clients.get(unused.identifier) is None
    assert await view.clients.get(ended.identifier) is None
    assert await view.clients.get(alive.identifier) is not None
    again = await dynamic_registration.register(
        later, view, {"client_name": "unused", "redirect_uris": ["http://localhost/callback"]}
    )
    assert again.identifier == unused.identifier
