"""Adding messages to the outbox, and delivering those that are due.

A row is claimed by moving its next attempt on: whoever dies with it loses nothing, and no other worker tries
it meanwhile. A delivered row goes; one that has been tried too often becomes a dead letter, kept for
a while and logged. While a receiver's message waits to be tried again, so do all others for that receiver.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import orjson
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.adapters.keys.sealing import SealBroken, Sealer
from runtime.domain.identifiers import new_id
from runtime.logs import log
from runtime.services.job_notifier import JobNotifier
from runtime.services.outbox.messages import Message, MessageHandler, NotDelivered, Undeliverable
from runtime.storage.sql import outbox as storage
from runtime.storage.sql.database import Database
from runtime.storage.sql.outbox import OutboxMessage

JOB = "outbox"
LATE = timedelta(days=1)
_MAX_DELAY_SECONDS = 6 * 3600
_BATCH = 20


class Outbox:
    """The messages that wait to be delivered, in the database."""

    def __init__(
        self,
        database: Database,
        clock: Callable[[], datetime],
        sealer: Sealer,
        handlers: Mapping[str, MessageHandler],
        notifier: JobNotifier,
    ) -> None:
        """Args:
        sealer: the same for all processes: each opens what another has put in.
        handlers: topic -> how its messages are delivered.
        """
        self._database = database
        self._clock = clock
        self._sealer = sealer
        self._handlers = handlers
        self._notifier = notifier

    async def enqueue(
        self,
        conn: AsyncConnection,
        topic: str,
        payload: Mapping[str, Any],
        *,
        organization_id: str | None = None,
        zone_id: str | None = None,
        receiver: str | None = None,
    ) -> None:
        """Add a message as a part of the transaction; `notify` after its commit delivers it at once.

        Args:
            payload: JSON; kept sealed.
            organization_id, zone_id: whose it is: it goes when they go. A zone needs its organization.
            receiver: whom of the zone it is for, where one who does not answer fails for all their messages.
        """
        if topic not in self._handlers:
            raise KeyError(topic)
        message_id = new_id()
        await storage.add(
            conn,
            message_id,
            organization_id=organization_id,
            zone_id=zone_id,
            topic=topic,
            payload_sealed=self._sealer.seal(orjson.dumps(payload), bound_to=_place(message_id)),
            receiver=receiver,
            now=self._clock(),
        )

    async def outlive(self, conn: AsyncConnection, topic: str, *, zone_id: str) -> None:
        """Keep the messages of a topic that wait when their zone goes, before it does, in its transaction."""
        await storage.leave_zone(conn, topic, zone_id=zone_id)

    def notify(self) -> None:
        """Have what is due delivered soon, in the background; call it after the commit."""
        self._notifier.notify(JOB)

    async def deliver_due(self) -> int:
        """Deliver everything that is due now; the number of messages. Raises what the database raises.

        It goes round by round, a few messages of every topic in each: addresses of some are chosen by
        strangers and can be slow, and messages of another topic or zone wait for one round of that at most.
        Those of a topic that is not known here wait for a version that knows it.
        """
        delivered = 0
        while True:
            done = await asyncio.gather(*(self._deliver_some(name) for name in self._handlers))
            delivered += sum(count for count, _ in done)
            if not any(is_more for _, is_more in done):
                return delivered

    async def _deliver_some(self, name: str) -> tuple[int, bool]:
        """Deliver a few messages of a topic: how many were delivered, and whether more may be due."""
        handler = self._handlers[name]
        async with self._database.transaction() as conn:
            now = self._clock()
            rows = await storage.due(conn, name, now=now, limit=_BATCH)
            await storage.postpone(conn, {row.id: now + _delay(handler, row.attempts + 1) for row in rows})
        delivered = sum(await asyncio.gather(*(self._deliver(handler, row) for row in rows)))
        return delivered, len(rows) == _BATCH

    async def run_job(self) -> int:
        """The periodic job: deliver what is due, give up what is late."""
        return await self.deliver_due() + await self.give_up_late()

    async def give_up_late(self) -> int:
        """Make dead letters of what a receiver has not taken in a day; the number of messages.

        Of many that wait for one who never answers, only the first few are tried so often as to be given up.
        """
        now = self._clock()
        async with self._database.transaction() as conn:
            given_up = await storage.dead_letter_late(conn, before=now - LATE, now=now)
        if given_up:
            log.error("message delivery abandoned", messages=given_up, reason="not delivered within a day")
        return given_up

    async def _deliver(self, handler: MessageHandler, row: OutboxMessage) -> bool:
        """Try one message that this process has claimed."""
        attempts = row.attempts + 1
        try:
            async with asyncio.timeout(handler.first_delay_seconds):
                await handler.deliver(self._opened(row, attempts))
        except Undeliverable as failure:
            await self._give_up(row, attempts, str(failure))
            return False
        except Exception as failure:  # noqa: BLE001 - one message must not keep the others from leaving
            reason = str(failure) if isinstance(failure, NotDelivered) else type(failure).__name__
            if attempts >= handler.attempts:
                await self._give_up(row, attempts, reason)
            else:
                log.warning(
                    "message not delivered yet",
                    topic=row.topic,
                    message_id=row.id,
                    attempts=attempts,
                    reason=reason,
                )
            return False
        async with self._database.transaction() as conn:
            await storage.remove(conn, row.id)
        return True

    def _opened(self, row: OutboxMessage, attempts: int) -> Message:
        try:
            payload = orjson.loads(self._sealer.open(row.payload_sealed, bound_to=_place(row.id)))
        except SealBroken:
            raise Undeliverable("the stored message cannot be decrypted") from None
        return Message(row.id, row.topic, row.organization_id, row.zone_id, attempts, payload)

    async def _give_up(self, row: OutboxMessage, attempts: int, reason: str) -> None:
        log.error(
            "message delivery abandoned", topic=row.topic, message_id=row.id, attempts=attempts, reason=reason
        )
        async with self._database.transaction() as conn:
            await storage.dead_letter(conn, row.id, now=self._clock())


def _delay(handler: MessageHandler, attempts: int) -> timedelta:
    """From the start of an attempt to the next one, with jitter so that not all come at once."""
    seconds = min(handler.first_delay_seconds * 2 ** min(attempts - 1, 20), _MAX_DELAY_SECONDS)
    return timedelta(seconds=seconds * random.uniform(1, 1.25))  # noqa: S311 - spreads load, hides nothing


def _place(message_id: str) -> str:
    return f"outbox/{message_id}/payload_sealed"
