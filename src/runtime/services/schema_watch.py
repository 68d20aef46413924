"""Watches that this process may still serve its database: a newer program can migrate it meanwhile.

A migration that breaks programs of before says so in the database. From when this process reads that, it asks
the database for nothing else, as if it were away: what it would write, the newer program could not use, and
what it would read may mean something else by now. Nothing is lost: what is queued is written, or logged when
the process ends.
"""

import asyncio
from contextlib import suppress

from sqlalchemy.exc import DBAPIError

from runtime.domain.errors import Unavailable
from runtime.logs import log
from runtime.storage.sql import migrate
from runtime.storage.sql.database import Database

EVERY_SECONDS = 5.0


async def check(database: Database) -> None:
    """Look whether this process may serve the database, from now on too. Raises Unavailable where not."""
    async with database.watching(though_refused=True) as conn:
        refusal = await migrate.refusal(conn)
    before, database.refusal = database.refusal, refusal
    if before is None and refusal is not None:
        log.error("the database is not served any more", reason=refusal.internal)
    if before is not None and refusal is None:
        log.warning("the database is served again")
    if refusal is not None:
        raise refusal


class SchemaWatch:
    """The loop that looks, for a process that no balancer asks."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look from now on, in the background."""
        self._loop = asyncio.create_task(self._run(), name="schema watch")

    async def stop(self) -> None:
        """Look no more."""
        if self._loop is not None:
            self._loop.cancel()
            with suppress(asyncio.CancelledError):
                await self._loop

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            with suppress(DBAPIError, OSError, Unavailable):  # which requests and readiness tell
                await check(self._database)
