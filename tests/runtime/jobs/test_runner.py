"""Jobs: each run by one process for all, whichever that is, on both databases."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.support.factories import opened_parts

from runtime import metrics
from runtime.domain.errors import Unavailable
from runtime.services.container import Services
from runtime.services.job_notifier import JobNotifier
from runtime.services.jobs.runner import FIRST_RETRY, Job, JobRunner
from runtime.storage.sql import jobs as storage

PERIOD = timedelta(hours=1)
LIMIT = timedelta(minutes=2)


@dataclass
class Work:
    """A job that a test watches and holds up, with a clock that the test moves."""

    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    runs: int = 0
    fails: bool = False
    going_on: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, _services: Services) -> int:
        self.runs += 1
        self.going_on.set()
        await self.may_end.wait()
        self.going_on.clear()
        if self.fails:
            raise ValueError("no use")
        return 3


@pytest.fixture
async def services(database_url: str, tmp_path: Path) -> Any:
    async with opened_parts(tmp_path / "data", database_url=database_url) as opened:
        yield opened


@pytest.fixture
def work() -> Work:
    return Work()


def process(services: Services, work: Work, *, limit: timedelta = LIMIT) -> JobRunner:
    """The jobs as one process has them."""
    own = replace(services, clock=lambda: work.now, jobs=JobNotifier(["work"]))
    return JobRunner(own, [Job("work", PERIOD, limit, work.run)])


async def finish(jobs: JobRunner) -> None:
    """Wait for what was begun."""
    await asyncio.gather(*jobs._running.values())


async def test_of_two_processes_one_works(services: Services, work: Work) -> None:
    """While one has the lease the other leaves the job alone; afterwards it waits for the period, shared."""
    one, other = process(services, work), process(services, work)

    await asyncio.gather(one.round(), other.round())
    await work.going_on.wait()
    assert await other.run_now("work") is None
    work.may_end.set()
    await finish(one)
    await finish(other)
    # What was asked for while it ran is done afterwards, by whoever looks first.
    await other.round()
    await finish(other)
    assert work.runs == 2

    assert not [jobs for jobs in (one, other) if not await jobs.round() > 1]
    work.now += PERIOD
    await asyncio.gather(one.round(), other.round())
    await finish(one)
    await finish(other)
    assert work.runs == 3


async def test_a_lease_outlives_its_holder_for_a_while(services: Services, work: Work) -> None:
    """A process that dies at work keeps the others waiting until its lease runs out, and no longer."""
    dead, other = process(services, work), process(services, work)
    await dead.round()
    await work.going_on.wait()  # from here on nothing is heard of it
    work.now += LIMIT
    await other.round()
    assert work.runs == 1

    work.now += PERIOD
    work.may_end.set()
    await other.round()
    await finish(other)
    assert work.runs == 2

    # A late end of the dead one's run does not touch what happened since.
    await finish(dead)
    async with services.database.querying() as conn:
        lease = (await storage.leases(conn))["work"]
    assert (lease.next_at, lease.failures) == (work.now + PERIOD, 0)


async def test_failures_are_retried_and_counted(services: Services, work: Work) -> None:
    """A failure comes round again soon, each time a little later, and a success forgets it."""
    jobs = process(services, work)
    work.may_end.set()
    work.fails = True
    for failures in (1, 2):
        await jobs.round()
        await finish(jobs)
        async with services.database.querying() as conn:
            lease = (await storage.leases(conn))["work"]
        assert lease.failures == failures
        assert lease.next_at == work.now + FIRST_RETRY * 2 ** (failures - 1)
        work.now = lease.next_at

    work.fails = False
    assert await jobs.run_now("work") == 3
    async with services.database.querying() as conn:
        lease = (await storage.leases(conn))["work"]
    assert (lease.failures, lease.succeeded_at, lease.next_at) == (0, work.now, work.now + PERIOD)


async def test_a_database_without_writes_is_asked_ever_less_often(
    services: Services, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is due and gets no lease waits twice as long each time, and runs once leases are given again."""
    work.may_end.set()
    jobs = process(services, work)
    await jobs.round()
    await finish(jobs)
    assert work.runs == 1
    work.now += PERIOD
    asked: list[datetime] = []

    @asynccontextmanager
    async def refusing(**_: Any) -> AsyncIterator[AsyncConnection]:
        asked.append(work.now)
        raise Unavailable("the database takes no writes")
        yield

    with monkeypatch.context() as away:
        away.setattr(services.database, "transaction", refusing)
        until = work.now + timedelta(minutes=3)
        while work.now < until:
            await jobs.round()
            await finish(jobs)
            work.now += timedelta(seconds=1)

    pauses = [(after - before).total_seconds() for before, after in pairwise(asked)]
    assert pauses == [5, 10, 20, 40, 60]
    work.now += timedelta(minutes=1)
    await jobs.round()
    await finish(jobs)
    assert work.runs == 2


def failures() -> float:
    """How many runs of the job have failed, as the metric has it."""
    return metrics.JOB_RUNS.labels("work", "failed")._value.get()


async def test_a_run_that_takes_too_long_is_cut_off(services: Services, work: Work) -> None:
    """A run has a limit; reaching it is a failure, and the lease is free again."""
    jobs = process(services, work, limit=timedelta(milliseconds=10))
    before = failures()

    with pytest.raises(TimeoutError):
        await jobs.run_now("work")

    assert failures() == before + 1
    work.may_end.set()
    assert await jobs.run_now("work") == 3


async def test_the_loop_runs_what_it_is_notified_of_and_stops(services: Services, work: Work) -> None:
    """A job that is not due runs at once; stopped in the middle of a run, the lease is given back.

    That is no failure of the job: an alert counts those.
    """
    jobs = process(services, work)
    work.may_end.set()
    await jobs.run_now("work")
    before = failures()
    await jobs.start()
    try:
        work.may_end.clear()
        work.going_on.clear()
        jobs._notifier.notify("work")
        await asyncio.wait_for(work.going_on.wait(), 10)
    finally:
        await asyncio.wait_for(jobs.stop(), 10)

    assert work.runs == 2
    async with services.database.querying() as conn:
        assert (await storage.leases(conn))["work"].is_free(work.now)
    assert failures() == before
    with pytest.raises(KeyError):
        jobs._notifier.notify("another")
