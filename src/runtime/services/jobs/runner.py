"""The job runner: periodic jobs, each run by one process at a time under a lease in the database.

Each job has a row with a lease. Every process looks at the rows; whoever takes the lease works. There is no
leader to elect: a process that dies loses its leases when they run out, two processes share the jobs between
them, and what a period means survives restarts. A lease is longer than its job may run, and every job is
idempotent, so a run that is cut off anywhere costs only that it is done again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import perf_counter

from sqlalchemy.exc import DBAPIError

from runtime.domain.errors import Unavailable
from runtime.domain.identifiers import new_id
from runtime.logs import log
from runtime.metrics import JOB_RUNS, JOB_SECONDS, JOB_SUCCEEDED, JOB_WORK
from runtime.services.container import Services
from runtime.storage.sql import jobs as storage
from runtime.storage.sql.jobs import Lease

LEASE_MARGIN = timedelta(seconds=30)  # for giving it back, and for clocks that differ a little
FIRST_RETRY = timedelta(seconds=5)  # doubled with each failure, up to the job's period
LONGEST_RETRY = timedelta(minutes=1)  # of a lease that the database did not give
_LONGEST_PAUSE = 15.0
_PAUSE_WHILE_LEASED = 1.0
_SHORTEST_PAUSE = 0.05
_AWAY = (DBAPIError, OSError, Unavailable)


@dataclass(frozen=True)
class Job:
    """Work that comes round again.

    Attributes:
        name: of its row, its log lines and its metrics; it never changes.
        period: from the beginning of one run to the beginning of the next.
        limit: a run that takes longer is cut off and counts as failed.
        run: does what there is to do, and tells how much that was. It may be cut off anywhere and run again.
    """

    name: str
    period: timedelta
    limit: timedelta
    run: Callable[[Services], Awaitable[int]]


class JobRunner:
    """The jobs of this process, and the loop that runs those that are due."""

    def __init__(self, services: Services, jobs: Iterable[Job]) -> None:
        self._services = services
        self._notifier = services.jobs
        self._jobs = {job.name: job for job in jobs}
        self._loop: asyncio.Task[None] | None = None
        self._running: dict[str, asyncio.Task[int | None]] = {}
        # Jobs whose lease the database could not give, as one that takes no writes: how often, and until when
        # none is asked for.
        self._unleased: dict[str, tuple[int, datetime]] = {}

    async def start(self) -> None:
        """Look for what is due, from now on, in the background."""
        for name in self._jobs:  # a rate begins at a first value: the first failure would be missed
            for outcome in ("done", "failed"):
                JOB_RUNS.labels(name, outcome)
        if self._loop is None:
            self._loop = asyncio.create_task(self._poll())

    async def stop(self) -> None:
        """Cut off what runs here, give its leases back, and end."""
        tasks = [task for task in (self._loop, *self._running.values()) if task is not None]
        self._loop = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def run_now(self, name: str) -> int | None:
        """Run a job here, due or not; how much it did, None when somebody else is at it.

        Raises: what the job raises; TimeoutError.
        """
        async with self._services.database.transaction() as conn:
            now = self._services.clock()
            await storage.ensure(conn, [name], now=now)
            await storage.make_due(conn, [name], now=now)
        return await self._acquire_and_run(self._jobs[name], raising=True)

    async def round(self) -> float:
        """Begin whatever is due and free; the seconds until it is worth looking again."""
        now = self._services.clock()
        notified = self._notifier.take()
        try:
            leases = await self._leases(notified, now)
        except BaseException:
            self._notifier.put_back(notified)
            raise
        pauses = [_LONGEST_PAUSE]
        for name, job in self._jobs.items():
            lease = leases[name]
            if name in self._running or not lease.is_free(now):
                pauses.append(_PAUSE_WHILE_LEASED)
            elif (due_at := self._due_at(name, lease)) <= now:
                task = asyncio.create_task(self._acquire_and_run(job, raising=False), name=f"job {name}")
                self._running[name] = task
                task.add_done_callback(lambda _, name=name: self._ended(name))  # type: ignore[misc]
            else:
                pauses.append((due_at - now).total_seconds())
        return max(_SHORTEST_PAUSE, min(pauses))

    def _due_at(self, name: str, lease: Lease) -> datetime:
        _, not_before = self._unleased.get(name, (0, lease.next_at))
        return max(lease.next_at, not_before)

    def _was_not_leased(self, name: str, now: datetime) -> None:
        failures, _ = self._unleased.get(name, (0, now))
        pause = min(LONGEST_RETRY, FIRST_RETRY * 2 ** min(failures, 16))
        self._unleased[name] = failures + 1, now + pause

    async def _leases(self, notified: set[str], now: datetime) -> dict[str, Lease]:
        """The rows of all jobs of this process, those of *notified* made due."""
        async with self._services.database.querying() as conn:
            leases = await storage.leases(conn)
        if notified or not self._jobs.keys() <= leases.keys():
            async with self._services.database.transaction() as conn:
                await storage.ensure(conn, self._jobs.keys() - leases.keys(), now=now)
                await storage.make_due(conn, notified, now=now)
                leases = await storage.leases(conn)
        return leases

    def _ended(self, name: str) -> None:
        self._running.pop(name, None)
        self._notifier.wake()

    async def _poll(self) -> None:
        while True:
            try:
                pause = await self.round()
            except _AWAY as failure:
                log.warning("due jobs not read", reason=repr(failure))
                pause = _LONGEST_PAUSE
            await self._notifier.wait(pause)

    async def _acquire_and_run(self, job: Job, *, raising: bool) -> int | None:
        """Take the job's lease and run it once; how much it did, None without the lease.

        Args:
            raising: whether a failure is the caller's affair; it is recorded either way.
        """
        holder, now = new_id(), self._services.clock()
        try:
            async with self._services.database.transaction() as conn:
                until = now + job.limit + LEASE_MARGIN
                taken = await storage.acquire_lease(
                    conn, job.name, holder, now=now, until=until, next_at=now + job.period
                )
                failures = (await storage.leases(conn))[job.name].failures
        except _AWAY as failure:
            log.warning("job not started", job=job.name, reason=repr(failure))
            self._was_not_leased(job.name, now)
            if raising:
                raise
            return None
        self._unleased.pop(job.name, None)
        if not taken:
            return None
        began, done = perf_counter(), None
        try:
            async with asyncio.timeout(job.limit.total_seconds()):
                done = await job.run(self._services)
        except Exception as failure:
            JOB_RUNS.labels(job.name, "failed").inc()
            if isinstance(failure, Unavailable):  # which is no defect of the job
                log.warning("job failed", job=job.name, failures=failures + 1, reason=repr(failure))
            else:
                log.error("job failed", job=job.name, failures=failures + 1, exc_info=failure)
            if raising:
                raise
        else:
            JOB_RUNS.labels(job.name, "done").inc()
        finally:  # also where the process ends meanwhile, which is no failure
            JOB_SECONDS.labels(job.name).observe(perf_counter() - began)
            JOB_WORK.labels(job.name).inc(done or 0)
            if done is not None:
                JOB_SUCCEEDED.labels(job.name).set_to_current_time()
            await self._release(job, holder, failures, is_done=done is not None)
        return done

    async def _release(self, job: Job, holder: str, failures: int, *, is_done: bool) -> None:
        """End a lease. When that does not work out, it ends by itself."""
        now = self._services.clock()
        retry_at = now + min(job.period, FIRST_RETRY * 2 ** min(failures, 16))
        try:
            async with self._services.database.transaction() as conn:
                if is_done:
                    await storage.succeeded(conn, job.name, holder, now=now)
                else:
                    await storage.failed(conn, job.name, holder, retry_at=retry_at)
        except _AWAY as failure:
            log.warning("job lease not released", job=job.name, reason=repr(failure))
