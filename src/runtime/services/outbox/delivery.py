"""Putting letters in the outbox, and delivering those that are due.

A row is claimed by moving its next attempt on: whoever dies with it loses nothing, and no other worker tries
it meanwhile. A delivered row goes; one that has been tried too often is parked, kept for a while and logged.
While a receiver's letter waits to be tried again, so do all others for that receiver.
"""

import asyncio
import random
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import orjson
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.adapters.keys.sealing import SealBroken, Sealer
from runtime.domain.identifiers import new_id
from runtime.logs import log
from runtime.services.attached import Attached
from runtime.services.outbox.letters import Letter, NotDelivered, Topic, Undeliverable
from runtime.storage.sql import outbox as storage
from runtime.storage.sql.outbox import Row

JOB = "outbox"
PARKED_KEPT = timedelta(days=30)
LATE = timedelta(days=1)
_MAX_DELAY_SECONDS = 6 * 3600
_BATCH = 20


class Outbox(Attached):
    """What waits to leave."""

    def __init__(self, sealer: Sealer, topics: Mapping[str, Topic]) -> None:
        """Args:
        sealer: the same for all processes: each opens what another has put in.
        """
        self._sealer = sealer
        self._topics = topics

    async def put(
        self,
        conn: AsyncConnection,
        topic: str,
        payload: Mapping[str, Any],
        *,
        now: datetime,
        organization_id: str | None = None,
        zone_id: str | None = None,
        receiver: str | None = None,
    ) -> None:
        """Put a letter in, as a part of the transaction; `poke` after its commit delivers it at once.

        Args:
            payload: JSON; kept sealed.
            organization_id, zone_id: whose it is: it goes when they go. A zone needs its organization.
            receiver: whom of the zone it is for, where one who does not answer fails for all their letters.
        """
        if topic not in self._topics:
            raise KeyError(topic)
        letter_id = new_id()
        await storage.add(
            conn,
            letter_id,
            organization_id=organization_id,
            zone_id=zone_id,
            topic=topic,
            payload_sealed=self._sealer.seal(orjson.dumps(payload), bound_to=_place(letter_id)),
            receiver=receiver,
            now=now,
        )

    def poke(self) -> None:
        """Have what is due delivered soon, in the background. For after the commit; costs nothing."""
        self.services.jobs.poke(JOB)

    async def deliver_due(self) -> int:
        """Deliver everything that is due now; how many letters have left. Raises what the database raises.

        It goes round by round, a few letters of every topic in each: addresses of some are chosen by
        strangers and can be slow, and letters of another topic or zone wait for one round of that at most.
        Those of a topic that is not known here wait for a version that knows it.
        """
        delivered = 0
        while True:
            done = await asyncio.gather(*(self._deliver_some(name) for name in self._topics))
            delivered += sum(count for count, _ in done)
            if not any(is_more for _, is_more in done):
                return delivered

    async def _deliver_some(self, name: str) -> tuple[int, bool]:
        """Deliver a few letters of a topic: how many have left, and whether more may be due."""
        services, topic = self.services, self._topics[name]
        async with services.database.transaction() as conn:
            now = services.clock()
            rows = await storage.due(conn, name, now=now, limit=_BATCH)
            await storage.postpone(conn, {row.id: now + _delay(topic, row.attempts + 1) for row in rows})
        delivered = sum(await asyncio.gather(*(self._deliver(topic, row) for row in rows)))
        return delivered, len(rows) == _BATCH

    async def tend(self) -> int:
        """What the job does: deliver what no poke has delivered, give up what comes too late, forget that."""
        return await self.deliver_due() + await self.park_late() + await self.forget_parked()

    async def park_late(self) -> int:
        """Give up what a receiver has not taken in a day; how many letters.

        Of many that wait for one who never answers, only the first few are tried so often as to be given up.
        """
        services, now = self.services, self.services.clock()
        async with services.database.transaction() as conn:
            parked = await storage.park_late(conn, before=now - LATE, now=now)
        if parked:
            log.error("given up", letters=parked, reason="not taken in a day")
        return parked

    async def forget_parked(self) -> int:
        """Remove what was given up long ago; how many rows."""
        services = self.services
        async with services.database.transaction() as conn:
            return await storage.remove_parked(conn, before=services.clock() - PARKED_KEPT)

    async def _deliver(self, topic: Topic, row: Row) -> bool:
        """Try one letter that this process has claimed."""
        attempts = row.attempts + 1
        try:
            async with asyncio.timeout(topic.first_delay_seconds):
                await topic.deliver(self.services, self._opened(row, attempts))
        except Undeliverable as failure:
            await self._park(row, attempts, str(failure))
            return False
        except Exception as failure:  # noqa: BLE001 - one letter must not keep the others from leaving
            reason = str(failure) if isinstance(failure, NotDelivered) else type(failure).__name__
            if attempts >= topic.attempts:
                await self._park(row, attempts, reason)
            else:
                log.warning(
                    "not delivered yet", topic=row.topic, letter=row.id, attempts=attempts, reason=reason
                )
            return False
        async with self.services.database.transaction() as conn:
            await storage.remove(conn, row.id)
        return True

    def _opened(self, row: Row, attempts: int) -> Letter:
        try:
            payload = orjson.loads(self._sealer.open(row.payload_sealed, bound_to=_place(row.id)))
        except SealBroken:
            raise Undeliverable("it cannot be opened") from None
        return Letter(row.id, row.topic, row.organization_id, row.zone_id, attempts, payload)

    async def _park(self, row: Row, attempts: int, reason: str) -> None:
        log.error("given up", topic=row.topic, letter=row.id, attempts=attempts, reason=reason)
        async with self.services.database.transaction() as conn:
            await storage.park(conn, row.id, now=self.services.clock())


def _delay(topic: Topic, attempts: int) -> timedelta:
    """From the start of an attempt to the next one, with jitter so that not all come at once."""
    seconds = min(topic.first_delay_seconds * 2 ** min(attempts - 1, 20), _MAX_DELAY_SECONDS)
    return timedelta(seconds=seconds * random.uniform(1, 1.25))  # noqa: S311 - spreads load, hides nothing


def _place(letter_id: str) -> str:
    return f"outbox/{letter_id}/payload_sealed"
