"""Leases of periodic jobs: of all processes that would run one, the database lets one."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import case, literal, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.storage.sql.job_tables import jobs as _jobs

_INSERT: dict[str, Any] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}


@dataclass(frozen=True, slots=True)
class Lease:
    """A job as all processes see it.

    Attributes:
        next_at: when somebody should work on it again.
        leased_until: nobody else works on it before that; None when it is free.
        failures: since the last success.
    """

    name: str
    next_at: datetime
    leased_until: datetime | None
    failures: int
    succeeded_at: datetime | None

    def is_free(self, now: datetime) -> bool:
        """Tell whether nobody works on it, or whoever did has not come back."""
        return self.leased_until is None or self.leased_until <= now


async def ensure(conn: AsyncConnection, names: Collection[str], *, now: datetime) -> None:
    """Make the rows of new jobs, due now; what is there stays."""
    rows = [{"name": name, "next_at": now, "failures": 0} for name in names]
    if rows:
        await conn.execute(_INSERT[conn.dialect.name](_jobs).values(rows).on_conflict_do_nothing())


async def leases(conn: AsyncConnection) -> dict[str, Lease]:
    """Every job that ever was, by name."""
    found = await conn.execute(select(*(_jobs.c[name] for name in Lease.__slots__)))
    return {row["name"]: Lease(**row) for row in found.mappings()}


async def make_due(conn: AsyncConnection, names: Collection[str], *, now: datetime) -> None:
    """Make these jobs due now."""
    await conn.execute(
        update(_jobs).where(_jobs.c.name.in_(names), _jobs.c.next_at > now).values(next_at=now)
    )


async def acquire_lease(
    conn: AsyncConnection, name: str, holder: str, *, now: datetime, until: datetime, next_at: datetime
) -> bool:
    """Acquire the lease of a due job; False when it is not due, or leased by another process.

    Args:
        holder: names this one run, not the process.
        next_at: when it is due again; what makes it due meanwhile stands.
    """
    taken = await conn.execute(
        update(_jobs)
        .where(
            _jobs.c.name == name,
            _jobs.c.next_at <= now,
            or_(_jobs.c.leased_until.is_(None), _jobs.c.leased_until <= now),
        )
        .values(holder=holder, leased_until=until, next_at=next_at, started_at=now)
    )
    return taken.rowcount == 1


async def succeeded(conn: AsyncConnection, name: str, holder: str, *, now: datetime) -> None:
    """Give a job back that is done for now. Without effect when the lease is somebody else's by now."""
    await conn.execute(
        update(_jobs)
        .where(_jobs.c.name == name, _jobs.c.holder == holder)
        .values(holder=None, leased_until=None, failures=0, succeeded_at=now)
    )


async def failed(conn: AsyncConnection, name: str, holder: str, *, retry_at: datetime) -> None:
    """Give a job back that did not work out, to be tried again no later than that."""
    soon = literal(retry_at, _jobs.c.next_at.type)
    await conn.execute(
        update(_jobs)
        .where(_jobs.c.name == name, _jobs.c.holder == holder)
        .values(
            holder=None,
            leased_until=None,
            failures=_jobs.c.failures + 1,
            next_at=case((_jobs.c.next_at > soon, soon), else_=_jobs.c.next_at),
        )
    )
