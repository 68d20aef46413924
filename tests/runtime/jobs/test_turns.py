"""Runs for all organizations: one that cannot be written to is passed over, and keeps no other waiting."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select
from tests.support.factories import Company, found_company, opened_parts
from tests.support.logs import logged_lines
from tests.support.rewired import run_job, with_new_zones

from runtime.domain.errors import Unavailable
from runtime.services import retention, zone_keys
from runtime.services.container import Services
from runtime.services.jobs.turns import Turns
from runtime.services.management.organizations import api_keys
from runtime.services.management.zones import key_rotation, moving
from runtime.storage.sql import audit as audit_storage
from runtime.storage.sql import organization_revision, zone_addresses
from runtime.storage.sql.database import Database
from runtime.storage.sql.tables import METADATA

LATER = timedelta(days=100)  # when each of them has something to be done


@dataclass(frozen=True)
class Work:
    """What a job does for each organization.

    Attributes:
        prepare: lets an organization with a zone have something that is due later.
        count: goes up, or down, when that is done.
        fails: whether the run does when an organization was passed over; else the next looks again.
        settings: of the service, where they differ.
    """

    job: str
    prepare: Callable[[Company, str], Awaitable[object]]
    count: Callable[[Services, str, str], Awaitable[int]]
    fails: bool = True
    settings: Mapping[str, object] = field(default_factory=dict)


async def _nothing(_company: Company, _zone_id: str) -> None:
    """A zone has keys, and an organization a trail."""


async def _rotate(company: Company, zone_id: str) -> None:
    await key_rotation.rotate(company.services, zone_id, at_once=True)


async def _keys(services: Services, _organization_id: str, zone_id: str) -> int:
    return len(await zone_keys.listed(services.database, zone_id))


async def _move(company: Company, zone_id: str) -> None:
    ends_at = company.services.clock() + timedelta(days=1)
    await moving.move(company.services, zone_id, f"https://{zone_id}.example", ends_at=ends_at)


async def _recorded_ends(services: Services, _organization_id: str, zone_id: str) -> int:
    async with services.database.querying() as conn:
        due = await zone_addresses.due(conn, now=services.clock(), limit=1_000)
    return [each for each, _, _ in due].count(zone_id)


async def _short_key(company: Company, _zone_id: str) -> None:
    await api_keys.create_for(
        company.services, company.organization_id, name="short", role="org_viewer", expires_in_seconds=60
    )


async def _api_keys(services: Services, organization_id: str, _zone_id: str) -> int:
    keys = METADATA.tables["api_keys"]
    async with services.database.querying() as conn:
        query = select(func.count()).select_from(keys).where(keys.c.organization_id == organization_id)
        return int((await conn.execute(query)).scalar_one())


async def _pruned(services: Services, organization_id: str, _zone_id: str) -> int:
    async with services.database.querying() as conn:
        return (await audit_storage.anchor(conn, organization_id)).sequence


WORK = {
    "keys": Work(key_rotation.JOB, _nothing, _keys),
    "former keys": Work(key_rotation.JOB, _rotate, _keys, settings={"key_rotation_days": 0}),
    "addresses": Work(moving.JOB, _move, _recorded_ends),
    "API keys": Work(api_keys.JOB, _short_key, _api_keys),
    "trails": Work(retention.JOB, _nothing, _pruned, fails=False),
}


@pytest.fixture
async def services(postgres_url: str, tmp_path: Path) -> AsyncIterator[Services]:
    """At present."""
    async with opened_parts(tmp_path / "data", database_url=postgres_url, audit_events_days=1) as opened:
        yield opened


@pytest.fixture
async def later(services: Services, postgres_url: str) -> AsyncIterator[Services]:
    """The same when everything is due, and where a statement waits for a second at most."""
    database = Database.open(postgres_url, statement_timeout_seconds=1)
    yield with_new_zones(replace(services, database=database), clock=lambda: services.clock() + LATER)
    await database.close()


@pytest.mark.parametrize("held", [0, 1], ids=["the first", "the second"])
@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
async def test_one_organization_keeps_no_other_waiting(
    services: Services, later: Services, work: Work, held: int
) -> None:
    """Whichever it is that has an apply under way for long; what is left undone is done when that is over."""
    later = replace(later, settings=later.settings.model_copy(update=work.settings))
    companies = [await found_company(services, name) for name in ("Acme", "Umbra")]
    zones = [(await company.zone()).id for company in companies]
    for company, zone_id in zip(companies, zones, strict=True):
        await work.prepare(company, zone_id)

    async def changed(before: list[int]) -> list[bool]:
        return [one != other for one, other in zip(before, await counts(), strict=True)]

    async def counts() -> list[int]:
        pairs = zip(companies, zones, strict=True)
        return [await work.count(later, company.organization_id, zone_id) for company, zone_id in pairs]

    before = await counts()
    locked = companies[held].organization_id
    with logged_lines() as lines:
        async with services.database.transaction() as conn:
            await organization_revision.advance(conn, locked, by=0)
            if work.fails:
                with pytest.raises(Unavailable, match="passed over: 1"):
                    await run_job(later, work.job)
            else:
                await run_job(later, work.job)
    assert await changed(before) == [held != 0, held != 1]
    told = [line for line in lines if "passes it over" in line["event"]]
    assert [line["organization_id"] for line in told] == [locked]

    await run_job(later, work.job)
    assert await changed(before) == [True, True]


async def test_keys_of_who_is_passed_over_leave_the_run_to_others(
    services: Services, later: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many of them are due: a run makes so many new keys, and these are others' then."""
    first = await found_company(services)
    await first.zone()
    other = await found_company(services, "Umbra")
    zone_id = (await other.zone()).id
    before = await _keys(later, other.organization_id, zone_id)
    monkeypatch.setattr(key_rotation, "_MAX_ROTATIONS", 4)  # two for each zone; everybody has a first one

    async with services.database.transaction() as conn:
        await organization_revision.advance(conn, first.organization_id, by=0)
        with pytest.raises(Unavailable, match="passed over: 1"):
            await run_job(later, key_rotation.JOB)
    assert await _keys(later, other.organization_id, zone_id) == 2 * before


async def test_a_database_that_is_away_ends_the_run(services: Services, tmp_path: Path) -> None:
    """Nobody is passed over for it: the run fails with the first."""
    await found_company(services)
    away = Database.open(f"postgresql+asyncpg://postgres@/nothing?host={tmp_path}")
    turns = Turns(replace(services, database=away), "work")

    async def fail() -> int:
        raise Unavailable("the database does not answer")

    with pytest.raises(Unavailable):
        await turns.take("acme", fail)
    assert turns.passed_over == set()
    assert await Turns(services, "work").take("acme", fail) is None
    await away.close()
