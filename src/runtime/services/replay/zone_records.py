"""The decisions that a zone has recorded, summed up by what was asked."""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from functools import lru_cache
from sys import intern
from typing import Any, NamedTuple

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
        has_turn: without it no zone is looked at, and each is said to be cut, also one without records.
    """
    most = services.settings.replayed_decisions
    if not most or not zones:
        return []
    share = max(most // min(len(zones), MOST_ZONES), 1)
    found, time_slice = [], TimeSlice()
    for index, zone in enumerate(zones):
        looked = _Looked(now)
        if has_turn and index < MOST_ZONES:
            looked = await _look(services, zone, now, share, time_slice)
        if looked.counted or looked.is_cut:
            recorded = await looked.recorded(time_slice)
            found.append(ZoneRecords(zone, looked.since, not looked.is_cut, recorded, zone.id in emails_of))
    return found


class _Looked:
    """What was seen of a zone's records, the newest first.

    Attributes:
        since: from when on all decisions of policies are among them.
        is_cut: there may be older ones.
        counted: what was asked -> number of records, and when the newest was made.
    """

    def __init__(self, since: datetime) -> None:
        self.since, self.is_cut = since, True
        self.counted: dict[tuple[Any, ...], tuple[int, datetime]] = {}

    async def read(
        self, conn: AsyncConnection, zone: Zone, period_began: datetime, most: int, time_slice: TimeSlice
    ) -> None:
        """Count the newest. Whatever ends this early, what was counted is right from `since` on."""
        of_zone, left = (conn, zone.organization_id, zone.id), most
        edge = await storage.time_of(*of_zone, since=period_began, number=most * RECORDS_A_DECISION)
        began = edge or period_began
        async with aclosing(storage.decisions(*of_zone, since=began, most=most)) as found:
            async for rows in found:
                self._add(rows)
                self.since = rows[-1].at
                left -= len(rows)
                await time_slice.yield_if_due()
        if left:
            self.since, self.is_cut = began, edge is not None

    def _add(self, rows: storage.Rows) -> None:
        for *columns, at in rows:
            asked = tuple(columns)
            if (known := self.counted.get(asked)) is None:
                self.counted[tuple(map(_shared, asked))] = (1, at)
            else:
                self.counted[asked] = (known[0] + 1, known[1])

    async def recorded(self, time_slice: TimeSlice) -> list[RecordedDecisions]:
        """The same, the most frequent requests first, and of those the newest."""
        actors_of, found = lru_cache(maxsize=1_000)(storage.actors), []
        for (event, *named, actors, allowed), (number, last_at) in self.counted.items():
            request = (DecisionEvent(event), *named, actors_of(actors))
            found.append(RecordedDecisions(RecordedRequest._make(request), bool(allowed), number, last_at))
            await time_slice.yield_if_due()
        return sorted(found, key=lambda each: -each.number)


async def _look(services: Services, zone: Zone, now: datetime, most: int, time_slice: TimeSlice) -> _Looked:
    """On a connection of its own: what fails here fails nothing else."""
    looked = _Looked(now)
    try:
        async with (
            asyncio.timeout(_LOOKING_SECONDS),
            services.database.reading(tenant=zone.organization_id) as conn,
        ):
            await looked.read(conn, zone, now - PERIOD, most, time_slice)
    except (Unavailable, TimeoutError) as failure:
        why = str(failure) or "no answer in time"
        log.warning("recorded decisions are not all replayed in a dry run", zone_id=zone.id, reason=why)
    return looked


def _shared(value: Any) -> Any:
    """The one text of that value: a hundred thousand records name the same few things."""
    return intern(value) if isinstance(value, str) else value
