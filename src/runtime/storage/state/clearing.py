"""Empties the short-lived state in Redis, for a database that was set back: it is newer than that."""

from redis.asyncio import Redis
from redis.exceptions import RedisError

from runtime.domain.errors import Unavailable
from runtime.storage.state.redis import PREFIX

_AT_ONCE = 1_000


async def clear(redis_url: str) -> int:
    """Delete every key of the service, and of nobody else; how many. Raises Unavailable."""
    deleted = 0
    try:
        async with Redis.from_url(redis_url, socket_timeout=10, socket_connect_timeout=10) as client:
            keys: list[bytes] = []
            async for key in client.scan_iter(match=f"{PREFIX}*", count=_AT_ONCE):
                keys.append(key)
                if len(keys) == _AT_ONCE:
                    deleted, keys = deleted + await client.unlink(*keys), []
            if keys:
                deleted += await client.unlink(*keys)
    except (RedisError, OSError) as error:
        raise Unavailable("the short-lived state cannot be reached", internal=str(error)) from error
    return deleted
