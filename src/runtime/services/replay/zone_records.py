"""The decisions that a zone has recorded, summed up by what was asked."""

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from sys import intern
from typing import Any, NamedTuple

import orjson
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import Unavailable
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth.decision_events import DecisionEvent
from runtime.logs import log
from runtime.services.container import Services
from runtime.services.time_slices import TimeSlice
from runtime.storage.sql import recorded_decisions as storage

PERIOD = timedelta(days=30)
# Of one dry run: zones; and for each decision that may be replayed, records of any sort that are looked at.
MOST_ZONES, RECORDS_A_DECISION = 100, 3
_LOOKING_SECONDS = 5.0


class RecordedRequest(NamedTuple):
    """What policies were asked, as far as records tell.

    Attributes:
        actors: identifiers of the chain, the asking application first.
    """

    event: DecisionEvent
    user_id: str | None
    application_id: str | None
    user_agent_id: str | None
    credential_id: str | None
    resource_id: str
    actors: tuple[str, ...]


class RecordedDecisions(NamedTuple):
    """Records of one request that policies decided alike.

    Attributes:
        number: of the records.
        last_at: when the newest was made.
    """

    request: RecordedRequest
    allowed: bool
    number: int
    last_at: datetime


class ZoneRecords(NamedTuple):
    """What a zone has recorded, to be decided anew.

    Attributes:
        since: from when on all decisions are among them.
        is_complete: those are all of the period.
        recorded: the most frequent requests first.
        shows_emails: the caller may read users.
    """

    zone: Zone
    since: datetime
    is_complete: bool
    recorded: Sequence[RecordedDecisions]
    shows_emails: bool


async def records_of(
    services: Services, zones: Sequence[Zone], *, emails_of: Collection[str], now: datetime, has_turn: bool
) -> list[ZoneRecords]:
    """The recorded decisions of zones of one organization; of those without any, nothing.

    What there is no room for in one dry run, or the database does not tell in time, is said to be cut.

    Args:
        zones: the first ones go first.
        emails_of: ids of the zones in which users are told by their addresses, too.
        has_turn: whether there is room for any.
    """
    most = services.settings.replayed_decisions
    if not most or not zones:
        return []
    share = max(most // min(len(zones), MOST_ZONES), 1)
    found, time_slice = [], TimeSlice()
    for index, zone in enumerate(zones):
        looked = _Looked(now, is_cut=True)
        if has_turn and index < MOST_ZONES:
            looked = await _look(services, zone, now, share, time_slice)
        if looked.numbers or looked.is_cut:
            recorded = await looked.recorded(time_slice)
            found.append(ZoneRecords(zone, looked.since, not looked.is_cut, recorded, zone.id in emails_of))
    return found


class _Looked:
    """What was seen of a zone's records, the newest first.

    Attributes:
        since: from when on all decisions of policies are among them.
        is_cut: there may be older ones.
    """

    def __init__(self, since: datetime, *, is_cut: bool) -> None:
        self.since, self.is_cut = since, is_cut
        self.numbers: dict[tuple[Any, ...], list[Any]] = {}  # what was asked -> how often, last at

    def add(self, rows: storage.Rows) -> None:
        """Count some more."""
        for *columns, at in rows:
            asked = tuple(columns)
            if (known := self.numbers.get(asked)) is None:
                self.numbers[tuple(map(_shared, asked))] = [1, at]
            else:
                known[0] += 1

    async def recorded(self, time_slice: TimeSlice) -> list[RecordedDecisions]:
        """The same, the most frequent requests first, and of those the newest."""
        actors_of, found = lru_cache(maxsize=1_000)(_actors), []
        for (event, *named, actors, allowed), (number, last_at) in self.numbers.items():
            request = (DecisionEvent(event), *named, actors_of(actors))
            found.append(RecordedDecisions(RecordedRequest._make(request), bool(allowed), number, last_at))
            await time_slice.yield_if_due()
        return sorted(found, key=lambda each: -each.number)


async def _look(services: Services, zone: Zone, now: datetime, most: int, time_slice: TimeSlice) -> _Looked:
    """On a connection of its own: what fails here fails nothing else."""
    try:
        async with (
            asyncio.timeout(_LOOKING_SECONDS),
            services.database.reading(tenant=zone.organization_id) as conn,
        ):
            return await _read(conn, zone, now - PERIOD, most, time_slice)
    except (Unavailable, TimeoutError) as failure:
        why = str(failure) or "no answer in time"
        log.warning("recorded decisions are not replayed in a dry run", zone_id=zone.id, reason=why)
        return _Looked(now, is_cut=True)


async def _read(
    conn: AsyncConnection, zone: Zone, since: datetime, most: int, time_slice: TimeSlice
) -> _Looked:
    of_zone, left = (conn, zone.organization_id, zone.id), most
    edge = await storage.time_of(*of_zone, since=since, number=most * RECORDS_A_DECISION)
    looked = _Looked(edge or since, is_cut=edge is not None)
    async for rows in storage.decisions(*of_zone, since=looked.since, most=most):
        looked.add(rows)
        left -= len(rows)
        if left == 0:
            looked.since, looked.is_cut = rows[-1].at, True
        await time_slice.yield_if_due()
    return looked


def _shared(value: Any) -> Any:
    """The one text of that value: a hundred thousand records name the same few things."""
    return intern(value) if isinstance(value, str) else value


def _actors(text: str) -> tuple[str, ...]:
    return tuple(map(intern, orjson.loads(text)))
