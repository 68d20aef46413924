"""The transactional outbox: messages are added by a write, claimed for delivery, and removed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime

from sqlalchemy import (
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal_column,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.storage.sql.organization_tables import outbox as _outbox

BACKLOG_MOST = 10_000


@dataclass(frozen=True, slots=True)
class OutboxMessage:
    """A message in the outbox. `attempts`: how often delivery was attempted before."""

    id: str
    organization_id: str | None
    zone_id: str | None
    topic: str
    payload_sealed: bytes
    attempts: int
    receiver: str | None


async def add(conn: AsyncConnection, messages: Sequence[OutboxMessage], *, now: datetime) -> None:
    """Add messages that are due at once."""
    times = {"next_attempt_at": now, "created_at": now}
    rows = [{name: getattr(each, name) for name in OutboxMessage.__slots__} | times for each in messages]
    await conn.execute(insert(_outbox), rows)


async def due(conn: AsyncConnection, topic: str, *, now: datetime, limit: int) -> list[OutboxMessage]:
    """Messages of a topic that are due, locked until the transaction ends.

    Zones take turns, and in each zone its receivers do: however many messages wait for one, another's is not
    behind them. Nothing is for a receiver who has a message that was tried and whose time has not come. What
    another worker is about to claim is passed over.
    """
    is_due = and_(_outbox.c.topic == topic, _outbox.c.parked_at.is_(None), _outbox.c.next_attempt_at <= now)
    tried = _outbox.alias("tried")
    is_put_off = exists().where(
        tried.c.parked_at.is_(None),
        tried.c.attempts > literal_column("0"),  # as in the index
        tried.c.zone_id == _outbox.c.zone_id,
        tried.c.receiver == _outbox.c.receiver,
        tried.c.topic == topic,
        tried.c.next_attempt_at > now,
    )
    zone = (_outbox.c.organization_id, _outbox.c.zone_id)
    oldest_first = (_outbox.c.next_attempt_at, _outbox.c.id)
    # Who did not answer is asked again with the same messages, whose times are further and further apart.
    of_receiver = func.row_number().over(
        partition_by=(*zone, _outbox.c.receiver), order_by=(_outbox.c.attempts.desc(), *oldest_first)
    )
    known = (_outbox.c.id, _outbox.c.next_attempt_at, *zone)
    waiting = select(*known, of_receiver.label("of_receiver")).where(is_due, ~is_put_off).subquery()
    of_zone = func.row_number().over(
        partition_by=(waiting.c.organization_id, waiting.c.zone_id),
        order_by=(waiting.c.of_receiver, waiting.c.next_attempt_at, waiting.c.id),
    )
    in_turn = select(waiting.c.id, waiting.c.next_attempt_at, of_zone.label("of_zone")).subquery()
    chosen = select(in_turn.c.id).order_by(in_turn.c.of_zone, in_turn.c.next_attempt_at).limit(limit)
    found = await conn.execute(
        select(*(_outbox.c[each.name] for each in fields(OutboxMessage)))
        .where(_outbox.c.id.in_(chosen), is_due)
        .order_by(*oldest_first)
        .with_for_update(skip_locked=True)
    )
    return [OutboxMessage(**row) for row in found.mappings()]


async def backlog(conn: AsyncConnection) -> tuple[int, int, datetime | None]:
    """How many messages wait, how many are dead, and since when the oldest that waits has been there.

    Of ten thousand messages at most: where there are more, what exactly they are does not matter.
    """
    some = select(_outbox.c.created_at, _outbox.c.parked_at).limit(BACKLOG_MOST).subquery()
    is_dead = some.c.parked_at.is_not(None)
    found = await conn.execute(
        select(is_dead, func.count(), func.min(some.c.created_at, type_=some.c.created_at.type)).group_by(
            is_dead
        )
    )
    counts = {bool(dead): (count, oldest) for dead, count, oldest in found}
    waiting, oldest = counts.get(False, (0, None))
    return waiting, counts.get(True, (0, None))[0], oldest


async def postpone(conn: AsyncConnection, next_attempts: Mapping[str, datetime]) -> None:
    """Claim messages: count an attempt, and set the time of the next one."""
    if next_attempts:
        await conn.execute(
            update(_outbox)
            .where(_outbox.c.id == bindparam("message"))
            .values(attempts=_outbox.c.attempts + 1, next_attempt_at=bindparam("next")),
            [{"message": message, "next": at} for message, at in next_attempts.items()],
        )


async def leave_zone(conn: AsyncConnection, topic: str, *, zone_id: str) -> None:
    """Let messages of a topic that wait belong to no zone and no organization any more."""
    await conn.execute(
        update(_outbox)
        .where(_outbox.c.zone_id == zone_id, _outbox.c.topic == topic, _outbox.c.parked_at.is_(None))
        .values(zone_id=None, organization_id=None)
    )


async def remove(conn: AsyncConnection, message_id: str) -> None:
    """Remove a message that was delivered."""
    await conn.execute(delete(_outbox).where(_outbox.c.id == message_id))


async def dead_letter(conn: AsyncConnection, message_id: str, *, now: datetime) -> None:
    """Dead-letter a message: no more attempts."""
    await conn.execute(update(_outbox).where(_outbox.c.id == message_id).values(parked_at=now))


async def dead_letter_late(conn: AsyncConnection, *, before: datetime, now: datetime) -> int:
    """Dead-letter messages added before that time that their receiver has not accepted; how many."""
    is_late = and_(
        _outbox.c.receiver.is_not(None), _outbox.c.parked_at.is_(None), _outbox.c.created_at < before
    )
    return (await conn.execute(update(_outbox).where(is_late).values(parked_at=now))).rowcount


async def forget_dead_letters(conn: AsyncConnection, *, before: datetime, limit: int) -> int:
    """Forget messages that were dead-lettered before that time; how many, *limit* at most."""
    old = select(_outbox.c.id).where(_outbox.c.parked_at < before).limit(limit)
    return (await conn.execute(delete(_outbox).where(_outbox.c.id.in_(old.subquery().select())))).rowcount
