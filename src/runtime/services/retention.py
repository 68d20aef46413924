"""The retention job: deletes token events, ended sessions and more past their time, in batches."""

import asyncio
from datetime import datetime, timedelta
from typing import Protocol

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.services.container import Services
from runtime.storage.sql import sessions, token_events, tombstones, vault_tokens

JOB = "retention"
TOMBSTONE_DAYS = 365
_BATCH = 1_000
_PAUSE_SECONDS = 0.02  # between two batches: SQLite lets one write at a time
_MOST_BATCHES = 2_000  # of one kind in one run; what is left is for the next


class _Forget(Protocol):
    """Forgets some of what is older than an instant; how many that were, *limit* at most."""

    async def __call__(self, conn: AsyncConnection, *, before: datetime, limit: int) -> int: ...


async def run(services: Services) -> int:
    """Forget token events, sessions, upstream credentials and tombstones past their time; how many."""
    settings, now = services.settings, services.clock()
    gone = 0
    for days, forget in (
        (settings.token_events_days, token_events.forget),
        (settings.ended_sessions_days, sessions.forget_ended),
        (settings.ended_credentials_days, vault_tokens.forget),
        (TOMBSTONE_DAYS, tombstones.forget),
    ):
        if days:
            gone += await _all(services, forget, now - timedelta(days=days))
    return gone


async def _all(services: Services, forget: _Forget, before: datetime) -> int:
    gone = 0
    for _ in range(_MOST_BATCHES):
        async with services.database.transaction() as conn:
            batch = await forget(conn, before=before, limit=_BATCH)
        if not batch:
            break
        gone += batch
        await asyncio.sleep(_PAUSE_SECONDS)
    return gone
