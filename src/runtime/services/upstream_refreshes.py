"""Refreshes of upstream tokens that this process has under way, and the uses that it has noted.

A refresh belongs to no request: a provider that rotates refresh tokens has ended the former one when it
answers, so whoever asked for the refresh may be gone by then, and what came is stored all the same.
Among processes, the lease in `vault.refresh` lets one of them refresh a token.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from cachetools import TTLCache
from sqlalchemy.exc import DBAPIError

from runtime.domain.errors import Unavailable
from runtime.logs import throttled_warnings
from runtime.storage.sql import vault_tokens
from runtime.storage.sql.database import Database
from runtime.storage.sql.vault_tokens import VaultPlace, VaultRecord

CLOSE_SECONDS = 20.0  # for what is under way when the process ends
MOST_NOTED = 20_000
NOTED_SECONDS = 600.0  # a use is noted again after that
MOST_UNWRITTEN = 5_000
WRITE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Postponed:
    """There are no new tokens now; it is worth asking again after so many seconds."""

    seconds: int


# The row with new tokens; None when there is nothing to refresh any more, and the user is asked.
RefreshOutcome = VaultRecord | Postponed | None


class UpstreamRefreshes:
    """At most one refresh for each grant in this process; those who come meanwhile wait for the same."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self._tasks: dict[VaultPlace, asyncio.Task[RefreshOutcome]] = {}
        self._noted: TTLCache[tuple[str, str], bool] = TTLCache(MOST_NOTED, NOTED_SECONDS)
        self._unwritten: set[tuple[str, str]] = set()
        self._writer: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._tasks)

    def start(
        self, place: VaultPlace, work: Callable[[], Awaitable[RefreshOutcome]]
    ) -> tuple[asyncio.Task[RefreshOutcome], bool]:
        """The refresh under way, and whether it began just now. Whoever awaits the task shields it."""
        if (running := self._tasks.get(place)) is not None:
            return running, False

        async def run() -> RefreshOutcome:
            return await work()

        task = asyncio.get_running_loop().create_task(run(), name="upstream refresh")
        self._tasks[place] = task
        task.add_done_callback(lambda _: self._ended(place, task))
        return task, True

    def note_use(self, zone_id: str, row_id: str) -> None:
        """Have it kept that a credential was handed out: what nobody uses is not refreshed ahead.

        Once in ten minutes for each credential, so the requests that get it need no database for it.
        """
        use = (zone_id, row_id)
        if use in self._noted or len(self._unwritten) >= MOST_UNWRITTEN:
            return
        self._noted[use] = True
        self._unwritten.add(use)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(self._write_uses())

    async def _write_uses(self) -> None:
        while self._unwritten:
            await asyncio.sleep(WRITE_SECONDS)
            used, self._unwritten = self._unwritten, set()
            with suppress(DBAPIError, OSError, Unavailable):  # it costs a refresh ahead of its time
                async with self._database.transaction() as conn:
                    await vault_tokens.note_used(conn, used, now=self._clock())

    def _ended(self, place: VaultPlace, task: asyncio.Task[RefreshOutcome]) -> None:
        self._tasks.pop(place, None)
        if not task.cancelled() and (failure := task.exception()) is not None:
            # Those who wait for it are told; that is nobody where the present token was handed out.
            throttled_warnings.warn(
                "an upstream token was not refreshed", reason=_named(failure), zone_id=place.zone_id
            )

    async def close(self) -> None:
        """Wait for what is under way, so that no token is lost that a provider has rotated."""
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)
        if tasks := list(self._tasks.values()):
            await asyncio.wait(tasks, timeout=CLOSE_SECONDS)


def _named(failure: BaseException) -> str:
    return type(failure).__name__
