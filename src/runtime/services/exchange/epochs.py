"""Epochs: the numbers that make cached knowledge out of date.

A write bumps the epoch in its own transaction and publishes it after the commit. A reader that finds no
published epoch asks the database; so what a crash or a lost key leaves unpublished heals within the life
of an epoch's entry.
"""

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import Unavailable
from runtime.logs import log
from runtime.storage.sql import exchange as storage
from runtime.storage.sql import revocations
from runtime.storage.state import State

TTL_SECONDS = 60


def zone_key(zone_id: str) -> str:
    """Where the short-lived state keeps a zone's epoch."""
    return f"epoch:zone:{zone_id}"


def denials_key(zone_id: str) -> str:
    """Where the short-lived state keeps how many single tokens of a zone were revoked."""
    return f"epoch:denials:{zone_id}"


def user_key(user_id: str) -> str:
    """Where the short-lived state keeps a user's epoch."""
    return f"epoch:user:{user_id}"


def session_key(session_id: str) -> str:
    """Where the short-lived state keeps a session's epoch."""
    return f"epoch:session:{session_id}"


async def publish(state: State, epochs: Mapping[str, int]) -> None:
    """Let every worker hear of these epochs: after the commit that bumped them, or after reading them.

    A state that is away costs nothing but speed: readers that find no epoch ask the database.
    """
    try:
        for key, epoch in epochs.items():
            await state.raise_to(key, epoch, ttl_seconds=TTL_SECONDS)
    except Unavailable as failure:
        log.warning("epochs not published", reason=failure.internal or failure.detail)


async def bump_user(conn: AsyncConnection, zone_id: str, user_id: str) -> dict[str, int]:
    """Put out of date what is cached of a user (groups, roles, status, consents).

    The answer is for `publish`, once the transaction has committed.
    """
    return {user_key(user_id): await storage.bump_user(conn, zone_id, user_id)}


async def revoke_token(
    conn: AsyncConnection, zone_id: str, token_id: str, *, now: datetime, expires_at: datetime
) -> dict[str, int]:
    """Let one token be worth nothing any more; the last thing in a transaction, for `publish` after it."""
    count = await revocations.add_token(conn, zone_id, token_id, now=now, expires_at=expires_at)
    return {} if count is None else {denials_key(zone_id): count}
