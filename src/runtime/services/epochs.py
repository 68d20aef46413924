"""Epochs: the numbers that make cached knowledge out of date.

A write bumps the epoch in its own transaction, and notes there that it has. After the commit it publishes the
new one to the short-lived state, which every request asks anyway: so the others know at once.

That is for speed. What the state says may be old: it may have refused the write, or have been out of reach
for the writer alone, or be another one by now, which lags behind. So every process that is at work reads the
notes in the database twice a second, and what the state says counts only beside a reading that is no older
than a second. Whoever cannot read them vouches for nothing. On SQLite a process sees that another one has
committed, a `zoned` command for example, and reads at once.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from math import inf
from time import monotonic

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import Unavailable
from runtime.logs import log, outage_warnings
from runtime.services.clock import Clock
from runtime.storage.sql import epochs as epoch_changes
from runtime.storage.sql import revocations, zone_changes
from runtime.storage.sql import zone_data as storage
from runtime.storage.sql.database import Database
from runtime.storage.state import StateStore

JOB = "epochs"
TTL_SECONDS = 60  # of what is published
RECENT_SECONDS = 1.0  # a reading older than this vouches for nothing
READ_EVERY_SECONDS = 0.4
WATCH_EVERY_SECONDS = 0.1  # for commits of others, where the database tells of them
LINGER_SECONDS = 10.0  # a process that nobody asks for so long stops reading
READ_TIMEOUT_SECONDS = 2.0
PUBLISH_TIMEOUT_SECONDS = 0.5
HELD_SECONDS = 600.0  # the longest that anybody may hold what was read, beside epochs that say it stands
KEPT_SECONDS = 1200  # of notes in the database
MOST_MOVED = 200_000
MOST_ANSWERED = 20_000
_STATE_AWAY = "Redis is not available: requests are answered from the database, and nobody can sign in"


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


class Epochs:
    """Epochs of zones, users and sessions: read to revalidate cached data, published after each change.

    Attributes:
        generation: increases when changes may have been missed: after a long pause, or when the database was
            restored to an earlier state. Data cached under an earlier generation must be read again.
    """

    def __init__(self, database: Database, state: StateStore, clock: Clock) -> None:
        self._database = database
        self._state = state
        self._clock = clock
        self._moved = _Moved()
        self._seen: str | None = None
        self._known: str | None = None  # the id of the newest change that this process has read or written
        self._seen_at = 0.0  # on the database's clock
        self._read_at = -inf
        self._version: int | None = None  # of the database, before the latest reading
        self._away_since: float | None = None  # since when the state has not answered
        self._asked_at = -inf
        self._answered: dict[tuple[str, ...], list[int | None]] = {}
        self._answered_as_of: tuple[float, int | None] = (-inf, None)
        self._reading: asyncio.Task[None] | None = None
        self._following: asyncio.Task[None] | None = None
        self.generation = 0

    @property
    def read_at(self) -> float:
        """When the latest reading began, on the monotonic clock: all that was noted before is known."""
        return self._read_at

    async def begin(self) -> None:
        """Start reading epoch changes; must run before anything is cached that they could invalidate."""
        if self._seen is None:
            await self._read()

    async def latest(
        self, names: tuple[str, ...], *, also: str | None = None
    ) -> tuple[list[int | None], bytes | None]:
        """The latest epochs of these names, at most a second old, and the value under the key *also*.

        One round trip to the short-lived state. An epoch is None when the state does not have it, and all are
        when it is unavailable: then read them from the database.

        Raises: Unavailable when the epoch changes cannot be read.
        """
        if also is None and (answer := self._answer(names)) is not None:
            await self.recent()
            if self._answer(names) is answer:
                return answer, None
        try:
            fetched = await self._state.fetch([*names, also] if also is not None else names)
        except Unavailable as failure:
            outage_warnings.warn(_STATE_AWAY, reason=failure.detail, cause=failure.internal)
            self._away_since = self._away_since or monotonic()
            fetched = [None] * (len(names) + 1)
        else:
            if self._away_since is not None:
                log.info("Redis answers again", after_seconds=round(monotonic() - self._away_since, 1))
                self._away_since = None
        await self.recent()
        known = [self._newest(*each) for each in zip(names, fetched, strict=False)]
        self._remember_answer(names, known)
        return known, fetched[-1] if also is not None else None

    def _answer(self, names: tuple[str, ...]) -> list[int | None] | None:
        """What was answered before, if nothing was written to the state or read from the database since."""
        if self._answered_as_of != (self._read_at, self._state.version):
            return None
        return self._answered.get(names)

    def _remember_answer(self, names: tuple[str, ...], known: list[int | None]) -> None:
        """Keep an answer, where nobody but this process can write another one to the state."""
        version = self._state.version
        if version is None or None in known:
            return
        if self._answered_as_of != (self._read_at, version) or len(self._answered) >= MOST_ANSWERED:
            self._answered, self._answered_as_of = {}, (self._read_at, version)
        self._answered[names] = known

    async def recent(self) -> None:
        """Read the epoch changes and the database's clock if the last reading is old. Raises Unavailable."""
        asked_at = self._asked_at = monotonic()
        while asked_at - self._read_at > RECENT_SECONDS:  # a reading that was under way may be old already
            await self._read()
        if self._following is None or self._following.done():
            self._following = asyncio.get_running_loop().create_task(self._follow())

    async def observe(self) -> None:
        """Read the epoch changes, if the last reading is old, without being a reason to go on reading.

        Raises: Unavailable.
        """
        if self._seen is not None and monotonic() - self._read_at > READ_EVERY_SECONDS:
            await self._read()

    def has_moved(self, key: str, epoch: int) -> bool:
        """Whether a newer epoch than this is known to this process."""
        return self._moved.to(key) > epoch

    @asynccontextmanager
    async def transaction(
        self, *, tenant: str | None = None
    ) -> AsyncIterator[tuple[AsyncConnection, dict[str, int]]]:
        """A transaction, and a dict for the epochs that its block bumps, published after the commit.

        Args:
            tenant: as `Database.transaction` has it.
        """
        bumped: dict[str, int] = {}
        async with self._database.transaction(tenant=tenant) as conn:
            yield conn, bumped
            noted = await self.record_changes(conn, bumped)
        await self.publish(bumped, noted=noted)

    async def prune(self) -> int:
        """Delete the changes of epochs and of zones that every process has read; the number of rows."""
        async with self._database.transaction() as conn:
            kept = {"older_than_seconds": KEPT_SECONDS}
            return await epoch_changes.prune(conn, **kept) + await zone_changes.prune(conn, **kept)

    async def record_changes(self, conn: AsyncConnection, epochs: Mapping[str, int]) -> str | None:
        """Record these epochs, as the last statement of the transaction that bumps them.

        What it has revoked counts from then on: nobody else has known before.

        Returns the id of the change, for `publish`.
        """
        await revocations.postpone(conn, now=self._clock())
        return await epoch_changes.record_changes(conn, epochs) if epochs else None

    async def publish(self, epochs: Mapping[str, int], *, noted: str | None = None) -> None:
        """Publish these epochs to all processes, after the commit that bumped them.

        When the state is unavailable, the others read them from the database, within a second.

        Args:
            noted: the result of `record_changes`.
        """
        self._moved.learn(epochs)
        self._answered.clear()
        self._known = noted or self._known
        try:
            async with asyncio.timeout(PUBLISH_TIMEOUT_SECONDS):
                await self._state.raise_all(epochs, ttl_seconds=TTL_SECONDS)
        except (Unavailable, TimeoutError) as failure:
            reason = (failure.internal or failure.detail) if isinstance(failure, Unavailable) else "no answer"
            log.warning("epochs not published: other processes read them within a second", reason=reason)

    async def remember(self, epochs: Mapping[str, int]) -> None:
        """Write epochs that were just read from the database to the short-lived state."""
        with suppress(Unavailable):
            await self._state.raise_all(epochs, ttl_seconds=TTL_SECONDS)

    async def close(self) -> None:
        """Stop reading epoch changes."""
        tasks = [task for task in (self._following, self._reading) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _newest(self, key: str, value: bytes | None) -> int | None:
        """The epoch of the state, or a greater one from an epoch change; None when the state has none."""
        if value is None or not value.isdigit():
            return None
        published, moved = int(value), self._moved.to(key)
        return published if published > moved else moved

    async def _follow(self) -> None:
        """Read epoch changes periodically, until there was no request for a while."""
        while monotonic() - self._asked_at < LINGER_SECONDS:
            await self._wait()
            with suppress(Unavailable):  # the next request gets the error
                await self._read()

    async def _wait(self) -> None:
        """Wait until it is time to read again: sooner where the database tells of a commit since."""
        if self._version is None:
            await asyncio.sleep(READ_EVERY_SECONDS)
            return
        due = monotonic() + READ_EVERY_SECONDS
        while True:
            await asyncio.sleep(WATCH_EVERY_SECONDS)
            if self._database.version() != self._version or monotonic() >= due:
                return

    async def _read(self) -> None:
        """Read epoch changes; concurrent callers share one query. Raises Unavailable."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.get_running_loop().create_task(self._read_once())
        await asyncio.shield(self._reading)

    async def _read_once(self) -> None:
        began_at, known = monotonic(), self._known
        self._version = self._database.version()
        try:
            async with asyncio.timeout(READ_TIMEOUT_SECONDS), self._database.watching() as conn:
                asked_at = self._clock.system()
                noted = await epoch_changes.read_changes(conn, self._seen, known)
                self._clock.compare(noted.at, asked_at=asked_at, answered_at=self._clock.system())
        except TimeoutError:
            raise Unavailable("the database does not answer", internal="no reading of epochs") from None
        self._moved.learn(noted.epochs)
        is_late = self._seen is not None and noted.at - self._seen_at > KEPT_SECONDS / 2
        if not noted.is_complete:
            log.warning(
                "the database was restored to an earlier state: the cached data of this process is reloaded"
            )
        if is_late or not noted.is_complete or self._moved.is_full:
            self._moved = _Moved()
            self.generation += 1
        if self._known == known:  # else this process has written a newer one meanwhile
            self._known = noted.newest
        self._seen, self._seen_at, self._read_at = noted.seen, noted.at, began_at


class RevalidationWindow:
    """When some data was read, and until when epochs can revalidate it."""

    def __init__(self, epochs: Epochs, generation: int) -> None:
        """Args:
        generation: of the epochs, taken before the data was read.
        """
        self._epochs = epochs
        self._generation = generation
        self._read_at = monotonic()

    def is_followed(self) -> bool:
        """Whether epochs can still revalidate the data; otherwise it must be read again."""
        return not self.has_missed_changes() and monotonic() - self._read_at < HELD_SECONDS

    def has_missed_changes(self) -> bool:
        """Whether changes may have been missed since, whatever the epochs say."""
        return self._generation != self._epochs.generation


class _Moved:
    """Recently bumped epochs, remembered for as long as older data may be cached."""

    def __init__(self) -> None:
        self._newer: dict[str, int] = {}
        self._older: dict[str, int] = {}
        self._turned_at = monotonic()

    @property
    def is_full(self) -> bool:
        """Whether the bound is exceeded."""
        return len(self._newer) > MOST_MOVED

    def learn(self, epochs: Mapping[str, int]) -> None:
        """Remember these epochs."""
        if monotonic() - self._turned_at > HELD_SECONDS * 1.5:  # longer than a request takes, besides
            self._newer, self._older, self._turned_at = {}, self._newer, monotonic()
        for key, epoch in epochs.items():
            self._newer[key] = max(epoch, self.to(key))

    def to(self, key: str) -> int:
        """The newest known epoch of that name; 0 when it was not bumped recently."""
        newer, older = self._newer.get(key, 0), self._older.get(key, 0)
        return newer if newer > older else older


async def bump_user(conn: AsyncConnection, zone_id: str, user_id: str) -> dict[str, int]:
    """Invalidate what is cached of a user: groups, roles, status, consents.

    Returns the bumped epoch, for `Epochs.transaction`.
    """
    return {user_key(user_id): await storage.bump_user(conn, zone_id, user_id)}


async def revoke_token(
    conn: AsyncConnection, zone_id: str, token_id: str, *, now: datetime, expires_at: datetime
) -> dict[str, int]:
    """Revoke one token, as the last statement of an `Epochs.transaction`, which publishes the answer."""
    count = await revocations.add_token(conn, zone_id, token_id, now=now, expires_at=expires_at)
    return {} if count is None else {denials_key(zone_id): count}
