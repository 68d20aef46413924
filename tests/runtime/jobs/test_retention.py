"""Retention: old records of token requests, and sessions that are over, are deleted."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select
from tests.support.factories import Company, found_company, opened_parts
from tests.support.rewired import run_job

from runtime.domain.identifiers import new_id
from runtime.domain.kinds.zone import Zone
from runtime.services import retention
from runtime.services.container import Services
from runtime.services.decision_log import Decision
from runtime.storage.sql import refresh_families, sessions
from runtime.storage.sql.refresh_families import RefreshFamily
from runtime.storage.sql.sessions import SessionRecord
from runtime.storage.sql.tables import METADATA

DAYS = 90


@pytest.fixture
async def services(database_url: str, tmp_path: Path) -> Any:
    async with opened_parts(tmp_path / "data", database_url=database_url) as opened:
        yield opened


async def _count(services: Services, table: str) -> int:
    async with services.database.reading() as conn:
        return await conn.scalar(select(func.count()).select_from(METADATA.tables[table])) or 0


def _record(services: Services, zone: Zone, at: datetime, times: int) -> None:
    for number in range(times):
        services.decisions.record(Decision(zone.organization_id, zone.id, at, f"request-{number}"))


async def test_token_events_have_their_time(services: Services) -> None:
    """Those of before go, however many; later ones stay, and with 0 days all do."""
    company = await found_company(services)
    zone = await company.zone()
    now = services.clock()
    _record(services, zone, now - timedelta(days=DAYS, seconds=1), 2_500)
    _record(services, zone, now - timedelta(days=DAYS - 1), 3)
    await services.decisions.flush()
    for_ever = services.settings.model_copy(update={"token_events_days": 0, "ended_sessions_days": 0})
    assert await retention.run(replace(services, settings=for_ever, clock=lambda: now)) == 0

    assert await retention.run(replace(services, clock=lambda: now)) == 2_500

    assert await _count(services, "token_events") == 3
    assert await retention.run(replace(services, clock=lambda: now)) == 0


async def _session(company: Company, zone: Zone, *, ends: datetime, parent: str | None = None) -> str:
    """A session with a refresh family of somebody new."""
    services, now = company.services, company.services.clock()
    user = await company.user(zone, f"{new_id()}@acme.example")
    app = await company.app(zone, new_id())
    session = SessionRecord(
        id=new_id(),
        organization_id=zone.organization_id,
        zone_id=zone.id,
        user_id=user.id,
        application_id=app.id,
        session_type="application",
        authenticated_at=now,
        expires_at=ends,
        created_at=now,
        updated_at=now,
        parent_id=parent,
    )
    family = RefreshFamily(
        id=new_id(),
        zone_id=zone.id,
        application_id=app.id,
        client_id=app.client_id,
        session_id=session.id,
        user_id=user.id,
        scopes=["openid"],
        resources={},
        current_hash=new_id().encode(),
        expires_at=ends,
        created_at=now,
    )
    async with services.database.transaction() as conn:
        await sessions.add(conn, session)
        await refresh_families.add(conn, family)
    return session.id


async def test_sessions_that_are_over_have_their_time(services: Services) -> None:
    """With their refresh families; but none that stands, or that another stands below."""
    company = await found_company(services)
    zone = await company.zone()
    now = services.clock()
    long_ago, lately = now - timedelta(days=DAYS + 1), now - timedelta(days=DAYS - 1)
    standing = await _session(company, zone, ends=now + timedelta(hours=1))
    ended = await _session(company, zone, ends=lately)
    old = await _session(company, zone, ends=long_ago)
    above_old = await _session(company, zone, ends=long_ago)
    below_old = await _session(company, zone, ends=long_ago, parent=above_old)
    above_standing = await _session(company, zone, ends=long_ago)
    below = await _session(company, zone, ends=now + timedelta(hours=1), parent=above_standing)
    assert await _count(services, "sessions") == await _count(services, "refresh_families") == 7

    assert await retention.run(replace(services, clock=lambda: now)) == 3

    async with services.database.reading() as conn:
        there = set(await conn.scalars(select(METADATA.tables["sessions"].c.id)))
    assert there == {standing, ended, above_standing, below}
    assert not there & {old, above_old, below_old}
    assert await _count(services, "refresh_families") == 4


async def test_the_job_runs_by_itself(services: Services) -> None:
    """It is on the schedule, under the name that its row has."""
    assert await run_job(services, retention.JOB) == 0
