"""The rows of the outbox: put in by a write, claimed by moving them on, removed when they are delivered."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import bindparam, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.storage.sql.records import outbox as _outbox


@dataclass(frozen=True, slots=True)
class Row:
    """A letter as it is kept. `attempts`: how often delivery has been begun before."""

    id: str
    organization_id: str | None
    zone_id: str | None
    topic: str
    payload_sealed: bytes
    attempts: int


async def add(
    conn: AsyncConnection,
    letter_id: str,
    *,
    organization_id: str | None,
    zone_id: str | None,
    topic: str,
    payload_sealed: bytes,
    now: datetime,
) -> None:
    """Keep a letter that is due at once."""
    await conn.execute(
        insert(_outbox).values(
            id=letter_id,
            organization_id=organization_id,
            zone_id=zone_id,
            topic=topic,
            payload_sealed=payload_sealed,
            attempts=0,
            next_attempt_at=now,
            created_at=now,
        )
    )


async def due(conn: AsyncConnection, topic: str, *, now: datetime, limit: int) -> list[Row]:
    """Letters of a topic whose time has come, the longest waiting first, locked until the transaction ends.

    What another worker is about to claim is passed over.
    """
    found = await conn.execute(
        select(
            _outbox.c.id,
            _outbox.c.organization_id,
            _outbox.c.zone_id,
            _outbox.c.topic,
            _outbox.c.payload_sealed,
            _outbox.c.attempts,
        )
        .where(_outbox.c.topic == topic, _outbox.c.parked_at.is_(None), _outbox.c.next_attempt_at <= now)
        .order_by(_outbox.c.next_attempt_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    return [Row(**row) for row in found.mappings()]


async def postpone(conn: AsyncConnection, next_attempts: Mapping[str, datetime]) -> None:
    """Claim letters: count an attempt, and say when the next one would be."""
    if next_attempts:
        await conn.execute(
            update(_outbox)
            .where(_outbox.c.id == bindparam("letter"))
            .values(attempts=_outbox.c.attempts + 1, next_attempt_at=bindparam("next")),
            [{"letter": letter, "next": at} for letter, at in next_attempts.items()],
        )


async def remove(conn: AsyncConnection, letter_id: str) -> None:
    """Forget a letter: it has been delivered."""
    await conn.execute(delete(_outbox).where(_outbox.c.id == letter_id))


async def park(conn: AsyncConnection, letter_id: str, *, now: datetime) -> None:
    """Try a letter no more."""
    await conn.execute(update(_outbox).where(_outbox.c.id == letter_id).values(parked_at=now))


async def remove_parked(conn: AsyncConnection, *, before: datetime) -> int:
    """Remove the letters that were parked before that time; how many."""
    return (await conn.execute(delete(_outbox).where(_outbox.c.parked_at < before))).rowcount
