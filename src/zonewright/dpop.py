"""DPoP proofs at a resource server. Spec: RFC 9449 sections 4.3 and 7."""

import json
import re
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import sha256
from hmac import compare_digest
from time import time
from typing import Any, Protocol
from urllib.parse import urlsplit

import jwt

from zonewright.errors import DpopRefused

ALGORITHMS = ("ES256", "RS256", "PS256", "EdDSA")
WINDOW_SECONDS = 60  # a proof is made for one request; clocks may differ by this much
_MAX_PROOF_CHARS = 8_192
_MAX_ID_CHARS = 255
_THUMBPRINT_MEMBERS = {"EC": ("crv", "kty", "x", "y"), "RSA": ("e", "kty", "n"), "OKP": ("crv", "kty", "x")}
_DEFAULT_PORTS = {"https": 443, "http": 80}
_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")
_UNRESERVED = re.compile("[A-Za-z0-9._~-]")


class ReplayCache(Protocol):
    """Remembers proofs that were used. Servers with several processes bring one that these share."""

    async def add(self, key: str, *, seconds: int) -> bool:
        """Remember *key* for so long; False when it was there already, or cannot be remembered."""
        ...


class InProcessReplayCache:
    """Used proofs of this process, bounded: when it is full, further proofs are refused."""

    def __init__(self, limit: int = 100_000, clock: Callable[[], float] = time) -> None:
        self._used: OrderedDict[str, float] = OrderedDict()  # key -> until when, the oldest first
        self._limit, self._clock = limit, clock

    async def add(self, key: str, *, seconds: int) -> bool:
        """Remember *key* for so long; False when it was there already, or there are too many."""
        now = self._clock()
        while self._used and next(iter(self._used.values())) < now:
            self._used.popitem(last=False)
        if key in self._used or len(self._used) >= self._limit:
            return False
        self._used[key] = now + seconds
        return True


class DpopProofs:
    """Checks proofs for one resource server."""

    def __init__(self, replay: ReplayCache | None = None, clock: Callable[[], float] = time) -> None:
        self._replay: ReplayCache = replay or InProcessReplayCache()
        self._clock = clock

    async def check(self, proof: str, *, method: str, url: str, token: str, jkt: str) -> None:
        """Check that a proof is about this request and token, by the key the token is bound to, and new.

        Args:
            url: the request's address as this server is known to clients, never from its Host header.
            jkt: thumbprint of the key, from `cnf` of the verified token.
        Raises: DpopRefused.
        """
        claims = _opened(proof, jkt)
        if claims.get("htm") != method or not _same_target(claims.get("htu"), url):
            raise DpopRefused("the proof is for another request")
        issued_at, now = claims.get("iat"), self._clock()
        if type(issued_at) is not int or abs(issued_at - now) > WINDOW_SECONDS:
            raise DpopRefused("`iat` of the proof is missing or not current")
        if not compare_digest(str(claims.get("ath")).encode(), _digest(token.encode()).encode()):
            raise DpopRefused("the proof is for another token")
        token_id = claims.get("jti")
        if not isinstance(token_id, str) or not 0 < len(token_id) <= _MAX_ID_CHARS:
            raise DpopRefused("the proof has no `jti`")
        key = _digest(f"{jkt}\0{token_id}".encode())
        if not await self._replay.add(key, seconds=2 * WINDOW_SECONDS):
            raise DpopRefused("the proof was used before")


def _opened(proof: str, jkt: str) -> Mapping[str, Any]:
    """The claims of a proof that the key of that thumbprint has signed. Raises DpopRefused.

    No other key is used: whoever sends the proof could make one with which verifying is dear.
    """
    if len(proof) > _MAX_PROOF_CHARS:
        raise DpopRefused("the proof is too long")
    try:
        header = jwt.get_unverified_header(proof)
        key, algorithm = header.get("jwk"), header.get("alg")
        if header.get("typ") != "dpop+jwt" or algorithm not in ALGORITHMS or "crit" in header:
            raise DpopRefused("`typ`, `alg` or `crit` of the proof is not accepted")
        if not isinstance(key, dict) or {"d", "p", "q", "k"} & key.keys():
            raise DpopRefused("the proof has no public key")
        if not compare_digest(thumbprint_of(key), jkt):
            raise DpopRefused("the proof is signed with another key than the token is bound to")
        claims: Mapping[str, Any] = jwt.decode(
            proof,
            jwt.PyJWK(key, algorithm),
            algorithms=[algorithm],
            options={"verify_exp": False, "verify_iat": False, "verify_nbf": False, "verify_aud": False},
        )
        return claims
    except (jwt.PyJWTError, ValueError, KeyError, TypeError) as failure:
        raise DpopRefused("the proof cannot be verified") from failure


def thumbprint_of(key: Mapping[str, Any]) -> str:
    """The SHA-256 thumbprint of a public JWK. Raises KeyError of a key of another type. Spec: RFC 7638."""
    members = {name: key[name] for name in _THUMBPRINT_MEMBERS[key["kty"]]}
    return _digest(json.dumps(members, sort_keys=True, separators=(",", ":")).encode())


def _same_target(given: object, url: str) -> bool:
    """Tell whether both name one address, query and fragment apart. Spec: RFC 9449 section 4.3, item 9."""
    try:
        return isinstance(given, str) and _target(given) == _target(url)
    except ValueError:
        return False


def _target(url: str) -> tuple[str, str | None, int | None, str]:
    parts = urlsplit(url)
    if parts.username is not None:
        raise ValueError("an address with a user")
    path = _ESCAPE.sub(_normal_escape, parts.path) or "/"
    return parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme), path


def _normal_escape(escape: re.Match[str]) -> str:
    """What stands for itself without its escape, any other in capitals. Spec: RFC 3986 section 6.2.2."""
    character = chr(int(escape[1], 16))
    return character if _UNRESERVED.fullmatch(character) else escape[0].upper()


def _digest(value: bytes) -> str:
    return urlsafe_b64encode(sha256(value).digest()).rstrip(b"=").decode("ascii")
