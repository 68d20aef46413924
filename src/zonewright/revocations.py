"""The zone's revocation list: tokens revoked before they expire. `docs/tokens.md` has its format."""

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import product
from time import monotonic
from typing import Any

import httpx

from zonewright.access_token import AccessToken
from zonewright.errors import ZoneMisconfigured, ZoneUnreachable
from zonewright.fetching import SharedFailure, fetch

MAX_AGE_SECONDS = 1.0
_MAX_OUTAGE_SECONDS = 30.0  # how long an old list is relied on while the zone does not answer
_WHOLE_LIST_SECONDS = 600.0  # then it is fetched anew, without what has expired meanwhile
_HASHED = "#S256"

_Names = tuple[str, ...]  # names of claims in order, without the mark of hashed ones
_Values = tuple[str, ...]


class RevocationList:
    """The list of one zone, no older than *max_age_seconds* when it is used."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        issuer: str,
        *,
        max_age_seconds: float = MAX_AGE_SECONDS,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._http, self._issuer = http, issuer
        self._address = f"{issuer.rstrip('/')}/.well-known/revocations"
        self._max_age, self._clock = max_age_seconds, clock
        self._entries: dict[_Names, dict[_Values, float]] = {}
        self._next: str | None = None
        self._fetched_at = self._whole_at = float("-inf")
        self._failure = SharedFailure(clock)
        self._lock = asyncio.Lock()

    async def is_revoked(self, token: AccessToken) -> bool:
        """Tell whether an entry fits the token. Raises ZoneUnreachable when the list is too old to tell."""
        if self._age() > self._max_age:
            await self._refresh()
        return any(
            token.issued_at <= entries.get(values, float("-inf"))
            for names, entries in self._entries.items()
            for values in _values_of(token, names)
        )

    async def _refresh(self) -> None:
        async with self._lock:
            if self._age() <= self._max_age:
                return  # somebody else has fetched it meanwhile
            now = self._clock()
            is_whole = self._next is None or now - self._whole_at > _WHOLE_LIST_SECONDS
            try:
                with self._failure.shared():
                    await self._fetch(None if is_whole else self._next)
            except ZoneUnreachable:
                if now - self._fetched_at > _MAX_OUTAGE_SECONDS:
                    raise
                return
            self._fetched_at = now
            self._whole_at = now if is_whole else self._whole_at

    async def _fetch(self, since: str | None) -> None:
        found = await fetch(self._http, self._address, params={"since": since} if since else None)
        document = found.document or {}
        if document.get("issuer") != self._issuer or not isinstance(document.get("revocations"), list):
            raise ZoneMisconfigured(
                f"{self._address} is not a revocation list of {self._issuer}; check what serves this address"
            )
        entries = self._entries if since else {}
        for each in document["revocations"]:
            names, values, until = _entry(each)
            at = entries.setdefault(names, {})
            at[values] = max(until, at.get(values, float("-inf")))
        self._entries, self._next = entries, str(document.get("next") or "") or None

    def _age(self) -> float:
        return self._clock() - self._fetched_at


def _entry(entry: Mapping[str, Any]) -> tuple[_Names, _Values, float]:
    """Names and hashed values of an entry, and until when its tokens were issued. Raises ZoneUnreachable."""
    if not isinstance(entry, dict):
        raise ZoneUnreachable("the revocation list has an entry that is not an object")
    until = entry.get("issued_until", float("inf"))
    claims = {name: value for name, value in entry.items() if name != "issued_until"}
    if not claims or not isinstance(until, int | float):
        raise ZoneUnreachable("the revocation list has an entry that cannot be read")
    pairs = sorted(
        (name.removesuffix(_HASHED), str(value) if name.endswith(_HASHED) else _digest(str(value)))
        for name, value in claims.items()
    )
    return tuple(name for name, _ in pairs), tuple(value for _, value in pairs), until


def _values_of(token: AccessToken, names: _Names) -> Iterator[_Values]:
    """The hashed values that the token has for these names: several where it has several actors."""
    choices: list[Iterable[str]] = []
    for name in names:
        values = [token.claims[name]] if name in token.claims else []
        if name == "actor":
            values = [actor.subject for actor in token.actors]
        choices.append([_digest(str(value)) for value in values])
    return product(*choices)


def _digest(value: str) -> str:
    return urlsafe_b64encode(sha256(value.encode()).digest()).rstrip(b"=").decode("ascii")
