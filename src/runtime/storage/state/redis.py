"""Short-lived state in Redis, shared by all workers and nodes."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import OutOfMemoryError, ReadOnlyError, RedisError, ResponseError

from runtime.domain.errors import Unavailable
from runtime.metrics import STATE_BREAKER, STATE_SECONDS, STATE_SKIPPED
from runtime.storage.batching import RequestBatcher
from runtime.storage.state.circuit_breaker import CircuitBreaker, answered_within
from runtime.storage.state.protocol import FORGOTTEN

# Decimal numbers without sign: the longer one is greater, so that no epoch is rounded to a float. A smaller
# one leaves the greater its lifetime: one that is ahead of a database that was set back has to end.
_RAISE_ALL = """
for n = 1, #KEYS do
  local there, wanted = redis.call('GET', KEYS[n]) or '0', ARGV[n]
  if not string.match(there, '^%d+$') or #there < #wanted or (#there == #wanted and there <= wanted) then
    redis.call('SET', KEYS[n], wanted, 'EX', ARGV[#KEYS + 1])
  end
end
"""
# As many keys to read as the first argument says, then keys to write, each with a value and a lifetime. Why
# Redis has refused to write one is told in its place.
_FETCH_AND_PUT = """
local reads, told = tonumber(ARGV[1]), {}
for n = 1, reads do told[n] = redis.call('GET', KEYS[n]) end
for n = reads + 1, #KEYS do
  local place = 2 * (n - reads)
  local put = redis.pcall('SET', KEYS[n], ARGV[place], 'EX', ARGV[place + 1])
  told[n] = put.err or false
end
return told
"""
# What is written belongs to a history. Another one begins when a server starts, and when a replica takes
# over, for either may lack what was written last.
_HISTORY = """
local history = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
"""
# Each key with a value and a lifetime.
_KEEP = f"""
{_HISTORY}
for n = 1, #KEYS do redis.call('SET', KEYS[n], history .. ARGV[2 * n - 1], 'EX', ARGV[2 * n]) end
"""
# What was kept in another history may have been taken in it.
_TAKE = f"""
{_HISTORY}
local kept = redis.call('GETDEL', KEYS[1])
return kept and string.sub(kept, 1, #history) == history and string.sub(kept, #history + 1)
"""
# Pairs of a key and its mark, each pair with a value and a lifetime. What was kept in another history may
# have been claimed in it.
_CLAIM = f"""
{_HISTORY}
local heard = {{}}
for n = 1, #KEYS, 2 do
  local kept, left = redis.call('GETDEL', KEYS[n]), false
  if kept and string.sub(kept, 1, #history) == history then
    kept = string.sub(kept, #history + 1)
    redis.call('SET', KEYS[n + 1], ARGV[n], 'EX', ARGV[n + 1])
  else
    kept, left = false, redis.call('GET', KEYS[n + 1])
  end
  heard[n], heard[n + 1] = kept, left
end
return heard
"""
# What is remembered begins anew with a history.
_BEGIN = f"""
{_HISTORY}
local began = redis.call('GET', KEYS[1])
if not began or redis.call('GET', KEYS[2]) ~= history then
  local time = redis.call('TIME')
  began = time[1] .. string.format('.%06d', time[2])
  redis.call('SET', KEYS[1], began)
  redis.call('SET', KEYS[2], history)
end
"""
# 1: noted; 0: used before; -1: made before what is remembered begins. Times in tokens are whole seconds: what
# was made in the second of the beginning may have been used before it, and is refused.
_USE_ONCE = f"""
if redis.call('EXISTS', KEYS[3]) == 1 then return 0 end
{_BEGIN}
if tonumber(ARGV[1]) < tonumber(began) then return -1 end
redis.call('SET', KEYS[3], '1', 'EX', ARGV[2])
return 1
"""
_BEGAN = ("used:began", "used:history")
_COUNT = """
local counted = redis.call('INCR', KEYS[1])
if counted == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end
return counted
"""

_TAKES_NO_WRITES = "the short-lived state takes no writes"
# Each is there from the start: a rate over one that begins with its first count would not have that one.
_ANSWERED, _REFUSED, _UNAVAILABLE = map(STATE_SECONDS.labels, ("answered", "refused", "unavailable"))
_AWAY = (RedisError, OSError, TimeoutError)
# A Redis at hand answers within milliseconds; without it a request goes on, where it may.
TIMEOUT_SECONDS = 1.0
_SOCKET_SECONDS = 2.0  # the driver's own timeouts, should the one around the whole trip not do


PREFIX = "zonewright:"  # of every key


@dataclass(frozen=True, slots=True)
class _Put:
    """A value to keep."""

    key: str
    value: bytes
    ttl_seconds: int


@dataclass(slots=True)
class _Trip:
    """A round trip; and whether Redis refused some of what was to be written, and answered the rest."""

    is_refused: bool = False


class RedisState:
    """State in one Redis. Every method raises `Unavailable` when it cannot be reached in time."""

    version: int | None = None  # whoever else writes, nobody tells

    def __init__(self, client: Redis, *, prefix: str = PREFIX, timeout_seconds: float | None = None) -> None:
        self._client = client
        self._prefix = prefix
        self._timeout_seconds = TIMEOUT_SECONDS if timeout_seconds is None else timeout_seconds
        self._raise_all = client.register_script(_RAISE_ALL)
        self._keep = client.register_script(_KEEP)
        self._take = client.register_script(_TAKE)
        self._claim = client.register_script(_CLAIM)
        self._begin = client.register_script(_BEGIN)
        self._use_once = client.register_script(_USE_ONCE)
        self._count = client.register_script(_COUNT)
        self._fetch_and_put = client.register_script(_FETCH_AND_PUT)
        self._trips = RequestBatcher(self._travel)
        self._keeps = RequestBatcher(self._keep_all)
        self._claims = RequestBatcher(self._claim_all)
        self._breaker = CircuitBreaker(client.ping, failures=_AWAY, timeout_seconds=self._timeout_seconds)

    @classmethod
    def open(cls, url: str, *, connections: int = 32, timeout_seconds: float | None = None) -> "RedisState":
        """State at a `redis://`, `rediss://` or `unix://` URL; connections are made as they are needed."""
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=connections,
            timeout=_SOCKET_SECONDS,
            socket_timeout=_SOCKET_SECONDS,
            socket_connect_timeout=_SOCKET_SECONDS,
            # Once, for connections that the server closed meanwhile.
            retry=Retry(NoBackoff(), 1, supported_errors=(ConnectionLost,)),
        )
        return cls(Redis.from_pool(pool), timeout_seconds=timeout_seconds)

    async def put(self, key: str, value: bytes, *, ttl_seconds: int) -> None:
        """Keep a value, in place of one that is there."""
        if (refused := await self._trips.answer(_Put(key, value, ttl_seconds))) is not None:
            raise Unavailable(_TAKES_NO_WRITES, internal=refused)

    async def get(self, key: str) -> bytes | None:
        """The value, or None when there is none or it has expired."""
        async with self._reaching():
            return _bytes(await self._client.get(self._name(key)))

    async def take(self, key: str) -> bytes | None:
        """What `put_once` kept, which is gone afterwards: of many callers exactly one gets it."""
        async with self._reaching():
            return _bytes(await self._take(keys=[self._name(key)]))

    async def put_once(self, key: str, value: bytes, *, ttl_seconds: int) -> None:
        """Keep a value for one `take` or `claim`."""
        await self._keeps.answer((key, value, ttl_seconds))

    async def _keep_all(self, entries: Sequence[tuple[str, bytes, int]]) -> Sequence[None]:
        names = [self._name(key) for key, _, _ in entries]
        arguments = [each for _, value, ttl_seconds in entries for each in (value, ttl_seconds)]
        async with self._reaching():
            await self._keep(keys=names, args=arguments)
        return [None] * len(entries)

    async def claim(
        self, key: str, *, mark: str, value: bytes, ttl_seconds: int
    ) -> tuple[bytes | None, bytes | None]:
        """Take what is kept, and leave *value* under *mark*; or hear what was left there."""
        return await self._claims.answer((key, mark, value, ttl_seconds))

    async def _claim_all(
        self, wanted: Sequence[tuple[str, str, bytes, int]]
    ) -> Sequence[tuple[bytes | None, bytes | None]]:
        names = [self._name(name) for key, mark, _, _ in wanted for name in (key, mark)]
        arguments = [argument for _, _, value, ttl_seconds in wanted for argument in (value, ttl_seconds)]
        async with self._reaching():
            heard = [_bytes(each) for each in await self._claim(keys=names, args=arguments)]
        return list(zip(heard[::2], heard[1::2], strict=True))

    async def add(self, key: str, value: bytes, *, ttl_seconds: int) -> bool:
        """Keep a value unless there is one; tell whether it was kept."""
        async with self._reaching():
            return bool(await self._client.set(self._name(key), value, ex=ttl_seconds, nx=True))

    async def begin(self) -> None:
        """Remember from now on what is used once, if nobody does so yet."""
        async with self._reaching():
            await self._begin(keys=[self._name(each) for each in _BEGAN])

    async def use_once(self, key: str, *, made_at: float, ttl_seconds: int) -> bool:
        """Take note that something is used; tell whether this is the first time."""
        names = [self._name(each) for each in (*_BEGAN, key)]
        async with self._reaching():
            noted = await self._use_once(keys=names, args=[f"{made_at:.6f}", str(ttl_seconds)])
        if noted == -1:
            raise Unavailable(FORGOTTEN, internal="made before the Redis at hand")
        return bool(noted)

    async def delete(self, *keys: str) -> None:
        """Forget these."""
        if keys:
            async with self._reaching():
                await self._client.unlink(*map(self._name, keys))

    async def fetch(self, keys: Sequence[str]) -> list[bytes | None]:
        """Many values in one round trip, in the order asked."""
        return await self._trips.answer(keys) if keys else []

    async def _travel(self, wanted: Sequence[Sequence[str] | _Put]) -> Sequence[Any]:
        """The values of each who fetches; of each who puts, why Redis has refused it, if it has."""
        keys = list(dict.fromkeys(key for each in wanted if not isinstance(each, _Put) for key in each))
        puts = [each for each in wanted if isinstance(each, _Put)]
        names = [self._name(key) for key in keys]
        async with self._reaching() as trip:
            if puts:
                names += [self._name(each.key) for each in puts]
                lives = [each for put in puts for each in (put.value, put.ttl_seconds)]
                told = await self._fetch_and_put(keys=names, args=[len(keys), *lives])
                trip.is_refused = any(each is not None for each in told[len(keys) :])
            else:
                told = await self._client.mget(names)
        found = dict(zip(keys, map(_bytes, told), strict=False))
        refusals = iter(told[len(keys) :])
        return [
            _text(next(refusals)) if isinstance(each, _Put) else [found[key] for key in each]
            for each in wanted
        ]

    async def raise_all(self, numbers: Mapping[str, int], *, ttl_seconds: int) -> None:
        """Keep each decimal number unless a greater one is there, in one round trip."""
        if numbers:
            async with self._reaching():
                arguments = [*map(str, numbers.values()), str(ttl_seconds)]
                await self._raise_all(keys=[self._name(key) for key in numbers], args=arguments)

    async def count(self, key: str, *, ttl_seconds: int) -> int:
        """Add one to a counter that lives that long from its first use; answer its value."""
        async with self._reaching():
            return int(await self._count(keys=[self._name(key)], args=[ttl_seconds]))

    async def ping(self) -> None:
        """Return when Redis answers, and takes what is written to it."""
        async with self._reaching():
            await self._client.set(self._name("ping"), b"1", ex=10)

    async def facts(self) -> Mapping[str, str]:
        """What Redis says of itself (`INFO`), and its clock as `time`."""
        async with self._reaching():
            told = await self._client.info()
            seconds, microseconds = await self._client.time()
        return {name: str(value) for name, value in told.items()} | {"time": f"{seconds}.{microseconds:06}"}

    async def close(self) -> None:
        """Close all connections."""
        await self._breaker.close()
        await self._client.aclose()

    @asynccontextmanager
    async def _reaching(self) -> AsyncIterator["_Trip"]:
        """Around each round trip. Raises Unavailable in place of what the client raises.

        Whoever hears nothing in time is the last to wait: until a probe is answered, all others are refused
        at once.
        """
        if self._breaker.is_open:
            STATE_SKIPPED.inc()
            cause = self._breaker.cause
            why = "not asked" + (f" since {cause}" if str(cause) else "")
            raise Unavailable("the short-lived state cannot be reached", internal=why) from cause
        began_at, trip = monotonic(), _Trip()
        try:
            # The client waits for each of several answers when a connection is new, and tries it twice.
            async with answered_within(self._timeout_seconds):
                yield trip
        except _AWAY as error:
            refuses = _refuses_writes(error)
            (_REFUSED if refuses else _UNAVAILABLE).observe(monotonic() - began_at)
            if refuses:
                raise Unavailable(_TAKES_NO_WRITES, internal=str(error)) from error
            if not isinstance(error, ResponseError):  # that is an answer
                self._breaker.trip(error)
            why = str(error) or "no answer in time"
            raise Unavailable("the short-lived state cannot be reached", internal=why) from error
        (_REFUSED if trip.is_refused else _ANSWERED).observe(monotonic() - began_at)

    def measure(self) -> None:
        """Set the metrics of what is, not of what happens: whether Redis is not asked at present."""
        STATE_BREAKER.set(self._breaker.is_open)

    def _name(self, key: str) -> str:
        return self._prefix + key


def _refuses_writes(error: Exception) -> bool:
    """Tell a Redis that is full, or a replica, from one that cannot be reached: it answers what is read."""
    codes = ("OOM ", "READONLY ", "MISCONF ", "NOREPLICAS ")  # as a script tells them
    told = str(error)
    return isinstance(error, OutOfMemoryError | ReadOnlyError) or any(code in told for code in codes)


def _bytes(value: Any) -> bytes | None:
    return value if value is None else bytes(value)


def _text(value: Any) -> str | None:
    return value if value is None else bytes(value).decode("utf-8", "replace")
