"""The revocation list of a zone, which resource servers poll that verify tokens by themselves.

A list of what was revoked and could still be taken for good. It is public, as the keys are: anybody may use
it, and nobody learns a name from it. Session and token ids are random; everything else stands there as the
digest that a server makes of the claims in the token at hand.

Signed, it may pass through proxies and caches: none of them can take an entry out or withhold newer ones for
longer than a list is valid.
"""

import asyncio
from base64 import urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import orjson

from runtime.adapters.keys.signing import Algorithm
from runtime.domain.errors import InvalidRequest
from runtime.domain.oauth.claims import seconds
from runtime.services import cache_sizes
from runtime.services.bounded_cache import BoundedCache
from runtime.services.clock import issued_until
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
SIGNED_WITH: Algorithm = "ES256"  # every zone has such a key, and an RSA signature takes far longer
# Anybody may choose a cursor, so signed lists begin at few instants: at a full minute, or at the beginning.
_SIGNED_STEP_SECONDS = 60
_SIGNED_STEPS = 10
_PLAIN = ("sid", "jti")
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class RevocationList:
    """The revocations of a zone since a cursor.

    Attributes:
        revocations: a JSON array of objects of claims: `sid`, `jti`, or with `#S256` the digest of `aud`, of
            `client_id`, or, as `actor`, of anybody in the `act` chain. A token that has all of them is
            revoked; where there is an `issued_until`, only when its `iat` is no later.
        next: the cursor for the next question.
    """

    issuer: str
    revocations: bytes
    next: str

    def body(self) -> bytes:
        """The JSON object of all three."""
        members = {"issuer": self.issuer, "next": self.next, "revocations": orjson.Fragment(self.revocations)}
        return orjson.dumps(members)


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry as it is published, written once: anybody may ask, as often as they like.

    Attributes:
        at: when it was revoked.
        published: the JSON object.
    """

    at: datetime
    forget_at: datetime
    published: bytes


@dataclass
class _Log:
    """The entries of a zone that this process has read, oldest first.

    Attributes:
        read_at: when it last looked, on the service's clock.
        signed: the lists that were signed since then, by issuer and where they begin: a dozen for each.
    """

    read_at: datetime | None = None
    entries: dict[str, _Entry] = field(default_factory=dict)
    instants: list[datetime] = field(default_factory=list)
    published: list[bytes] = field(default_factory=list)
    signed: dict[tuple[str, datetime], str] = field(default_factory=dict)
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)


class Revocations:
    """The revocation lists that this process has read, zone by zone; read again after a moment."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self._logs: BoundedCache[_Log] = BoundedCache(cache_sizes.REVOCATION_LISTS)

    async def since(self, zone: CachedZone, cursor: str | None) -> RevocationList:
        """What was revoked in a zone since a cursor, or all of it that still matters.

        Raises: InvalidRequest for a cursor that was not handed out.
        """
        after, now = _read_cursor(cursor), self._clock()
        log = await self._log(zone.id, now)
        return RevocationList(zone.issuer, _told(log, after), _cursor_at(now))

    async def signed_since(self, zone: CachedZone, cursor: str | None) -> str:
        """The same as a JWS. What was revoked in the minute before the cursor is in it, too.

        Its claims are those of `RevocationList`, with `iss` for the issuer, `iat`, `exp`, and, as `since`,
        the cursor at which it begins; that of the whole list has none. It is signed once for all who ask.
        Raises: InvalidRequest for a cursor that was not handed out; Unavailable.
        """
        asked, now = _read_cursor(cursor), self._clock()
        log = await self._log(zone.id, now)
        after = _signed_from(asked, now)
        if (found := log.signed.get((zone.issuer, after))) is None:
            found = log.signed[zone.issuer, after] = _sign(zone, log, after, now)
        return found

    async def _log(self, zone_id: str, now: datetime) -> _Log:
        """The zone's log, read again when that is a moment ago: only what is new travels."""
        if (log := self._logs.get(zone_id)) is None:
            log = _Log()
            self._logs[zone_id] = log
        async with log.reading:
            if log.read_at is None or abs((now - log.read_at).total_seconds()) >= FRESH_SECONDS:
                after = _LONG_AGO if log.read_at is None else log.read_at - OVERLAP
                async with self._database.querying() as conn:
                    found = await storage.since(conn, zone_id, after, now=now)
                _merge(log, found, now)
                log.read_at = now
                log.signed.clear()
        return log

    async def prune(self) -> int:
        """Delete the entries whose tokens have expired by now; the number of rows."""
        async with self._database.transaction() as conn:
            return await storage.prune(conn, now=self._clock())


def _merge(log: _Log, found: Sequence[tuple[str, Revocation]], now: datetime) -> None:
    """Add what is new to a log, and take out what is over."""
    new = {id_: each for id_, each in found if id_ not in log.entries}
    over = [id_ for id_, each in log.entries.items() if each.forget_at <= now]
    if not new and not over:
        return
    for id_ in over:
        del log.entries[id_]
    for id_, each in new.items():
        log.entries[id_] = _Entry(each.at, each.forget_at, orjson.dumps(_published(each)))
    log.entries = dict(sorted(log.entries.items(), key=lambda item: item[1].at))
    log.instants = [each.at for each in log.entries.values()]
    log.published = [each.published for each in log.entries.values()]


def _told(log: _Log, after: datetime) -> bytes:
    """The JSON array of what was revoked after an instant."""
    return b"[" + b",".join(log.published[bisect_right(log.instants, after) :]) + b"]"


def _sign(zone: CachedZone, log: _Log, after: datetime, now: datetime) -> str:
    claims = {
        "iss": zone.issuer,
        "iat": seconds(now),
        "exp": seconds(now + LIFETIME),
        **({} if after == _LONG_AGO else {"since": str(seconds(after))}),
        "next": _cursor_at(now),
        "revocations": orjson.Fragment(_told(log, after)),
    }
    return zone.signing(SIGNED_WITH).sign(claims, typ=TYPE)


def _signed_from(asked: datetime, now: datetime) -> datetime:
    """Where the signed list begins that answers a cursor: at it, or less than a minute before."""
    latest = seconds(now) // _SIGNED_STEP_SECONDS
    step = min(seconds(asked) // _SIGNED_STEP_SECONDS, latest)
    if step <= latest - _SIGNED_STEPS:
        return _LONG_AGO
    return datetime.fromtimestamp(step * _SIGNED_STEP_SECONDS, UTC)


def _cursor_at(now: datetime) -> str:
    return str(int((now - OVERLAP).timestamp()))


def digest(value: str) -> str:
    """The base64url SHA-256 of a claim's value, as entries have it."""
    return urlsafe_b64encode(sha256(value.encode()).digest()).rstrip(b"=").decode("ascii")


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
