"""How much one sender may ask for: counted in the shared state, so that all workers count together.

Nobody is counted by name: a key holds a digest, and is gone when its window has passed.
"""

import ipaddress
from dataclasses import dataclass
from hashlib import sha256

from runtime.services.parts import Parts

WINDOW_SECONDS = 60
_HOME_BITS = 64  # of an IPv6 address: whoever has one has all that begin alike


@dataclass(frozen=True, slots=True)
class Limit:
    """At most so many in a minute.

    Attributes:
        name: what is counted, as the keys of the shared state begin.
    """

    name: str
    most: int


async def count(parts: Parts, limit: Limit, *whose: str) -> int:
    """Count one; the seconds to wait when it is one too many, else 0. Raises Unavailable.

    Args:
        whose: what is counted apart: a zone and more.
    """
    now = parts.clock().timestamp()
    window = int(now) // WINDOW_SECONDS
    digest = sha256("\0".join(whose).encode("utf-8", "surrogatepass")).hexdigest()
    counted = await parts.state.count(f"{limit.name}:{digest}:{window}", ttl_seconds=WINDOW_SECONDS)
    return int((window + 1) * WINDOW_SECONDS - now) + 1 if counted > limit.most else 0


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
