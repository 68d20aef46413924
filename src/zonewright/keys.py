"""A zone's public keys, by `kid`. Spec: RFC 7517; `docs/tokens.md` says how long they may be cached."""

import asyncio
from collections.abc import Callable
from time import monotonic

import httpx
import jwt

from zonewright.errors import ZoneMisconfigured, ZoneUnreachable
from zonewright.fetching import SharedFailure, fetch, shown
from zonewright.metadata import ZoneMetadata

MAX_AGE_SECONDS = 300  # a key that is withdrawn is refused no later than this
_UNKNOWN_KEY_PAUSE_SECONDS = 30  # tokens with made-up key ids cause no more fetches than one in this time
_ALGORITHM_OF = {"RSA": "RS256", "EC": "ES256"}


class ZoneKeys:
    """The keys of one zone, fetched when they are needed and cached for five minutes."""

    def __init__(
        self, http: httpx.AsyncClient, metadata: ZoneMetadata, clock: Callable[[], float] = monotonic
    ) -> None:
        self._http, self.metadata, self._clock = http, metadata, clock
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_at: float | None = None
        self._failure = SharedFailure(clock)
        self._lock = asyncio.Lock()

    async def get(self, kid: str) -> jwt.PyJWK | None:
        """The key of that id; None when the zone has none. Raises ZoneUnreachable."""
        if kid not in self._keys or self._is_older_than(MAX_AGE_SECONDS):
            await self._refresh(kid)
        return self._keys.get(kid)

    async def _refresh(self, kid: str) -> None:
        async with self._lock:  # whoever waits here finds what the one before has fetched
            age = _UNKNOWN_KEY_PAUSE_SECONDS if kid not in self._keys else MAX_AGE_SECONDS
            if self._is_older_than(age):
                address = await self.metadata.endpoint("jwks_uri")  # which shares its own failure
                with self._failure.shared():
                    found = await fetch(self._http, address)
                    self._keys = _keys_of(address, found.get("keys"))
                self._fetched_at = self._clock()

    def _is_older_than(self, seconds: float) -> bool:
        return self._fetched_at is None or self._clock() - self._fetched_at > seconds


def _keys_of(address: str, listed: object) -> dict[str, jwt.PyJWK]:
    """The signing keys of a JWK set. Keys of other types are left out.

    Raises: ZoneUnreachable; ZoneMisconfigured.
    """
    if not isinstance(listed, list):
        raise ZoneMisconfigured(f"{address} has no `keys`, so it is no JWK set; check what serves it")
    found = {}
    for each in listed:
        algorithm = _ALGORITHM_OF.get(str(each.get("kty"))) if isinstance(each, dict) else None
        if algorithm and each.get("use", "sig") == "sig" and isinstance(each.get("kid"), str):
            try:
                found[each["kid"]] = jwt.PyJWK(each, algorithm)
            except jwt.PyJWTError as failure:
                raise ZoneUnreachable(
                    f"{address} has a key that cannot be read: {shown(failure)}"
                ) from failure
    return found
