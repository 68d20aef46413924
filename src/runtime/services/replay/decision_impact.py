"""The impact of a changeset on recorded decisions: who would be refused, and who allowed, from then on.

The newest decisions of each zone that a changeset writes to are decided twice in its dry run, before its
operations and after them. How often the first agrees with the record tells how far the second can be relied
on.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.contract.changes import DecisionImpact
from runtime.domain.errors import NotFound, Unavailable
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
from runtime.domain.kinds.zone import Zone
from runtime.services.container import Services
from runtime.services.replay.comparison import ZoneRecords, compared
from runtime.services.replay.replayed_zone import ReplayedZone
from runtime.services.replay.zone_decisions import ZoneDecisions
from runtime.storage.sql import recorded_decisions as storage

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
PERIOD = timedelta(days=30)
# Of one dry run, however many zones it has.
MOST_RECORDS, MOST_ZONES = 100_000, 100
# For deciding them before the operations, and again after them. The engine takes some tenths of a millisecond
# for a request, and many times that where there are thousands of rules.
SECONDS = 3.0


async def records_of(
    conn: AsyncConnection, zones: Collection[Zone], *, emails_of: Collection[str], now: datetime
) -> list[ZoneRecords]:
    """The recorded decisions of zones of one organization.

    Args:
        emails_of: ids of the zones in which users are told by their addresses, too.
    """
    chosen = sorted(zones, key=lambda each: each.id)[:MOST_ZONES]
    found = []
    for zone in chosen:
        recorded = await storage.decisions(
            conn,
            zone.organization_id,
            zone.id,
            since=now - PERIOD,
            records=MOST_RECORDS // len(chosen),
        )
        if recorded:
            found.append(ZoneRecords(zone, now - PERIOD, recorded, zone.id in emails_of))
    return found


class DecisionReplay:
    """Decides the records of zones in a dry run: before its operations, and after them."""

    def __init__(self, services: Services, records: Sequence[ZoneRecords], now: datetime) -> None:
        """Args:
        now: of the dry run; policies may look at it.
        """
        self._services = services
        self._records = records
        self._now = now
        self._before: dict[str, ReplayedZone] = {}

    async def decide_before(self, conn: AsyncConnection) -> None:
        """Decide by what the dry run begins with."""
        with self._services.database.reading_from(conn):
            for each in self._records:
                with suppress(NotFound, Unavailable):
                    self._before[each.zone.id] = await self._replayed(conn, each, None)

    async def impact(self, conn: AsyncConnection) -> list[DecisionImpact]:
        """Decide by what the operations have made of it, and compare.

        Of zones that are deleted, or whose encryption key is not available, nothing is told.
        """
        found = []
        with self._services.database.reading_from(conn):
            for each in self._records:
                before = self._before.get(each.zone.id)
                with suppress(NotFound, Unavailable):
                    if before is not None:
                        after = await self._replayed(conn, each, before)
                        found.append(compared(each, before, after))
        return found

    async def _replayed(
        self, conn: AsyncConnection, records: ZoneRecords, before: ReplayedZone | None
    ) -> ReplayedZone:
        """Raises NotFound, Unavailable."""
        zone = await self._services.zones.uncached(records.zone.id, is_tried=True)
        decisions_of_zone = await ZoneDecisions.read(conn, zone, records.recorded, self._now)
        replayed = ReplayedZone(zone.id, decisions_of_zone)
        await replayed.name_policies(conn)
        await replayed.decide(records.recorded, before, seconds=SECONDS / len(self._records))
        return replayed
