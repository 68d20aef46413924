"""Adding messages to the outbox, and delivering those that are due.

A row is claimed by moving its next attempt on: whoever dies with it loses nothing, and no other worker tries
it meanwhile. A delivered row goes; one that has been tried too often becomes a dead letter, kept for
a while and logged. While a receiver's message waits to be tried again, so do all others for that receiver.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from operator import itemgetter
from time import monotonic
from typing import Any

import orjson
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.adapters.keys.sealing import SealBroken, Sealer
from runtime.domain.errors import Unavailable
from runtime.domain.identifiers import new_id
from runtime.logs import log
from runtime.services.job_notifier import JobNotifier
from runtime.services.outbox.messages import Message, MessageHandler, NotDelivered, Undeliverable
from runtime.storage.sql import outbox as storage
from runtime.storage.sql.batches import batches
from runtime.storage.sql.database import Database
from runtime.storage.sql.outbox import OutboxMessage

JOB = "outbox"
LATE = timedelta(days=1)
_MAX_DELAY_SECONDS = 6 * 3600
_AT_A_TIME = 20  # of a topic
_OF_ONE = 5  # of these for one receiver, and for one zone
_MOMENT_SECONDS = 0.2  # between two looks for what is due, while messages are under way
_LOOK_AGAIN_SECONDS = 1.0  # when the last look has found nothing
_LONGEST_SECONDS = 5 * 60.0  # of a run: well below the limit of the job, where it would count as failed
_GRACE_SECONDS = 10.0  # for what is under way then


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
        messages = [(receiver, payload)]
        await self.enqueue_many(conn, topic, messages, organization_id=organization_id, zone_id=zone_id)

    async def enqueue_many(
        self,
        conn: AsyncConnection,
        topic: str,
        messages: Sequence[tuple[str | None, Mapping[str, Any]]],
        *,
        organization_id: str | None = None,
        zone_id: str | None = None,
    ) -> None:
        """Add messages as `enqueue` does, hundreds in a round trip: SQLite has one writer for everybody.

        Args:
            messages: receiver and payload of each.
        """
        if topic not in self._handlers:
            raise KeyError(topic)
        now = self._clock()
        for batch in batches(messages):
            rows = [
                self._sealed(topic, receiver, payload, organization_id=organization_id, zone_id=zone_id)
                for receiver, payload in batch
            ]
            await storage.add(conn, rows, now=now)

    def _sealed(
        self,
        topic: str,
        receiver: str | None,
        payload: Mapping[str, Any],
        *,
        organization_id: str | None,
        zone_id: str | None,
    ) -> OutboxMessage:
        message_id = new_id()
        return OutboxMessage(
            id=message_id,
            organization_id=organization_id,
            zone_id=zone_id,
            topic=topic,
            payload_sealed=self._sealer.seal(orjson.dumps(payload), bound_to=_place(message_id)),
            attempts=0,
            receiver=receiver,
        )

    async def outlive(self, conn: AsyncConnection, topic: str, *, zone_id: str) -> None:
        """Keep the messages of a topic that wait when their zone goes, before it does, in its transaction."""
        await storage.leave_zone(conn, topic, zone_id=zone_id)

    def notify(self) -> None:
        """Have what is due delivered soon, in the background; call it after the commit."""
        self._notifier.notify(JOB)

    async def deliver_due(self) -> int:
        """Deliver what is due, and what becomes due meanwhile; the number of messages.

        Every topic goes on by itself: addresses of some are chosen by strangers and can be slow. A topic that
        has nothing looks again every second while another goes on, because until this ends, nobody else
        delivers. Those of a topic that is not known here wait for a version that knows it.

        It ends after some minutes, whatever there is to do: the rest is for the next run.

        Raises: what the database raises.
        """
        until = monotonic() + _LONGEST_SECONDS
        going: dict[asyncio.Task[int], str] = {}
        delivered = 0
        try:
            while True:
                for name in self._handlers.keys() - going.values():
                    going[asyncio.create_task(self._deliver_topic(name, until))] = name
                delivered += await _ended(going, _LOOK_AGAIN_SECONDS)
                if not going:
                    return delivered
        finally:
            await _cut_off(going)

    async def _deliver_topic(self, name: str, until: float) -> int:
        """Deliver messages of a topic until none is due and none under way; the number of messages.

        Args:
            until: when to begin no more, by the monotonic clock. What has not ended seconds later is cut off,
                and tried again.
        """
        going: dict[asyncio.Task[int], OutboxMessage] = {}
        delivered = 0
        try:
            while monotonic() < until:
                claimed = await self._claim(name, going.values())
                for row in claimed:
                    going[asyncio.create_task(self._deliver(self._handlers[name], row))] = row
                if not going:
                    break
                delivered += await _ended(going, _MOMENT_SECONDS if claimed else _LOOK_AGAIN_SECONDS)
            return delivered + await _ended(going, _GRACE_SECONDS)
        finally:
            await _cut_off(going)

    async def _claim(self, name: str, going: Collection[OutboxMessage]) -> list[OutboxMessage]:
        """Claim messages of a topic that are due, as many as there are slots beside those under way."""
        free = _AT_A_TIME - len(going)
        if free == 0:
            return []
        handler = self._handlers[name]
        async with self._database.transaction() as conn:
            now = self._clock()
            rows = _in_turn(await storage.due(conn, name, now=now, limit=_AT_A_TIME), going)[:free]
            await storage.postpone(conn, {row.id: now + _delay(handler, row.attempts + 1) for row in rows})
        return rows

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
        async with self._done_with(row) as conn:
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
        async with self._done_with(row) as conn:
            await storage.dead_letter(conn, row.id, now=self._clock())

    @asynccontextmanager
    async def _done_with(self, row: OutboxMessage) -> AsyncIterator[AsyncConnection]:
        """A connection to take a message out. One that cannot be taken out now is delivered once more.

        Its zone may be held by a long transaction, such as its deletion: no other message waits for that.
        """
        try:
            async with self._database.transaction() as conn:
                yield conn
        except (DBAPIError, Unavailable) as failure:
            log.warning(
                "message not removed: it will be delivered again",
                topic=row.topic,
                message_id=row.id,
                reason=repr(failure),
            )


def _in_turn(due: Sequence[OutboxMessage], going: Collection[OutboxMessage]) -> list[OutboxMessage]:
    """Those of the messages that may be delivered beside others, whose turn it is first.

    There are never more than a few of one receiver under way, nor of one zone, so that slow ones leave slots
    to others.
    """
    # Who did not answer is asked again with the same messages, as `storage.due` has it.
    chosen = sorted(due, key=lambda row: -row.attempts)
    for whose in (_receiver, _zone):
        turns, taken = [], Counter(map(whose, going))
        for row in chosen:
            taken[whose(row)] += 1
            turns.append((taken[whose(row)], row))
        chosen = [row for turn, row in sorted(turns, key=itemgetter(0)) if turn <= _OF_ONE]
    return chosen


def _receiver(row: OutboxMessage) -> Hashable:
    return row.organization_id, row.zone_id, row.receiver


def _zone(row: OutboxMessage) -> Hashable:
    # A mail has an organization alone, and what has outlived its zone a receiver.
    return row.zone_id or row.organization_id or row.receiver


async def _ended(going: dict[asyncio.Task[int], Any], seconds: float) -> int:
    """Wait until all of these have ended, so long at most. Those that have are taken out; their sum.

    Raises: what one of them raises.
    """
    if not going:
        return 0
    done, _ = await asyncio.wait(going, timeout=seconds)
    total = sum(task.result() for task in done)
    for task in done:
        del going[task]
    return total


async def _cut_off(going: Collection[asyncio.Task[int]]) -> None:
    for task in going:
        task.cancel()
    await asyncio.gather(*going, return_exceptions=True)


def _delay(handler: MessageHandler, attempts: int) -> timedelta:
    """From the start of an attempt to the next one, with jitter so that not all come at once."""
    seconds = min(handler.first_delay_seconds * 2 ** min(attempts - 1, 20), _MAX_DELAY_SECONDS)
    return timedelta(seconds=seconds * random.uniform(1, 1.25))  # noqa: S311 - spreads load, hides nothing


def _place(message_id: str) -> str:
    return f"outbox/{message_id}/payload_sealed"
