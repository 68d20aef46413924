"""The zone's revocation list: tokens revoked before they expire. `docs/tokens.md` has its format.

It is a JWS. A proxy or a cache on the way cannot take entries out, nor answer with the list of another zone,
of a later cursor or of long ago: such a list is refused, and the one before is used until it expires.
"""

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import product
from time import monotonic, time
from typing import Any

import httpx

from zonewright.access_token import AccessToken
from zonewright.errors import ZoneMisconfigured, ZoneUnreachable
from zonewright.fetching import SharedFailure, fetch_signed
from zonewright.keys import ZoneKeys
from zonewright.signatures import NotSigned, verified_claims

MAX_AGE_SECONDS = 1.0
_TYPE = "revocation-list+jwt"
_WHOLE_LIST_SECONDS = 600.0  # then it is fetched anew, without what has expired meanwhile
_HASHED = "#S256"
_MAX_DIGITS = 15

_Names = tuple[str, ...]  # names of claims in order, without the mark of hashed ones
_Values = tuple[str, ...]


class RevocationList:
    """The list of one zone, no older than *max_age_seconds* when it is used.

    While no newer one is to be had, the last one is used until it expires.

    Args:
        keys: those of the zone, which verify the list; their metadata says where it is (`revocations_uri`).
        leeway_seconds: by how much the clocks of zone and server may differ.
    """

    def __init__(
        self,
        http: httpx.AsyncClient,
        issuer: str,
        keys: ZoneKeys,
        *,
        max_age_seconds: float = MAX_AGE_SECONDS,
        leeway_seconds: int = 5,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._http, self._issuer, self._keys = http, issuer, keys
        self._leeway = leeway_seconds
        self._max_age, self._clock = max_age_seconds, clock
        self._entries: dict[_Names, dict[_Values, float]] = {}
        self._next: int | None = None
        self._fetched_at = self._whole_at = self._expires_at = float("-inf")
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
                if now > self._expires_at:
                    raise
                return
            self._fetched_at = now
            self._whole_at = now if is_whole else self._whole_at

    async def _fetch(self, since: int | None) -> None:
        """Read the list from a cursor on. Raises ZoneUnreachable; ZoneMisconfigured."""
        asked = {} if since is None else {"since": str(since)}
        address = await self._address()
        jws = await fetch_signed(self._http, address, f"application/{_TYPE}", params=asked)
        try:
            claims = await self._verified(jws, since)
        except NotSigned as failure:
            raise ZoneMisconfigured(
                f"{address} is not the revocation list that {self._issuer} signs: {failure}; check what"
                " serves this address, and the clock of this server"
            ) from failure
        entries = {} if since is None else self._entries
        for each in claims["revocations"]:
            names, values, until = _entry(each)
            at = entries.setdefault(names, {})
            at[values] = max(until, at.get(values, float("-inf")))
        self._entries, self._next = entries, _cursor(claims["next"])
        self._expires_at = self._clock() + int(claims["exp"]) - time()

    async def _address(self) -> str:
        """Where the zone's metadata says that the list is; without a word of it at its default address."""
        published = await self._keys.metadata.find_endpoint("revocations_uri")
        return published or f"{self._issuer.rstrip('/')}/.well-known/revocations"

    async def _verified(self, jws: str, since: int | None) -> Mapping[str, Any]:
        """The claims of a list that is the zone's, current, and answers a cursor. Raises NotSigned."""
        claims = await verified_claims(
            jws,
            self._keys,
            typ=_TYPE,
            issuer=self._issuer,
            leeway=self._leeway,
            options={"require": ["iss", "iat", "exp", "next", "revocations"]},
        )
        if not isinstance(claims["revocations"], list):
            raise NotSigned("its `revocations` is not an array")
        if "since" in claims and (since is None or _cursor(claims["since"]) > since):
            raise NotSigned("it begins later than the cursor that was asked for")
        following = _cursor(claims["next"])
        is_older = self._next is not None and following < self._next - self._leeway
        if is_older and self._clock() <= self._expires_at:  # later, what is older has expired, too
            raise NotSigned("it is older than the list before")
        return claims

    def _age(self) -> float:
        return self._clock() - self._fetched_at


def _cursor(value: object) -> int:
    """A cursor as a number. Raises NotSigned."""
    if not isinstance(value, str) or not value.isascii() or not value.isdigit() or len(value) > _MAX_DIGITS:
        raise NotSigned("it has a cursor that is not a whole number")
    return int(value)


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
