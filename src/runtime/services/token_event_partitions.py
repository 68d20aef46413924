"""The partitions of token events on PostgreSQL: made ahead, and dropped once all of it is past its time."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

from runtime.logs import log
from runtime.services.container import Services
from runtime.storage.sql import token_event_partitions as storage
from runtime.storage.sql.token_event_partitions import Busy, boundary_after

JOB = "token_event_partitions"
AHEAD = timedelta(days=14)  # for which there are partitions, however long the job does not run
_MARGIN = timedelta(days=2)  # in which a conversion that was cut off is done again
_TRIES = 10
_PAUSE_SECONDS = 1.0


def width(days: int) -> timedelta:
    """How long the time of a partition is, where events are kept for so many days; 0 is for ever.

    Between 13 and 32 partitions are kept then: few enough to look into each of them for one request id.
    """
    if days == 0:
        return storage.WIDEST
    return timedelta(days=1) if days <= 31 else timedelta(days=7)


async def run(services: Services) -> int:
    """Drop what is past its time, and make what is missing; how many partitions that were."""
    if services.database.dialect != "postgresql":
        return 0
    try:
        return await _drop_past(services) + await _make_ahead(services)
    except Busy as busy:
        log.warning("partitions of token events: not now, the table is in use for long", reason=str(busy))
        return 0


async def _drop_past(services: Services) -> int:
    if not (days := services.settings.token_events_days):
        return 0
    before = services.clock() - timedelta(days=days)
    async with services.database.querying() as conn:
        past = [each for each in await storage.partitions(conn) if each.until <= before]
        has_events = any([await storage.has_rows(conn, each.name) for each in past])
    if len(past) <= 1 and not has_events:  # what everything earlier than the others falls into stays
        return 0
    await _persistently(partial(storage.drop, services.database, past))
    return len(past)


async def _make_ahead(services: Services) -> int:
    database, now, made = services.database, services.clock(), 0
    each = width(services.settings.token_events_days)
    async with database.querying() as conn:
        bounded = await storage.partitions(conn)
        latest = await storage.latest(conn)
    end = bounded[-1].until if bounded else None
    if end is None or latest is not None:
        until = boundary_after(max(now + _MARGIN, latest or now), each)
        await _persistently(partial(storage.close_default, database, end, until))
        end, made = until, 1
    while end < now + AHEAD:
        until = boundary_after(end, each)
        await _persistently(partial(storage.make, database, end, until))
        end, made = until, made + 1
    return made


async def _persistently(change: Callable[[], Awaitable[None]]) -> None:
    """Make a change as soon as its locks can be had. Raises Busy when that is not within some tries."""
    for left in reversed(range(_TRIES)):
        try:
            await change()
        except Busy:
            if not left:
                raise
            await asyncio.sleep(_PAUSE_SECONDS)
        else:
            return
