"""Epochs: the numbers that make cached knowledge out of date.

A write bumps the epoch in its own transaction, says before the commit which one is to be expected, and
publishes it afterwards. A reader that finds no epoch, or one that is only expected, asks the database: so
nobody goes by what is out of date because a process ended between commit and publishing.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import Unavailable
from runtime.logs import log
from runtime.storage.sql import exchange as storage
from runtime.storage.sql import revocations
from runtime.storage.state import State

if TYPE_CHECKING:
    from runtime.services.parts import Parts

TTL_SECONDS = 60
EXPECT_SECONDS = 0.5  # others may wait for what the transaction has locked
RETRY_SECONDS = 0.2


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


def told(value: bytes | None) -> int | None:
    """The epoch that the short-lived state has; None where it has none, or one that is only expected."""
    return int(value) if value is not None and value.isdigit() else None


@asynccontextmanager
async def transaction(parts: "Parts") -> AsyncIterator[tuple[AsyncConnection, dict[str, int]]]:
    """A transaction, and where its block puts the epochs that it bumps: every worker hears of them."""
    bumped: dict[str, int] = {}
    async with parts.database.transaction() as conn:
        yield conn, bumped
        await expect(parts.state, bumped)
    await publish(parts.state, bumped)


async def expect(state: State, epochs: Mapping[str, int]) -> None:
    """Let every worker ask the database until it hears of these epochs; the last thing before a commit.

    A state that is away stops no commit: what has to end must be able to.
    """
    try:
        async with asyncio.timeout(EXPECT_SECONDS):
            for key, epoch in epochs.items():
                await state.expect(key, epoch, ttl_seconds=TTL_SECONDS)
    except (Unavailable, TimeoutError) as failure:
        log.warning("epochs cannot be announced", reason=str(failure))


async def publish(state: State, epochs: Mapping[str, int]) -> None:
    """Let every worker hear of these epochs, after the commit that bumped them.

    A state that is away for a moment still has the old ones when it is back, and would vouch for what has
    just been ended. So it is told again until it has heard, or has forgotten the old ones by itself.
    """
    try:
        await remember(state, epochs)
    except Unavailable as failure:
        log.warning("epochs not published yet", reason=failure.internal or failure.detail)
        _owe(state, epochs)
    except asyncio.CancelledError:  # whoever asked has hung up; the commit stands
        _owe(state, epochs)
        raise


async def remember(state: State, epochs: Mapping[str, int]) -> None:
    """Let every worker hear of epochs that were read. Raises Unavailable, which costs nothing but speed:
    readers that find no epoch ask the database.
    """
    for key, epoch in epochs.items():
        await state.raise_to(key, epoch, ttl_seconds=TTL_SECONDS)


@dataclass
class _Debt:
    """What a state has yet to hear: key -> epoch, and until when that matters, on the clock of the loop."""

    epochs: dict[str, tuple[int, float]] = field(default_factory=dict)
    settling: asyncio.Task[None] | None = None


_DEBTS: WeakKeyDictionary[State, _Debt] = WeakKeyDictionary()


def _owe(state: State, epochs: Mapping[str, int]) -> None:
    """Tell the state later, in the background."""
    debt = _DEBTS.setdefault(state, _Debt())
    until = asyncio.get_running_loop().time() + TTL_SECONDS
    for key, epoch in epochs.items():
        debt.epochs[key] = (max(epoch, debt.epochs.get(key, (0, 0.0))[0]), until)
    if debt.settling is None or debt.settling.done():
        debt.settling = asyncio.get_running_loop().create_task(_settle(state, debt.epochs))


async def _settle(state: State, owed: dict[str, tuple[int, float]]) -> None:
    while owed:
        await asyncio.sleep(RETRY_SECONDS)
        for key, (epoch, until) in list(owed.items()):
            if until > asyncio.get_running_loop().time():
                try:
                    await remember(state, {key: epoch})
                except Unavailable:
                    break
            if owed.get(key) == (epoch, until):
                del owed[key]


async def bump_user(conn: AsyncConnection, zone_id: str, user_id: str) -> dict[str, int]:
    """Put out of date what is cached of a user (groups, roles, status, consents).

    The answer is what `transaction` asks for.
    """
    return {user_key(user_id): await storage.bump_user(conn, zone_id, user_id)}


async def revoke_token(
    conn: AsyncConnection, zone_id: str, token_id: str, *, now: datetime, expires_at: datetime
) -> dict[str, int]:
    """Let one token be worth nothing any more: the last thing in a `transaction`, which wants the answer."""
    count = await revocations.add_token(conn, zone_id, token_id, now=now, expires_at=expires_at)
    return {} if count is None else {denials_key(zone_id): count}
