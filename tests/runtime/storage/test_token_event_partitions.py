"""Token events on PostgreSQL: partitions are made ahead and dropped when past, and no event is ever lost."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from asyncpg import CheckViolationError
from click.testing import CliRunner
from sqlalchemy import Connection, MetaData, event, insert, text
from tests.support.factories import found_company, opened_parts
from tests.support.rewired import run_job

from runtime.cli import main
from runtime.domain.identifiers import new_id
from runtime.services import retention
from runtime.services import token_event_partitions as job
from runtime.services.container import Services
from runtime.storage.sql import migrate as migrations
from runtime.storage.sql import token_event_partitions as storage
from runtime.storage.sql import token_events
from runtime.storage.sql.database import Database
from runtime.storage.sql.token_event_partitions import DEFAULT, PAST, WIDEST, Busy, boundary_after
from runtime.storage.sql.token_events import TokenEvent, TokenEventFilter

DAY, WEEK = timedelta(days=1), timedelta(days=7)
WEDNESDAY = datetime(2026, 3, 4, 12, tzinfo=UTC)
MONDAY = datetime(2026, 3, 9, tzinfo=UTC)


@pytest.fixture
async def services(postgres_url: str, tmp_path: Path) -> AsyncIterator[Services]:
    """A company's, on PostgreSQL, with nothing of token events but the default partition."""
    async with opened_parts(tmp_path / "data", database_url=postgres_url) as opened:
        yield opened


def _at(services: Services, now: datetime, days: int = 90) -> Services:
    settings = services.settings.model_copy(update={"token_events_days": days})
    return replace(services, clock=lambda: now, settings=settings)


class _Log:
    """Adds events to a zone, and reads all of them."""

    def __init__(self, services: Services, organization_id: str, zone_id: str) -> None:
        self.database, self.organization_id, self.zone_id = services.database, organization_id, zone_id

    async def add(self, *instants: datetime) -> None:
        rows = [
            TokenEvent(
                new_id(), self.organization_id, self.zone_id, at, "token", "issued", request_id=new_id()
            )
            for at in instants
        ]
        async with self.database.transaction() as conn:
            await token_events.add(conn, rows)

    async def instants(self) -> list[datetime]:
        async with self.database.reading() as conn:
            page = await token_events.page(
                conn, self.organization_id, self.zone_id, TokenEventFilter(), limit=1_000
            )
        return [each.at for each in page.items][::-1]


@pytest.fixture
async def events(services: Services) -> _Log:
    company = await found_company(services)
    zone = await company.zone()
    return _Log(services, zone.organization_id, zone.id)


async def _bounds(services: Services) -> list[datetime]:
    """Where partitions end. Raises AssertionError where one does not begin where another ends."""
    async with services.database.reading() as conn:
        found = await storage.partitions(conn)
    assert [each.since for each in found] == [None, *(each.until for each in found)][: len(found)]
    return [each.until for each in found]


async def _rows(services: Services, partition: str) -> int:
    async with services.database.reading() as conn:
        return int(await conn.scalar(text(f"SELECT count(*) FROM {partition}")) or 0)


@pytest.mark.parametrize(
    ("at", "width", "end"),
    [
        (WEDNESDAY, WEEK, MONDAY),
        (MONDAY, WEEK, MONDAY + WEEK),
        (MONDAY - timedelta(microseconds=1), WEEK, MONDAY),
        (WEDNESDAY, DAY, datetime(2026, 3, 5, tzinfo=UTC)),
        (WEDNESDAY, WIDEST, MONDAY + WEEK),
    ],
)
def test_partitions_end_at_midnight(at: datetime, width: timedelta, end: datetime) -> None:
    """Weeks and four weeks on a Monday, in UTC; an end is no part of what it ends."""
    assert boundary_after(at, width) == end


@pytest.mark.parametrize(
    ("days", "width"), [(1, DAY), (31, DAY), (32, WEEK), (90, WEEK), (365, WEEK), (0, WIDEST)]
)
def test_a_partition_is_a_small_part_of_what_is_kept(days: int, width: timedelta) -> None:
    """So little is kept beyond its days; what is kept for ever is in few partitions."""
    assert job.width(days) == width


async def test_partitions_are_made_ahead(services: Services, events: _Log) -> None:
    """For two weeks at least, and events go there; a second run makes none, a later one the next."""
    assert await job.run(_at(services, WEDNESDAY)) == 3
    assert await _bounds(services) == [MONDAY, MONDAY + WEEK, MONDAY + 2 * WEEK]
    assert await job.run(_at(services, WEDNESDAY)) == 0
    await events.add(WEDNESDAY, MONDAY, MONDAY + WEEK)

    assert await job.run(_at(services, WEDNESDAY + WEEK)) == 1

    assert (await _bounds(services))[-1] == MONDAY + 3 * WEEK
    assert [await _rows(services, each) for each in (PAST, "token_events_2026_03_09", DEFAULT)] == [1, 1, 0]
    assert await events.instants() == [WEDNESDAY, MONDAY, MONDAY + WEEK]


async def test_an_event_that_no_partition_is_for_is_kept(services: Services, events: _Log) -> None:
    """Before the job has run at all, before the first partition, and where the job has not run for long."""
    early, late = WEDNESDAY - 900 * DAY, WEDNESDAY + 100 * DAY
    await events.add(early, WEDNESDAY)
    await job.run(_at(services, WEDNESDAY))
    await events.add(early, late)
    assert await _rows(services, DEFAULT) == 1

    await job.run(_at(services, late, days=0))

    assert await events.instants() == [early, early, WEDNESDAY, late]
    assert await _rows(services, DEFAULT) == 0
    assert (await _bounds(services))[-1] > late + 2 * WEEK


async def test_what_is_past_is_dropped_with_its_partition(services: Services, events: _Log) -> None:
    """Day by day for half a year: at least the days of the setting are there, and less than a week more.

    No row is deleted for it once the first partition, which has everything before, is past.
    """
    days = [WEDNESDAY + number * DAY for number in range(180)]
    for now in days:
        await events.add(now)
        await job.run(_at(services, now))
        if now == days[110]:
            deleted = await retention.run(_at(services, now))

    there = await events.instants()
    assert there == days[-len(there) :]
    assert 90 <= len(there) <= 97
    assert deleted == 0
    assert len(await _bounds(services)) <= 17


async def test_nothing_is_dropped_that_is_kept_for_ever(services: Services, events: _Log) -> None:
    """With 0 days; with some, it is dropped."""
    await events.add(WEDNESDAY)
    await job.run(_at(services, WEDNESDAY))
    later = WEDNESDAY + 500 * DAY

    await job.run(_at(services, later, days=0))

    assert await events.instants() == [WEDNESDAY]
    await job.run(_at(services, later))
    assert await events.instants() == []


async def test_another_setting_has_another_width(services: Services, events: _Log) -> None:
    """From the end of the last partition on: no gap, and no overlap."""
    await job.run(_at(services, WEDNESDAY, days=7))
    await job.run(_at(services, WEDNESDAY + 3 * DAY, days=90))

    bounds = await _bounds(services)

    assert bounds[:2] == [datetime(2026, 3, 7, tzinfo=UTC), datetime(2026, 3, 8, tzinfo=UTC)]
    assert all(each.weekday() == 0 for each in bounds[-1:])


async def test_the_job_gives_way_to_long_readers(
    services: Services, events: _Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits behind it for long: it gives up, changes nothing, and does it when they are done."""
    monkeypatch.setattr(job, "_PAUSE_SECONDS", 0)
    monkeypatch.setattr(job, "_TRIES", 2)
    await events.add(WEDNESDAY)
    async with services.database.reading() as reader:
        await reader.execute(text("SELECT 1 FROM token_events LIMIT 1"))
        assert await job.run(_at(services, WEDNESDAY)) == 0
        await events.add(WEDNESDAY)
    assert await _bounds(services) == []

    assert await job.run(_at(services, WEDNESDAY)) == 3

    assert await events.instants() == [WEDNESDAY, WEDNESDAY]


async def test_a_lock_that_is_not_to_be_had_says_so(services: Services, events: _Log) -> None:
    """Making, dropping and closing raise the same."""
    await job.run(_at(services, WEDNESDAY))
    bounds = await _bounds(services)
    async with services.database.reading() as reader:
        await reader.execute(text("SELECT 1 FROM token_events LIMIT 1"))
        found = await storage.partitions(reader)
        with pytest.raises(Busy):
            await storage.drop(services.database, found[:1])
        with pytest.raises(Busy):
            await storage.make(services.database, bounds[-1], bounds[-1] + WEEK)
        with pytest.raises(Busy):
            await storage.close_default(services.database, bounds[-1], bounds[-1] + WEEK)

    assert await _bounds(services) == bounds


async def test_a_conversion_may_take_longer_than_other_statements(
    services: Services, events: _Log, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row is read: here, somebody keeps it from that for longer than a statement may take."""
    await events.add(WEDNESDAY)
    limited = Database.open(postgres_url, statement_timeout_seconds=0.3)
    validate = storage._validate
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'ALTER TABLE % VALIDATE %'"
        " AND wait_event_type = 'Lock' AND clock_timestamp() - query_start > interval '1 s'"
    )

    async def kept_from_it(database: Database) -> None:
        async with services.database.transaction() as conn, services.database.querying() as looking:
            await conn.execute(text(f"LOCK TABLE {DEFAULT} IN SHARE UPDATE EXCLUSIVE MODE"))
            validation = asyncio.create_task(validate(database))
            async with asyncio.timeout(20):
                while not validation.done() and not await looking.scalar(waiting):
                    pass
        await validation

    monkeypatch.setattr(storage, "_validate", kept_from_it)
    try:
        await storage.close_default(limited, None, WEDNESDAY + DAY)
        assert await _rows(services, PAST) == 1
        async with limited.reading() as conn:
            assert await conn.scalar(text("SHOW statement_timeout")) == "300ms"
    finally:
        await limited.close()


async def test_a_conversion_that_fails_refuses_no_event(services: Services, events: _Log) -> None:
    """The check that it begins with is gone, so the default partition takes events of any time."""
    await events.add(WEDNESDAY)
    with pytest.raises(CheckViolationError):  # there is one that would have no place
        await storage.close_default(services.database, None, WEDNESDAY - DAY)

    await events.add(WEDNESDAY + DAY)

    assert await _rows(services, DEFAULT) == 2


async def test_a_conversion_that_was_cut_off_is_done_again(services: Services, events: _Log) -> None:
    """A process that dies in the midst leaves a check behind, for two days from then on."""
    check = f"CHECK (at < '{(WEDNESDAY + 2 * DAY).isoformat()}')"
    async with services.database.transaction() as conn:
        await conn.execute(text(f"ALTER TABLE {DEFAULT} ADD CONSTRAINT token_events_default_closed {check}"))

    await job.run(_at(services, WEDNESDAY))

    await events.add(WEDNESDAY + 2 * DAY, WEDNESDAY + 100 * DAY)
    assert await _rows(services, PAST) == 1


def test_the_doctor_tells_of_events_in_the_default_partition(postgres_url: str, tmp_path: Path) -> None:
    """Until the job has run; none at all are well."""
    runner = CliRunner(env={"ZONED_DATA_DIR": str(tmp_path / "data"), "ZONED_DATABASE_URL": postgres_url})
    assert runner.invoke(main, ["init"]).exit_code == 0
    assert "partitions" + " " * 11 + "ok" in runner.invoke(main, ["doctor"]).stdout
    asyncio.run(_with_services(postgres_url, tmp_path, _add_one))

    told = runner.invoke(main, ["doctor"])

    assert "warning: token events are in the default partition" in told.stdout
    assert told.exit_code == 0
    asyncio.run(_with_services(postgres_url, tmp_path, job.run))
    assert "partitions" + " " * 11 + "ok" in runner.invoke(main, ["doctor"]).stdout


async def _with_services(url: str, tmp_path: Path, work: Callable[[Services], Awaitable[object]]) -> None:
    async with opened_parts(tmp_path / "data", database_url=url) as services:
        await work(services)


async def _add_one(services: Services) -> None:
    async with services.database.reading() as conn:
        organization = await conn.scalar(text("SELECT id FROM organizations"))
    await _Log(services, str(organization), "zone").add(services.clock())


async def test_it_is_a_job_of_the_schedule(services: Services) -> None:
    """Under the name that its row has."""
    assert await run_job(_at(services, WEDNESDAY), job.JOB) == 3


async def test_sqlite_has_one_table(sqlite_database: Database, tmp_path: Path, sqlite_url: str) -> None:
    """There is nothing to make or drop."""
    async with opened_parts(tmp_path / "data", database_url=sqlite_url) as services:
        assert await job.run(services) == 0


# --- from one table


def _older(connection: Connection, instants: Iterable[datetime]) -> None:
    config = migrations._config()
    config.attributes["connection"] = connection
    command.upgrade(config, "0043")
    reflected = MetaData()
    reflected.reflect(connection, only=["organizations", "token_events"])
    something = {datetime: WEDNESDAY, int: 1, bool: False, str: "acme"}
    organization = {
        column.name: something[column.type.python_type]
        for column in reflected.tables["organizations"].c
        if not column.nullable
    }
    connection.execute(insert(reflected.tables["organizations"]), organization)
    rows = [
        {
            "id": new_id(),
            "organization_id": "acme",
            "zone_id": "zone",
            "at": at,
            "event": "token",
            "outcome": "issued",
        }
        for at in instants
    ]
    connection.execute(insert(reflected.tables["token_events"]), rows)


async def test_a_table_of_before_is_converted_as_it_stands(services: Services, postgres: Any) -> None:
    """None of its rows is written again: it is the same file, and programs of before write meanwhile."""
    url = await postgres.empty()
    stood = [WEDNESDAY - number * DAY for number in range(100)][::-1]
    older = Database.open(url, migrating=True)
    file = text("SELECT pg_relation_filenode(CAST(:name AS regclass))")
    async with older.transaction() as conn:
        await conn.run_sync(_older, stood)
        before = await conn.scalar(file, {"name": "token_events"})
    await older.close()

    await migrations.migrate(url)

    database = Database.open(url)
    try:
        meanwhile = "INSERT INTO token_events (id, organization_id, zone_id, at, event, outcome) VALUES"
        async with database.transaction() as conn:
            await conn.execute(
                text(f"{meanwhile} ('new', 'acme', 'zone', :at, 'token', 'issued')"), {"at": WEDNESDAY}
            )
        converted = _at(replace(services, database=database), WEDNESDAY, days=365)
        assert await job.run(converted) == 3
        async with database.reading() as conn:
            assert await conn.scalar(file, {"name": PAST}) == before
            assert await migrations.differences(conn) == []
            page = await token_events.page(conn, "acme", "zone", TokenEventFilter(), limit=200)
        assert [each.at for each in page.items][::-1] == [*stood, WEDNESDAY]
        # What stood is deleted row by row, for as long as it is younger than its last.
        async with database.transaction() as conn:
            gone = await token_events.forget(conn, before=WEDNESDAY - 90 * DAY, limit=1_000)
        assert gone == 9
    finally:
        await database.close()


# --- what a list looks at


async def _sent(
    conn: Any, organization_id: str, zone_id: str, selection: TokenEventFilter
) -> list[tuple[str, tuple[Any, ...]]]:
    """The statements of the first page of a list, with their values."""
    sent: list[tuple[str, tuple[Any, ...]]] = []

    def note(_conn: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        sent.append((statement, parameters))

    event.listen(conn.sync_connection, "before_cursor_execute", note)
    await token_events.page(conn, organization_id, zone_id, selection, limit=10)
    event.remove(conn.sync_connection, "before_cursor_execute", note)
    return sent


async def _plan(conn: Any, organization_id: str, zone_id: str, selection: TokenEventFilter) -> str:
    """What the database does for the first page of a list, whatever its values are."""
    sent = await _sent(conn, organization_id, zone_id, selection)
    driver = (await conn.get_raw_connection()).driver_connection
    await driver.execute(f"SET LOCAL plan_cache_mode = force_generic_plan; PREPARE listed AS {sent[0][0]}")
    values = ", ".join(f"'{value}'" for value in sent[0][1])
    told = await driver.fetch(f"EXPLAIN (COSTS OFF) EXECUTE listed ({values})")
    return "\n".join(row[0] for row in told)


@pytest.mark.parametrize(
    ("selection", "looks_into"),
    [
        pytest.param(TokenEventFilter(until=WEDNESDAY + 50 * DAY), range(8), id="newest"),
        pytest.param(
            TokenEventFilter(since=WEDNESDAY + 20 * DAY, until=WEDNESDAY + 21 * DAY), range(3, 4), id="a day"
        ),
        pytest.param(
            TokenEventFilter({"request_id": ("none",)}, until=WEDNESDAY + 50 * DAY), range(8), id="request id"
        ),
    ],
)
async def test_a_list_looks_into_partitions_of_its_time_by_an_index(
    services: Services, events: _Log, selection: TokenEventFilter, looks_into: range
) -> None:
    """In none that were made for later, and not in the default, though the plan is the same for any time."""
    for now in (WEDNESDAY + number * DAY for number in range(51)):
        await events.add(*(now + each * timedelta(minutes=1) for each in range(400)))
        await job.run(_at(services, now))
    async with services.database.transaction() as conn:
        await conn.execute(text("ANALYZE token_events"))
    names = [PAST, *(f"token_events_{MONDAY + number * WEEK:%Y_%m_%d}" for number in range(9))]

    async with services.database.reading() as conn:
        plan = await _plan(conn, events.organization_id, events.zone_id, selection)

    assert {name for name in [*names, DEFAULT] if f" on {name} " in plan} == {
        names[each] for each in looks_into
    }
    assert "Seq Scan" not in plan


@pytest.mark.parametrize("filters", [{}, {"user_id": ("somebody",)}])
async def test_a_list_has_one_text_for_every_date(
    services: Services, events: _Log, filters: dict[str, tuple[str, ...]]
) -> None:
    """Whoever asks for other spans fills no cache of prepared statements."""
    spans = [(WEDNESDAY + number * DAY, WEDNESDAY + (number + 3) * DAY) for number in range(5)]
    async with services.database.reading() as conn:
        texts = [
            tuple(
                statement
                for statement, _ in await _sent(
                    conn, events.organization_id, events.zone_id, TokenEventFilter(filters, *span)
                )
            )
            for span in spans
        ]

    assert len(set(texts)) == 1
