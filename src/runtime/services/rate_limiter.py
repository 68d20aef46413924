"""The rate limiter: counts requests against the limits of `rate_limits`, in fixed windows.

Counts are shared by all processes through the short-lived state, in one round trip each; a limit that is
`per_process` is counted in memory, for requests that must not cost a round trip. No count is kept by a name
in clear text: a key holds a digest, and expires with its window.
"""

import ipaddress
from collections.abc import Callable
from datetime import datetime

from runtime.services import cache_sizes, rate_limits
from runtime.services.bounded_cache import BoundedCache
from runtime.services.rate_limits import RateLimit
from runtime.settings import Settings
from runtime.storage.state import StateStore

_HOME_BITS = 64  # of an IPv6 address: whoever has one has all that begin alike


class RateLimiter:
    """Tells for each request how long it has to wait: 0 seconds while its limit is not reached."""

    def __init__(self, state: StateStore, clock: Callable[[], datetime], settings: Settings) -> None:
        self._state = state
        self._clock = clock
        self._settings = settings
        self._local = {each.name: _LocalCounts() for each in rate_limits.ALL if each.per_process}

    async def hit(self, limit: RateLimit, zone_id: str, *per: str) -> int:
        """Count one request; the seconds to wait when it is beyond the limit, else 0.

        Args:
            per: what is counted separately within the zone: an address, a client id, a user.
        Raises: Unavailable when the shared state cannot count; the caller decides what that means.
        """
        if limit.per_process:
            return self.hit_local(limit, zone_id, *per)
        amount = limit.amount_under(self._settings)
        if not amount:
            return 0
        now = self._clock().timestamp()
        counted = await self.count(limit, zone_id, *per, now=now)
        return limit.seconds_left(now) if counted > amount else 0

    def hit_local(self, limit: RateLimit, zone_id: str, *per: str, cost: int = 1) -> int:
        """Count in this process alone; the seconds to wait when that is beyond the limit, else 0.

        Args:
            cost: how much this request counts for; 0 only asks.
        """
        amount = limit.amount_under(self._settings)
        if not amount:
            return 0
        now = self._clock().timestamp()
        counted = self.count_local(limit, zone_id, *per, now=now, cost=cost)
        return limit.seconds_left(now) if counted > amount else 0

    async def count(self, limit: RateLimit, zone_id: str, *per: str, now: float) -> int:
        """Add one to the shared count of this window and return it. Raises Unavailable.

        Args:
            now: seconds since 1970.
        """
        return await self._state.count(limit.key(zone_id, *per, now=now), ttl_seconds=limit.seconds)

    def count_local(self, limit: RateLimit, zone_id: str, *per: str, now: float, cost: int = 1) -> int:
        """Add to this process's own count of this window and return it."""
        if (counts := self._local.get(limit.name)) is None:
            counts = self._local[limit.name] = _LocalCounts()
        return counts.add("\0".join((zone_id, *per)), cost, window=limit.window(now))


class _LocalCounts:
    """The counts of one limit in this process."""

    def __init__(self) -> None:
        self._counted: BoundedCache[tuple[int, int]] = BoundedCache(cache_sizes.RATE_LIMIT_COUNTS)

    def add(self, key: str, cost: int, *, window: int) -> int:
        """Add to the count of a key in a window; a later window begins at zero."""
        then, counted = self._counted.get(key) or (window, 0)
        counted = counted + cost if then == window else cost
        self._counted[key] = (window, counted)
        return counted


def network_of(address: str) -> str:
    """What an address is counted as: itself, or for IPv6 the network that its holder was given."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(parsed) >> _HOME_BITS << _HOME_BITS, _HOME_BITS)))
