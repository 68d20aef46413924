"""Guessing made slow, for a client and an address together."""

from hashlib import sha256
from typing import TYPE_CHECKING

from runtime.domain.errors import TooManyRequests, Unavailable
from runtime.services.limits import place_of
from runtime.services.zones.kept import Kept

if TYPE_CHECKING:
    from runtime.services.parts import Parts

MAX_FAILURES = 20
WINDOW_SECONDS = 60


class SecretGuessing:
    """Who has failed too often: counted for a client and an address together.

    So nobody can lock an application out from elsewhere. Failures are counted in the shared state; that a
    pair is over the limit is remembered here, so a request that is in order costs no trip.
    """

    def __init__(self) -> None:
        self._blocked: Kept[float] = Kept()

    def check(self, zone_id: str, client_id: str, address: str, *, now: float) -> None:
        """Raises TooManyRequests while the pair has to wait."""
        if not len(self._blocked):
            return
        until = self._blocked.get(_pair(zone_id, client_id, address))
        if until is not None and now < until:
            raise TooManyRequests("too many failed attempts", retry_after_seconds=int(until - now) + 1)

    async def failed(self, parts: "Parts", zone_id: str, client_id: str, address: str, *, now: float) -> None:
        """Count a failure of the pair."""
        pair = _pair(zone_id, client_id, address)
        window = int(now) // WINDOW_SECONDS
        try:
            failures = await parts.state.count(f"guess:{pair}:{window}", ttl_seconds=WINDOW_SECONDS)
        except Unavailable:
            return  # what was shown is still checked; only the counting is away
        if failures >= MAX_FAILURES:
            self._blocked.put(pair, float((window + 1) * WINDOW_SECONDS))


def _pair(zone_id: str, client_id: str, address: str) -> str:
    """One length for all names: a client id of 60 KB must not cost as much to remember."""
    told = f"{zone_id}\0{client_id}\0{place_of(address)}".encode("utf-8", "surrogatepass")
    return sha256(told).hexdigest()


# One for all endpoints: who has guessed too often at one of them waits at every other.
GUESSING = SecretGuessing()
