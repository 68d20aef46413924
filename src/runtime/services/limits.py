"""How much may be asked for: counted in the shared state for all workers together, or in each process.

Nobody is counted by name: a key holds a digest, and is gone when its window has passed. `runtime.quotas`
lists every limit, and docs/limits.md shows them.
"""

import ipaddress
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from typing import TYPE_CHECKING

from runtime.services.bounded_cache import BoundedCache
from runtime.settings import Settings

if TYPE_CHECKING:
    from runtime.services.container import Services

WINDOW_SECONDS = 60
_HOME_BITS = 64  # of an IPv6 address: whoever has one has all that begin alike
MAX_COUNTED = 20_000


@dataclass(frozen=True, slots=True)
class Limit:
    """At most so many in a window of time.

    Attributes:
        name: what is counted, as the keys of the shared state begin.
        counts: the same for people, in the plural.
        whose: what is counted apart.
        most: how many; or the setting that has the number, in which 0 stands for any.
        times: how many times that number, rounded up.
        seconds: how long a window is.
    """

    name: str
    counts: str
    whose: str
    most: int | str
    times: Fraction = Fraction(1)
    seconds: int = WINDOW_SECONDS

    def number(self, settings: Settings) -> int:
        """How many that is under these settings; 0 for any number."""
        base: int = getattr(settings, self.most) if isinstance(self.most, str) else self.most
        return -(-base * self.times.numerator // self.times.denominator)

    def wait(self, now: float) -> int:
        """Seconds until the next window."""
        return int((now // self.seconds + 1) * self.seconds - now) + 1


async def count(services: "Services", limit: Limit, zone_id: str, *whose: str) -> int:
    """Count one; the seconds to wait when it is one too many, else 0. Raises Unavailable.

    Args:
        whose: what is counted apart in the zone.
    """
    most = limit.number(services.settings)
    if not most:
        return 0
    now = services.clock().timestamp()
    key = f"{limit.name}:{zone_id}:{_digest(whose)}:{window(limit.seconds, now)}"
    counted = await services.state.count(key, ttl_seconds=limit.seconds)
    return limit.wait(now) if counted > most else 0


class Meter:
    """A limit counted in this process alone: for what costs less than a trip, and must not cost one more."""

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self._counted: BoundedCache[tuple[int, int]] = BoundedCache(MAX_COUNTED)

    def count(self, services: "Services", zone_id: str, *whose: str, by: int = 1) -> int:
        """Count one, or so many; the seconds to wait when that is too many, else 0."""
        most = self.limit.number(services.settings)
        if not most:
            return 0
        now = services.clock().timestamp()
        this, key = window(self.limit.seconds, now), "\0".join((zone_id, *whose))
        then, counted = self._counted.get(key) or (this, 0)
        counted = counted + by if then == this else by
        self._counted.put(key, (this, counted))
        return self.limit.wait(now) if counted > most else 0


def window(seconds: int, now: float) -> int:
    """The number of the window that this instant is in."""
    return int(now) // seconds


def place_of(address: str) -> str:
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


def _digest(whose: tuple[str, ...]) -> str:
    return sha256("\0".join(whose).encode("utf-8", "surrogatepass")).hexdigest()
