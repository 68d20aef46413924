"""Retention: old records of token requests, and sessions that are over, are deleted."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from sqlalchemy import func, insert, select
from tests.support.factories import Company, found_company, opened_parts
from tests.support.rewired import run_job

from runtime.domain.identifiers import new_id
from runtime.domain.kinds.provider import PROVIDER
from runtime.domain.kinds.zone import Zone
from runtime.services import retention
from runtime.services.container import Services
from runtime.services.decision_log import Decision
from runtime.settings import Settings
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
    """With their refresh families; but none that stands, or that another stands below.

    A family that is past its own time goes also where its session stays.
    """
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

    assert await retention.run(replace(services, clock=lambda: now)) == 4

    async with services.database.reading() as conn:
        there = set(await conn.scalars(select(METADATA.tables["sessions"].c.id)))
    assert there == {standing, ended, above_standing, below}
    assert not there & {old, above_old, below_old}
    assert await _count(services, "refresh_families") == 3


async def test_the_job_runs_by_itself(services: Services) -> None:
    """It is on the schedule, under the name that its row has."""
    assert await run_job(services, retention.JOB) == 0


# --- each table


@dataclass(frozen=True)
class Rows:
    """What a table has: ids of rows that are past their time, and of those that have to stay."""

    past: set[str]
    kept: set[str]


async def _insert(services: Services, table: str, *rows: Mapping[str, Any]) -> None:
    async with services.database.transaction() as conn:
        for row in rows:
            await conn.execute(insert(METADATA.tables[table]), dict(row))


async def _token_events(company: Company, zone: Zone, past: datetime, lately: datetime) -> Rows:
    same = {
        "organization_id": zone.organization_id,
        "zone_id": zone.id,
        "event": "token",
        "outcome": "issued",
    }
    ages = (("old", past), ("new", lately))
    await _insert(company.services, "token_events", *({**same, "id": id_, "at": at} for id_, at in ages))
    return Rows({"old"}, {"new"})


async def _sessions(company: Company, zone: Zone, past: datetime, lately: datetime) -> Rows:
    above = await _session(company, zone, ends=past)
    return Rows(
        {await _session(company, zone, ends=past)},
        {
            above,
            await _session(company, zone, ends=lately),
            await _session(company, zone, ends=company.services.clock() + timedelta(hours=1), parent=above),
        },
    )


async def _refresh_families(company: Company, zone: Zone, past: datetime, lately: datetime) -> Rows:
    """Of one session that stands: those alone go that expired long ago."""
    now = company.services.clock()
    session = await _session(company, zone, ends=now + timedelta(hours=1))
    family = METADATA.tables["refresh_families"]
    async with company.services.database.transaction() as conn:
        found = await conn.execute(select(family).where(family.c.session_id == session))
        first = dict(found.mappings().one())
    ages = (("old", past), ("new", lately))
    others = ({**first, "id": id_, "current_hash": id_.encode(), "expires_at": at} for id_, at in ages)
    await _insert(company.services, "refresh_families", *others)
    return Rows({"old"}, {"new", first["id"]})


async def _vault_tokens(company: Company, zone: Zone, past: datetime, lately: datetime) -> Rows:
    """One that its provider has ended, and one whose grant has expired; beside one that is used."""
    now, services = company.services.clock(), company.services
    provider = await company.create(PROVIDER, zone.id, name="Corp", identifier="https://corp.example")
    resource = await company.resource(zone, "https://api.example")
    ends: dict[str, dict[str, Any]] = {
        "dead": {"state": "dead", "updated_at": past},
        "over": {"state": "live", "updated_at": past, "grant_expires_at": past},
        "dead lately": {"state": "dead", "updated_at": lately},
        "over lately": {"state": "live", "updated_at": past, "grant_expires_at": lately},
        "live": {"state": "live", "updated_at": past},
    }
    for id_, end in ends.items():
        user = await company.user(zone, f"{id_.replace(' ', '-')}@acme.example")
        same = {"id": id_, "zone_id": zone.id, "created_at": past, "updated_at": past}
        grant = {"organization_id": zone.organization_id, "user_id": user.id, "resource_id": resource.id}
        grant |= {"provider_id": provider.id, "scopes": [], "status": "active", "epoch": 1}
        grant |= {"refresh_token_set": True, "expires_at": end.get("grant_expires_at")}
        await _insert(services, "delegated_grants", same | grant)
        token = {"grant_id": id_, "version": 1, "access_token": b"", "token_type": "Bearer", "failures": 0}
        await _insert(services, "vault_tokens", same | token | end)
    assert await _count(services, "delegated_grants") == len(ends), now
    return Rows({"dead", "over"}, {"dead lately", "over lately", "live"})


async def _invitations(company: Company, zone: Zone, past: datetime, lately: datetime) -> Rows:
    same = {
        "created_at": past,
        "updated_at": past,
        "revision": 1,
        "created_by": "somebody",
        "email": "ada@acme.example",
        "address": "ada@acme.example",
        "organization_id": company.organization_id,
        "role": "org_member",
        "inviter_name": "somebody",
    }
    each = {
        "old": {"status": "pending", "expires_at": past},
        "old and accepted": {"status": "accepted", "expires_at": past},
        "new": {"status": "revoked", "expires_at": lately},
        "waiting": {"status": "pending", "expires_at": company.services.clock() + timedelta(hours=1)},
    }
    rows = ({**same, **more, "id": id_, "token_hash": id_.encode()} for id_, more in each.items())
    await _insert(company.services, "invitations", *rows)
    return Rows({"old", "old and accepted"}, {"new", "waiting"})


async def _changesets(company: Company, zone: Zone, past: datetime, lately: datetime) -> Rows:
    """The newest of each owner stays, however old it is."""
    same = {
        "organization_id": company.organization_id,
        "body_digest": "x",
        "base_revision": 1,
        "operations": 0,
    }
    same |= {"source": {}, "result": {}, "created_by": "somebody"}
    each = {
        "first": ("acme", 2, past),
        "second": ("acme", 3, past),
        "third": ("acme", 4, lately),
        "only": ("beta", 5, past),
    }
    rows = (
        {**same, "id": id_, "plan_digest": id_, "owner": owner, "revision": revision, "created_at": at}
        for id_, (owner, revision, at) in each.items()
    )
    await _insert(company.services, "changesets", *rows)
    return Rows({"first", "second"}, {"third", "only"})


async def _tombstones(company: Company, zone: Zone, past: datetime, lately: datetime) -> Rows:
    same = {"organization_id": company.organization_id, "kind": "Group", "owner": "acme", "name": "a"}
    same |= {"revision": 1, "actor_type": "operator", "actor_id": "somebody"}
    rows = ({**same, "entity_id": id_, "deleted_at": at} for id_, at in (("old", past), ("new", lately)))
    await _insert(company.services, "tombstones", *rows)
    return Rows({"old"}, {"new"})


async def _outbox(company: Company, zone: Zone, past: datetime, lately: datetime) -> Rows:
    """Dead letters; what still waits to be delivered stays."""
    same = {
        "topic": "test",
        "payload_sealed": b"",
        "attempts": 1,
        "next_attempt_at": past,
        "created_at": past,
    }
    each = (("old", past), ("new", lately), ("waiting", None))
    await _insert(company.services, "outbox", *({**same, "id": id_, "parked_at": at} for id_, at in each))
    return Rows({"old"}, {"new", "waiting"})


async def _audit_events(company: Company, zone: Zone, past: datetime, lately: datetime) -> Rows:
    """What has made the organization and its zone is from before; what was done since stays."""
    old = await _ids(company.services, "audit_events")
    assert old
    older = replace(company.services, clock=lambda: lately)
    await replace(company, services=older).zone("Another")
    return Rows(old, await _ids(company.services, "audit_events") - old)


MAKERS = {
    "token_events": _token_events,
    "sessions": _sessions,
    "refresh_families": _refresh_families,
    "vault_tokens": _vault_tokens,
    "invitations": _invitations,
    "changesets": _changesets,
    "tombstones": _tombstones,
    "outbox": _outbox,
    "audit_events": _audit_events,
}


async def _ids(services: Services, table: str) -> set[str]:
    columns = METADATA.tables[table].c
    async with services.database.reading() as conn:
        return set(await conn.scalars(select(columns["entity_id" if table == "tombstones" else "id"])))


def test_every_table_that_is_deleted_from_is_tried() -> None:
    """A new rule needs rows that show what it keeps."""
    assert MAKERS.keys() == retention.SETTINGS.keys()


@pytest.mark.parametrize("table", MAKERS)
async def test_what_is_past_goes_and_what_is_needed_stays(services: Services, table: str) -> None:
    """By the days of the table's setting; and with 0 days everything stays."""
    days = 10
    started = services.clock()
    past, lately = started - timedelta(days=days + 2), started - timedelta(days=days - 2)
    earlier = replace(services, clock=lambda: past) if table == "audit_events" else services
    company = await found_company(earlier)
    zone = await company.zone()
    rows = await MAKERS[table](replace(company, services=services), zone, past, lately)
    assert not rows.past & rows.kept
    everything = dict.fromkeys(retention.SETTINGS.values(), 0)

    for_ever = services.settings.model_copy(update=everything)
    await retention.run(replace(services, settings=for_ever))
    assert await _ids(services, table) == rows.past | rows.kept

    chosen = services.settings.model_copy(update={**everything, retention.SETTINGS[table]: days})
    await retention.run(replace(services, settings=chosen))
    left = await _ids(services, table)
    assert left & (rows.past | rows.kept) == rows.kept


@pytest.mark.parametrize("setting", sorted(set(retention.SETTINGS.values())))
def test_days_have_bounds(setting: str) -> None:
    """None is negative, and none reaches back further than a calendar does."""
    assert getattr(Settings(**{setting: 36_500}), setting) == 36_500  # type: ignore[arg-type]
    for wrong in (-1, 36_501):
        with pytest.raises(ValidationError):
            Settings(**{setting: wrong})  # type: ignore[arg-type]
