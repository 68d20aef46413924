"""Guessing made slow, for a client and an address together."""

from hashlib import sha256
from typing import TYPE_CHECKING

from runtime.domain.errors import TooManyRequests, Unavailable
from runtime.services import limits
from runtime.services.bounded_cache import BoundedCache
from runtime.services.limits import Limit, place_of

if TYPE_CHECKING:
    from runtime.services.container import Services

MAX_FAILURES = 20
GUESSES = Limit("guess", "wrong client secrets", "a client and an address together", MAX_FAILURES)
# Client ids of one address that are counted together: as many as may be made up must not be kept.
BUCKETS = 256


class SecretGuessing:
    """Who has failed too often: counted for a client and an address together.

    So nobody can lock an application out from elsewhere. Failures are counted in the shared state; that a
    pair is over the limit is remembered here, so a request that is in order costs no trip. While the state
    takes no writes, each process counts for itself.
    """

    def __init__(self) -> None:
        self._blocked: BoundedCache[float] = BoundedCache()
        self._alone: BoundedCache[int] = BoundedCache()

    def check(self, zone_id: str, client_id: str, address: str, *, now: float) -> None:
        """Raises TooManyRequests while the pair has to wait."""
        if not len(self._blocked):
            return
        until = self._blocked.get(f"{zone_id} {_pair(client_id, address)}")
        if until is not None and now < until:
            raise TooManyRequests("too many failed attempts", retry_after_seconds=int(until - now) + 1)

    async def failed(
        self, services: "Services", zone_id: str, client_id: str, address: str, *, now: float
    ) -> None:
        """Count a failure of the pair."""
        pair = _pair(client_id, address)
        window = limits.window(GUESSES.seconds, now)
        try:
            failures = await services.state.count(
                f"{GUESSES.name}:{zone_id}:{pair}:{window}", ttl_seconds=GUESSES.seconds
            )
        except Unavailable:
            counted = f"{zone_id} {pair} {window}"
            failures = (self._alone.get(counted) or 0) + 1
            self._alone.put(counted, failures)
        if failures >= MAX_FAILURES:
            self._blocked.put(f"{zone_id} {pair}", (now // GUESSES.seconds + 1) * GUESSES.seconds)


def _pair(client_id: str, address: str) -> str:
    """What a client id at an address is counted under: short, and of so many for one address at most."""
    bucket = int.from_bytes(_digest(client_id)[:4]) % BUCKETS
    return f"{_digest(place_of(address)).hex()[:32]}.{bucket}"


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


# One for all endpoints: who has guessed too often at one of them waits at every other.
GUESSING = SecretGuessing()
