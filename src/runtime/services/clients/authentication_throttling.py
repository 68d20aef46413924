"""Throttles failed client authentication, by client and address."""

from dataclasses import dataclass
from hashlib import sha256

from runtime.domain.errors import TooManyRequests, Unavailable
from runtime.services import cache_sizes
from runtime.services.bounded_cache import BoundedCache
from runtime.services.rate_limiter import RateLimiter, network_of
from runtime.services.rate_limits import CLIENT_SECRET_GUESSES, MAX_SECRET_GUESSES

# Client ids of one address that are counted together: as many as may be made up must not be kept.
BUCKETS = 256


@dataclass(frozen=True, slots=True)
class _Block:
    """A pair that has to wait.

    Attributes:
        until: seconds since 1970.
        claimed: digest of the client id whose failure was the last one.
        application_id: of that client id, where it names an application.
    """

    until: float
    claimed: bytes
    application_id: str | None


class FailedAuthenticationThrottle:
    """The pairs of client and address that are blocked after too many failed authentications.

    Nobody can lock an application out from another address. Failures are counted in the shared state; that a
    pair is over the limit is remembered here, so a request that is in order costs nothing. While the state
    takes no writes, each process counts for itself.
    """

    def __init__(self) -> None:
        self._blocked: BoundedCache[_Block] = BoundedCache(cache_sizes.BLOCKED_CLIENTS)

    def is_blocked(self, zone_id: str, client_id: str, address: str, *, now: float) -> bool:
        """Tell whether the pair has to wait."""
        return self._block(zone_id, client_id, address, now) is not None

    def require_not_blocked(self, zone_id: str, client_id: str, address: str, *, now: float) -> None:
        """Raises TooManyRequests while the pair has to wait, with the application where it is remembered."""
        block = self._block(zone_id, client_id, address, now)
        if block is not None:
            raise TooManyRequests(
                "too many failed client authentications; try again in a minute",
                retry_after_seconds=int(block.until - now) + 1,
                application_id=block.application_id if block.claimed == _digest(client_id) else None,
            )

    def _block(self, zone_id: str, client_id: str, address: str, now: float) -> _Block | None:
        if not len(self._blocked):
            return None
        block = self._blocked.get(f"{zone_id} {_pair(client_id, address)}")
        return block if block is not None and now < block.until else None

    async def record_failure(
        self,
        limiter: RateLimiter,
        zone_id: str,
        client_id: str,
        address: str,
        *,
        application_id: str | None = None,
        now: float,
    ) -> None:
        """Count a failure of the pair.

        Args:
            application_id: of the application that the client id names, for decision records.
        """
        pair = _pair(client_id, address)
        try:
            failures = await limiter.count(CLIENT_SECRET_GUESSES, zone_id, pair, now=now)
        except Unavailable:
            failures = limiter.count_local(CLIENT_SECRET_GUESSES, zone_id, pair, now=now)
        if failures >= MAX_SECRET_GUESSES:
            ends_at = CLIENT_SECRET_GUESSES.ends_at(now)
            self._blocked[f"{zone_id} {pair}"] = _Block(ends_at, _digest(client_id), application_id)


def _pair(client_id: str, address: str) -> str:
    """What a client id at an address is counted under: short, and of so many for one address at most."""
    bucket = int.from_bytes(_digest(client_id)[:4]) % BUCKETS
    return f"{_digest(network_of(address)).hex()[:32]}.{bucket}"


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


# One for all endpoints: who is blocked at one of them is blocked at every other.
FAILED_AUTHENTICATIONS = FailedAuthenticationThrottle()
