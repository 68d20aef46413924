"""The impact of a changeset on recorded decisions: who would be refused, and who allowed, from then on.

The newest decisions of each zone that a changeset writes to are decided twice in its dry run, before its
operations and after them. How often the first agrees with the record tells how far the second can be relied
on.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.contract.changes import DecisionImpact
from runtime.domain.errors import NotFound
from runtime.domain.kinds import (
    APPLICATION,
    APPLICATION_CREDENTIAL,
    GROUP,
    POLICY,
    POLICY_SET,
    RESOURCE,
    ROLE,
    ROLE_ASSIGNMENT,
)
from runtime.metrics import REPLAY_SECONDS
from runtime.services.container import Services
from runtime.services.data_keys import DataKeyUnavailable
from runtime.services.replay.comparison import compared, not_replayed
from runtime.services.replay.replayed_zone import ReplayedZone
from runtime.services.replay.zone_decisions import ZoneDecisions
from runtime.services.replay.zone_records import ZoneRecords
from runtime.services.replay.zone_users import Numbering
from runtime.services.time_slices import TimeSlice

# The kinds of entities that decisions are made from.
KINDS = frozenset(
    kind.name
    for kind in (
        APPLICATION,
        APPLICATION_CREDENTIAL,
        GROUP,
        POLICY,
        POLICY_SET,
        RESOURCE,
        ROLE,
        ROLE_ASSIGNMENT,
    )
)
# For deciding them before the operations, and again after them, whatever others get done meanwhile. A request
# takes the engine some tenths of a millisecond, and many times that where there are thousands of rules.
SECONDS = 3.0
UNAVAILABLE = "unavailable"


class DecisionReplay:
    """Decides the records of zones in a dry run: before its operations, and after them."""

    def __init__(self, services: Services, records: Sequence[ZoneRecords], now: datetime) -> None:
        """Args:
        now: of the dry run; policies may look at it.
        """
        self._services = services
        self._records = records
        self._now = now
        self._numbering = Numbering()
        self._before: dict[str, ReplayedZone] = {}
        self._spent = 0.0  # seconds

    async def decide_before(self, conn: AsyncConnection) -> None:
        """Decide by what the dry run begins with."""
        with self._services.database.reading_from(conn):
            for each in self._records:
                if each.recorded:
                    time_slice = TimeSlice()
                    with suppress(NotFound, DataKeyUnavailable):
                        self._before[each.zone.id] = await self._replayed(conn, each, None, time_slice)
                    self._spent += time_slice.spent

    async def impact(self, conn: AsyncConnection) -> list[DecisionImpact]:
        """Decide by what the operations have made of it, and compare.

        Of zones that they delete nothing is told; those whose encryption key is unavailable are told as such.
        """
        found = []
        with self._services.database.reading_from(conn):
            for each in self._records:
                with suppress(NotFound):
                    found.append(await self._impact(conn, each))
        if self._spent:
            REPLAY_SECONDS.observe(self._spent)
        return found

    async def _impact(self, conn: AsyncConnection, records: ZoneRecords) -> DecisionImpact:
        """Raises NotFound."""
        before, time_slice = self._before.pop(records.zone.id, None), TimeSlice()
        if before is None:
            return not_replayed(records, UNAVAILABLE)
        try:
            after = await self._replayed(conn, records, before, time_slice)
        except DataKeyUnavailable:
            return not_replayed(records, UNAVAILABLE)
        impact = await compared(records, before, after, time_slice)
        self._spent += time_slice.spent
        return impact

    async def _replayed(
        self, conn: AsyncConnection, records: ZoneRecords, before: ReplayedZone | None, time_slice: TimeSlice
    ) -> ReplayedZone:
        """Raises NotFound, Unavailable: DataKeyUnavailable, or what ends the whole dry run."""
        seconds = SECONDS / len(self._records)
        zone = await self._services.zones.uncached(records.zone.id, is_tried=True)
        found = await ZoneDecisions.read(
            conn, zone, records.recorded, self._now, self._numbering, time_slice, seconds=seconds
        )
        replayed = ReplayedZone(zone.id, found)
        await replayed.name_policies(conn)
        await replayed.decide(records.recorded, before, time_slice, seconds=seconds)
        return replayed
