"""Short-lived state in Redis: what several workers and several nodes share."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha1
from time import time
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError

from runtime.domain.errors import Unavailable
from runtime.storage.state.gathering import Gathering
from runtime.storage.state.protocol import FORGOTTEN

# Decimal numbers without sign: the longer one is greater, so that no epoch is rounded to a float.
_RAISE_ALL = """
for n = 1, #KEYS do
  local there, wanted = redis.call('GET', KEYS[n]) or '0', ARGV[n]
  if string.match(there, '^%d+$') and (#there > #wanted or (#there == #wanted and there > wanted)) then
    wanted = there
  end
  redis.call('SET', KEYS[n], wanted, 'EX', ARGV[#KEYS + 1])
end
"""
# Pairs of a key and its mark, each pair with a value and a lifetime.
_CLAIM = """
local heard = {}
for n = 1, #KEYS, 2 do
  local kept, left = redis.call('GETDEL', KEYS[n]), false
  if kept then
    redis.call('SET', KEYS[n + 1], ARGV[n], 'EX', ARGV[n + 1])
  else
    left = redis.call('GET', KEYS[n + 1])
  end
  heard[n], heard[n + 1] = kept, left
end
return heard
"""
# 1: noted; 0: used before; -1: made before what is remembered begins.
_USE_ONCE = """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local began = redis.call('GET', KEYS[2])
if not began then
  began = ARGV[3]
  redis.call('SET', KEYS[2], began)
end
if tonumber(ARGV[1]) < tonumber(began) then return -1 end
redis.call('SET', KEYS[1], '1', 'EX', ARGV[2])
return 1
"""
_USE_ONCE_SHA = sha1(_USE_ONCE.encode(), usedforsecurity=False).hexdigest()
_BEGAN = "used:began"
_COUNT = """
local counted = redis.call('INCR', KEYS[1])
if counted == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end
return counted
"""


class RedisState:
    """State in one Redis. Every method raises `Unavailable` when it cannot be reached in time."""

    def __init__(self, client: Redis, *, prefix: str = "zonewright:") -> None:
        self._client = client
        self._prefix = prefix
        self._raise_all = client.register_script(_RAISE_ALL)
        self._claim = client.register_script(_CLAIM)
        self._count = client.register_script(_COUNT)
        self._fetches = Gathering(self._fetch_all)
        self._puts = Gathering(self._put_all)
        self._claims = Gathering(self._claim_all)

    @classmethod
    def open(cls, url: str, *, connections: int = 32, timeout_seconds: float = 2.0) -> "RedisState":
        """State at a `redis://`, `rediss://` or `unix://` URL; connections are made as they are needed."""
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=connections,
            timeout=timeout_seconds,
            socket_timeout=timeout_seconds,
            socket_connect_timeout=timeout_seconds,
            retry=Retry(NoBackoff(), 1),  # once, for connections that the server closed meanwhile
        )
        return cls(Redis.from_pool(pool))

    async def put(self, key: str, value: bytes, *, ttl_seconds: int) -> None:
        """Keep a value, in place of one that is there."""
        await self._puts.answer((key, value, ttl_seconds))

    async def _put_all(self, entries: Sequence[tuple[str, bytes, int]]) -> Sequence[None]:
        async with _reaching(), self._client.pipeline(transaction=False) as trip:
            for key, value, ttl_seconds in entries:
                trip.set(self._name(key), value, ex=ttl_seconds)
            await trip.execute()
        return [None] * len(entries)

    async def get(self, key: str) -> bytes | None:
        """The value, or None when there is none or it has expired."""
        async with _reaching():
            return _bytes(await self._client.get(self._name(key)))

    async def take(self, key: str) -> bytes | None:
        """The value, which is gone afterwards: of many callers exactly one gets it."""
        async with _reaching():
            return _bytes(await self._client.getdel(self._name(key)))

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
        async with _reaching():
            heard = [_bytes(each) for each in await self._claim(keys=names, args=arguments)]
        return list(zip(heard[::2], heard[1::2], strict=True))

    async def add(self, key: str, value: bytes, *, ttl_seconds: int) -> bool:
        """Keep a value unless there is one; tell whether it was kept."""
        async with _reaching():
            return bool(await self._client.set(self._name(key), value, ex=ttl_seconds, nx=True))

    async def begin(self) -> None:
        """Remember from now on what is used once, if nobody does so yet.

        A server forgets its scripts when it starts, whatever it restores of its data, and no replica has
        them: so one that does not know ours may lack what was noted last, and its memory begins anew.
        """
        async with _reaching():
            (known,) = await self._client.script_exists(_USE_ONCE_SHA)
            await self._client.set(self._name(_BEGAN), int(time()), nx=bool(known))
            await self._client.script_load(_USE_ONCE)

    async def use_once(self, key: str, *, made_at: float, ttl_seconds: int) -> bool:
        """Take note that something is used; tell whether this is the first time."""
        names = (self._name(key), self._name(_BEGAN))
        arguments = (f"{made_at:.3f}", str(ttl_seconds), str(int(time())))
        async with _reaching():
            try:
                noted = await self._client.evalsha(_USE_ONCE_SHA, 2, *names, *arguments)
            except NoScriptError:
                await self.begin()
                noted = await self._client.evalsha(_USE_ONCE_SHA, 2, *names, *arguments)
        if noted == -1:
            raise Unavailable(FORGOTTEN, internal="made before the Redis at hand")
        return bool(noted)

    async def delete(self, *keys: str) -> None:
        """Forget these."""
        if keys:
            async with _reaching():
                await self._client.unlink(*map(self._name, keys))

    async def fetch(self, keys: Sequence[str]) -> list[bytes | None]:
        """Many values in one trip, in the order asked."""
        return await self._fetches.answer(keys) if keys else []

    async def _fetch_all(self, wanted: Sequence[Sequence[str]]) -> Sequence[list[bytes | None]]:
        keys = list(dict.fromkeys(key for each in wanted for key in each))
        async with _reaching():
            values = await self._client.mget([self._name(key) for key in keys])
        found = dict(zip(keys, map(_bytes, values), strict=True))
        return [[found[key] for key in each] for each in wanted]

    async def put_many(self, values: Mapping[str, bytes], *, ttl_seconds: int) -> None:
        """Keep many values in one trip."""
        if not values:
            return
        async with _reaching(), self._client.pipeline(transaction=False) as trip:
            for key, value in values.items():
                trip.set(self._name(key), value, ex=ttl_seconds)
            await trip.execute()

    async def raise_all(self, numbers: Mapping[str, int], *, ttl_seconds: int) -> None:
        """Keep each decimal number unless a greater one is there, in one trip."""
        if numbers:
            async with _reaching():
                arguments = [*map(str, numbers.values()), str(ttl_seconds)]
                await self._raise_all(keys=[self._name(key) for key in numbers], args=arguments)

    async def count(self, key: str, *, ttl_seconds: int) -> int:
        """Add one to a counter that lives that long from its first use; answer its value."""
        async with _reaching():
            return int(await self._count(keys=[self._name(key)], args=[ttl_seconds]))

    async def ping(self) -> None:
        """Return when Redis answers."""
        async with _reaching():
            await self._client.ping()

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    def _name(self, key: str) -> str:
        return self._prefix + key


@asynccontextmanager
async def _reaching() -> AsyncIterator[None]:
    try:
        yield
    except (RedisError, OSError, TimeoutError) as error:
        raise Unavailable("the short-lived state cannot be reached", internal=str(error)) from error


def _bytes(value: Any) -> bytes | None:
    return value if value is None else bytes(value)
