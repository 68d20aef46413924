"""The revocation list of a zone, which resource servers poll that verify tokens by themselves.

A list of what was revoked and could still be taken for good. It is public, as the keys are: anybody may use
it, and nobody learns a name from it. Session and token ids are random; everything else stands there as the
digest that a server makes of the claims in the token at hand.

Signed, it may pass through proxies and caches: none of them can take an entry out or withhold newer ones for
longer than a list is valid.

A tenant decides how long it is, and anybody how often it is asked for. So what a process has written of it
stays written: a new entry costs the work for one entry, and nothing new costs none.
"""

import asyncio
from base64 import urlsafe_b64encode
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

import orjson

from runtime.adapters.keys.signing import Algorithm, SigningKey
from runtime.domain.errors import InvalidRequest
from runtime.domain.oauth.claims import seconds
from runtime.services import cache_sizes
from runtime.services.bounded_cache import BoundedCache
from runtime.services.clock import issued_until
from runtime.services.time_slices import TimeSlice
from runtime.services.zones import CachedZone
from runtime.storage.sql import revocations as storage
from runtime.storage.sql.database import Database
from runtime.storage.sql.revocations import Revocation

JOB = "revocations"
# Entries are stamped before they are committed, by clocks that differ a little: a cursor lags by this much.
OVERLAP = timedelta(seconds=15)
FRESH_SECONDS = 0.5  # how long a worker answers from memory
TYPE = "revocation-list+jwt"
LIFETIME = timedelta(seconds=30)  # of a signed list
# How long a signed list is answered while nothing is new. Readers put up with a `next` that is five seconds
# before the one of another node, whose clock may differ by two.
SIGNED_ANEW = timedelta(seconds=2)
SIGNED_WITH: Algorithm = "ES256"  # every zone has such a key, and an RSA signature takes far longer
# Anybody may choose a cursor, so signed lists begin at few instants: at a full minute, or at the beginning.
_SIGNED_STEP_SECONDS = 60
_SIGNED_STEPS = 10
_PLAIN = ("sid", "jti")
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
# Entries that are read, or written, without a look at the time: some milliseconds of work.
_PAGE = 500
_STEP = 2_000
_TAG_CHARS = 32
# Of all lists of a process, about; the entries of the zone in use are kept beyond it. Each list has all that
# its zone has revoked, in up to a dozen signed copies.
MOST_BYTES = 256 * 1024 * 1024
_ENTRY_BYTES = 350
_NOTED_BYTES = 128 * 1024  # the size of a list is looked at again when it has grown by so much


@dataclass(frozen=True)
class RevocationList:
    """The revocations of a zone since a cursor.

    Attributes:
        revocations: a JSON array of objects of claims: `sid`, `jti`, or with `#S256` the digest of `aud`, of
            `client_id`, or, as `actor`, of anybody in the `act` chain. A token that has all of them is
            revoked; where there is an `issued_until`, only when its `iat` is no later.
        next: the cursor for the next question.
        tag: a digest of the array, so that every process has the same for the same.
    """

    issuer: str
    revocations: bytes
    next: str
    tag: str

    @cached_property
    def body(self) -> bytes:
        """The JSON object of issuer, cursor and array."""
        members = {"issuer": self.issuer, "next": self.next, "revocations": orjson.Fragment(self.revocations)}
        return orjson.dumps(members)


class _Entry(NamedTuple):
    """An entry as it is published, written once. Entries are in the order of these members.

    Attributes:
        at: when it was revoked.
        published: the JSON object.
    """

    at: datetime
    id: str
    forget_at: datetime
    published: bytes


class _Document:
    """A list of what was revoked after an instant. What is settled is written once, what follows each time.

    Attributes:
        changes: of the log, those that it has.
    """

    changes = -1

    def __init__(self, after: datetime = _LONG_AGO) -> None:
        self._after = after
        self._start = self._end = 0  # of what is written, in the log
        self._text = bytearray()

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return len(self._text)

    async def _write_settled(self, log: "_Log") -> bytes:
        """Write what has been settled meanwhile; the entries that follow. It may be left in between."""
        time_slice = TimeSlice()
        if self._start == self._end:
            self._start = self._end = log.place_after(self._after)
        while self._end < log.settled:
            end = min(self._end + _STEP, log.settled)
            self._write(self._following(log.entries[self._end : end]))
            self._end = end
            await time_slice.yield_if_due()
        return self._following(log.entries[self._end :])

    def _following(self, entries: list[_Entry]) -> bytes:
        text = _joined(entries)
        return b"," + text if text and self._end > self._start else text

    def _write(self, text: bytes) -> None:
        self._text += text


class _WholeList(_Document):
    """All entries, as JSON."""

    def __init__(self) -> None:
        super().__init__()
        self._text += b"["
        self._digest = sha256(self._text)
        self._array, self._tag = b"", ""
        self._lists: dict[str, RevocationList] = {}

    @property
    def size(self) -> int:
        return super().size + len(self._array) * (1 + len(self._lists))

    def _write(self, text: bytes) -> None:
        super()._write(text)
        self._digest.update(text)

    async def current(self, log: "_Log", issuer: str, following: str) -> RevocationList:
        """The list as that issuer publishes it, with that cursor; the same one until something changes."""
        if self.changes != log.changes:
            rest = await self._write_settled(log) + b"]"
            digest = self._digest.copy()
            digest.update(rest)
            self._array, self._tag = b"".join((self._text, rest)), digest.hexdigest()[:_TAG_CHARS]
            self._lists.clear()
            self.changes = log.changes
        found = self._lists.get(issuer)
        if found is None or found.next != following:
            found = self._lists[issuer] = RevocationList(issuer, self._array, following, self._tag)
        return found


class _SignedList(_Document):
    """The entries from an instant on, as an issuer signs them.

    The claims that differ each time come last: what precedes them is encoded once.

    Attributes:
        jws: as it was signed last.
        signed_at: on the service's clock.
    """

    jws = b""
    signed_at = _LONG_AGO

    def __init__(self, after: datetime, key: SigningKey, issuer: str) -> None:
        super().__init__(after)
        self._key = key
        self._unencoded = b""  # base64 has groups of three
        header, _, _ = key.signing_input({}, typ=TYPE).partition(b".")
        self._text += header + b"."
        self._write(orjson.dumps({"iss": issuer})[:-1] + b',"revocations":[')

    @property
    def size(self) -> int:
        return super().size + len(self.jws)

    def _write(self, text: bytes) -> None:
        text = self._unencoded + text
        groups = len(text) - len(text) % 3
        self._text += urlsafe_b64encode(text[:groups])
        self._unencoded = text[groups:]

    async def current(self, log: "_Log", now: datetime, **more: str) -> bytes:
        """The JWS, which is signed anew when something has changed, and when it is no longer quite new.

        Args:
            more: claims besides those about time.
        """
        if self.changes != log.changes or abs(now - self.signed_at) >= SIGNED_ANEW:
            rest = await self._write_settled(log)
            times = {"iat": seconds(now), "exp": seconds(now + LIFETIME)}
            end = self._unencoded + rest + b"]," + orjson.dumps(times | more)[1:]
            self.jws = _sign(self._key, self._text, end)
            self.changes, self.signed_at = log.changes, now
        return self.jws


@dataclass
class _Log:
    """The entries of a zone that this process has read, oldest first.

    Attributes:
        read_at: when it last looked, on the service's clock.
        began_at: when it began to look, until it has read everything.
        position: after which instant and entry it goes on then.
        changes: how often entries came or went.
        settled: how many are so old that nothing new precedes them.
        cleared_at: the minute for which expired entries were taken out: each process does so at the same.
        signed: by issuer, key, and where they begin: a dozen for each.
        noted: its size when it was looked at last.
        lock: to be held by whoever uses any of this.
    """

    read_at: datetime | None = None
    began_at: datetime | None = None
    position: tuple[datetime, str] = (_LONG_AGO, "")
    entries: list[_Entry] = field(default_factory=list)
    changes: int = 0
    settled: int = 0
    cleared_at: datetime = _LONG_AGO
    whole: _WholeList = field(default_factory=_WholeList)
    signed: dict[tuple[str, str, datetime], _SignedList] = field(default_factory=dict)
    noted: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def add(self, found: Iterable[tuple[str, Revocation]]) -> None:
        """Put those that are new where they belong, which is at the end unless they come late."""
        for id_, each in found:
            place, key = len(self.entries), (each.at, id_)
            if place and key <= self.entries[-1]:
                place = bisect_left(self.entries, key)
                if self.entries[place][:2] == key:
                    continue
            self.entries.insert(place, _Entry(each.at, id_, each.forget_at, _written(each)))
            self.changes += 1
            if place < self.settled:  # where clocks have jumped
                self._write_anew()

    async def clear(self, minute: datetime) -> None:
        """Take out what has expired."""
        if minute == self.cleared_at:
            return
        time_slice, kept = TimeSlice(), list[_Entry]()
        for first in range(0, len(self.entries), _STEP):
            kept += [each for each in self.entries[first : first + _STEP] if each.forget_at > minute]
            await time_slice.yield_if_due()
        if len(kept) < len(self.entries):
            self.entries = kept
            self.changes += 1
            self._write_anew()
        self.cleared_at = minute

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        written = self.whole.size + sum(each.size for each in self.signed.values())
        return len(self.entries) * _ENTRY_BYTES + written

    def forget_written(self) -> int:
        """Keep the entries alone. Returns how many bytes that frees."""
        before = self.noted
        self._write_anew()
        self.noted = self.size
        return before - self.noted

    def forget_signed(self, excess: int) -> int:
        """Forget so many bytes of signed lists, the oldest first, but for the newest. Returns how many."""
        before = self.noted
        for key, each in sorted(self.signed.items(), key=lambda item: item[1].signed_at)[:-1]:
            if excess > 0:
                del self.signed[key]
                excess -= each.size
        self.noted = self.size
        return before - self.noted

    def _write_anew(self) -> None:
        self.settled, self.whole, self.signed = 0, _WholeList(), {}

    def place_after(self, instant: datetime) -> int:
        """The place of the first entry from after an instant."""
        return bisect_right(self.entries, instant, key=lambda each: each.at)

    def settle(self, until: datetime) -> None:
        """Take what there is from until then for complete."""
        self.settled = max(self.settled, self.place_after(until))

    def signed_from(self, after: datetime, zone: CachedZone, now: datetime) -> _SignedList:
        """The list that a zone signs of what was revoked after an instant."""
        key = zone.signing(SIGNED_WITH)
        wanted = zone.issuer, key.kid, after
        if (found := self.signed.get(wanted)) is None:
            found = _SignedList(after, key, zone.issuer)
            asked_for = {name: each for name, each in self.signed.items() if now - each.signed_at < LIFETIME}
            self.signed = {**asked_for, wanted: found}
        return found


class Revocations:
    """The revocation lists that this process has read, zone by zone; read again after a moment."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self._logs: BoundedCache[_Log] = BoundedCache(cache_sizes.REVOCATION_LISTS)

    async def since(self, zone: CachedZone, cursor: str | None) -> RevocationList:
        """What was revoked in a zone since a cursor, or all of it that still matters.

        A cursor of more than ten minutes ago gets all of it, too: that is written already.
        Raises: InvalidRequest for a cursor that was not handed out.
        """
        asked = _read_cursor(cursor)
        async with self._read(zone.id) as (log, now):
            start = log.place_after(asked)
            if start == 0 or _signed_from(asked, now) == _LONG_AGO:
                return await log.whole.current(log, zone.issuer, _cursor_at(now))
            array = b"[%b]" % _joined(log.entries[start:])
        return RevocationList(zone.issuer, array, _cursor_at(now), sha256(array).hexdigest()[:_TAG_CHARS])

    async def signed_since(self, zone: CachedZone, cursor: str | None) -> bytes:
        """The same as a JWS. What was revoked in the minute before the cursor is in it, too.

        Its claims are those of `RevocationList`, with `iss` for the issuer, `iat`, `exp`, and, as `since`,
        the cursor at which it begins; that of the whole list has none. It is signed once for all who ask.
        Raises: InvalidRequest for a cursor that was not handed out; Unavailable.
        """
        asked = _read_cursor(cursor)
        async with self._read(zone.id) as (log, now):
            after = _signed_from(asked, now)
            begins = {} if after == _LONG_AGO else {"since": str(seconds(after))}
            signed = log.signed_from(after, zone, now)
            return await signed.current(log, now, **begins, next=_cursor_at(now))

    @asynccontextmanager
    async def _read(self, zone_id: str) -> AsyncIterator[tuple[_Log, datetime]]:
        """The zone's log for oneself, and the present; after a moment what is new is read."""
        if (log := self._logs.get(zone_id)) is None:
            log = _Log()
            self._logs[zone_id] = log
        async with log.lock:
            try:
                now = self._clock()
                if log.began_at is not None:  # whoever began has gone
                    await self._read_on(zone_id, log)
                if log.read_at is None or abs((now - log.read_at).total_seconds()) >= FRESH_SECONDS:
                    await self._read_anew(zone_id, log, now)
                yield log, now
            finally:  # what was read for somebody who has gone takes room, too
                self._make_room(log)

    def _make_room(self, used: _Log) -> None:
        """Forget what takes too much memory: the database has it.

        The list in use gives first: a long one costs other zones nothing that it can give itself.
        """
        size = used.size
        if used.noted <= size < used.noted + _NOTED_BYTES:
            return
        used.noted = size
        excess = sum(each.noted for each in self._logs.values()) - MOST_BYTES
        if excess <= 0:
            return
        excess -= used.forget_signed(excess)
        others = [item for item in self._logs.items() if not item[1].lock.locked()]
        others.sort(key=lambda item: item[1].noted, reverse=True)
        for _, each in others:
            excess -= each.forget_written() if excess > 0 else 0
        for zone_id, each in others:
            if excess > 0 and (each.noted >= used.noted or used.noted <= MOST_BYTES // 2):
                excess -= each.noted
                del self._logs[zone_id]

    async def _read_anew(self, zone_id: str, log: _Log, now: datetime) -> None:
        """Read what has come since the last time, and late ones from some seconds before."""
        start: datetime | None = _LONG_AGO if log.read_at is None else log.read_at - OVERLAP
        if log.read_at is not None and now - log.read_at < OVERLAP:
            start = await self._first_change(zone_id, log, log.read_at - OVERLAP, now)
        if start is None:
            log.read_at = now
        else:
            log.began_at, log.position = now, (start, "")
            await self._read_on(zone_id, log)
        await log.clear(_minute(now))
        log.settle(now - OVERLAP)

    async def _first_change(self, zone_id: str, log: _Log, after: datetime, now: datetime) -> datetime | None:
        """The first instant with entries that are not known. Those that are known are counted, not read."""
        async with self._database.querying() as conn:
            counts = await storage.counts_since(conn, zone_id, after, now=_minute(now))
        known = Counter(each.at for each in log.entries[log.place_after(after) :])
        return min((at for at, count in counts.items() if count != known[at]), default=None)

    async def _read_on(self, zone_id: str, log: _Log) -> None:
        """Read page by page until there is no more. Whoever goes in between leaves the rest to the next."""
        time_slice = TimeSlice()
        while log.began_at is not None:
            after, after_id = log.position
            async with self._database.querying() as conn:
                found = await storage.since(
                    conn, zone_id, after, after_id=after_id, limit=_PAGE, now=_minute(log.began_at)
                )
            log.add(found)
            if len(found) < _PAGE:
                log.read_at, log.began_at = log.began_at, None
            else:
                log.position = found[-1][1].at, found[-1][0]
            await time_slice.yield_if_due()

    async def prune(self) -> int:
        """Delete the entries whose tokens had expired at the full minute, as in lists; the number of rows."""
        async with self._database.transaction() as conn:
            return await storage.prune(conn, now=_minute(self._clock()))


def _written(revocation: Revocation) -> bytes:
    """The JSON object. It is copied: what orjson makes keeps 4 KiB of memory, however short it is."""
    return bytes(memoryview(orjson.dumps(_published(revocation))))


def _joined(entries: list[_Entry]) -> bytes:
    return b",".join([each.published for each in entries])


def _sign(key: SigningKey, begun: bytearray, end: bytes) -> bytes:
    """The JWS of a signing input that has begun, and of what its payload ends in."""
    signed = b"".join((begun, _base64url(end)))
    return b"%b.%b" % (signed, _base64url(key.signature(signed)))


def _base64url(value: bytes) -> bytes:
    return urlsafe_b64encode(value).rstrip(b"=")


def _signed_from(asked: datetime, now: datetime) -> datetime:
    """Where the signed list begins that answers a cursor: at it, or less than a minute before."""
    latest = seconds(now) // _SIGNED_STEP_SECONDS
    step = min(seconds(asked) // _SIGNED_STEP_SECONDS, latest)
    if step <= latest - _SIGNED_STEPS:
        return _LONG_AGO
    return datetime.fromtimestamp(step * _SIGNED_STEP_SECONDS, UTC)


def _cursor_at(now: datetime) -> str:
    return str(int((now - OVERLAP).timestamp()))


def _minute(now: datetime) -> datetime:
    return now.replace(second=0, microsecond=0)


def digest(value: str) -> str:
    """The base64url SHA-256 of a claim's value, as entries have it."""
    return _base64url(sha256(value.encode()).digest()).decode("ascii")


def _published(entry: Revocation) -> dict[str, Any]:
    """One entry as it is published. A session or a token that has ended never comes back; the rest may."""
    told: dict[str, Any] = {
        name if name in _PLAIN else f"{name}#S256": value if name in _PLAIN else digest(value)
        for name, value in entry.claims.items()
    }
    return told if told.keys() <= set(_PLAIN) else {**told, "issued_until": issued_until(entry.at)}


def _read_cursor(since: str | None) -> datetime:
    if since is None:
        return _LONG_AGO
    if not since.isascii() or not since.isdigit() or len(since) > 11:
        raise InvalidRequest("`since` is not a cursor of this list")
    return datetime.fromtimestamp(int(since), UTC)
