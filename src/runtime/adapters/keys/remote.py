"""Verification of tokens that others signed, with the JWK sets that they publish.

Keys come from the JWK set address that the caller configured, never from the token. The key decides which
algorithms are possible; the token's header only chooses among them.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK
from jwt.algorithms import Algorithm
from jwt.exceptions import PyJWTError

from runtime.adapters.keys.jose import CompactJws, InvalidJwt, parse, same_type
from runtime.adapters.keys.signing import check_times
from runtime.adapters.outbound import Outbound, OutboundFailed, pause_after
from runtime.adapters.shared_fetch import SharedFetch
from runtime.domain.oauth import assertions

ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
_LIFETIME_SECONDS = 300
_REFETCH_AFTER_SECONDS = 30  # an unknown `kid` asks the publisher again at most this often
_MAX_KEYS = 100
_RSA_BITS = range(2048, 8193)  # one that is larger makes verifying dear
_RSA_EXPONENT_BITS = 64  # and so does a longer exponent; almost all keys have 65537
_OF_ASSERTIONS = frozenset(assertions.ALGORITHMS)
# What would bring a key along, or say where one is: who speaks for itself has no business to.
_KEY_HEADERS = frozenset({"jwk", "jku", "x5u", "x5c"})
_CURVES = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
_EDWARDS_CURVES = ("Ed25519", "Ed448")


@dataclass(frozen=True, slots=True)
class PublishedKey:
    """One key of a JWK set: `verifiers` maps the algorithms it can be used with."""

    kid: str | None
    key: Any
    verifiers: Mapping[str, Algorithm]


class RemoteKeys:
    """The JWK sets of others, remembered for five minutes and shared by all who ask in one partition.

    So is for seconds that one cannot be had: tokens that nobody has checked yet must not set the pace.

    A fetch waits its turn in the partition of whoever began it, so nobody waits for one of another's.

    Args:
        clock: seconds, never going back.
    """

    def __init__(self, outbound: Outbound, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._outbound = outbound
        self._sets: SharedFetch[tuple[PublishedKey, ...]] = SharedFetch(
            lifetime_seconds=_LIFETIME_SECONDS, failure_lifetime=pause_after, clock=clock
        )

    async def verify(
        self,
        token: str,
        *,
        jwks_uri: str,
        issuer: str,
        audience: str | None,
        now: datetime,
        leeway_seconds: int = 60,
        typ: str | None = None,
        partition: str,
    ) -> dict[str, Any]:
        """The claims of a token signed by a key published at *jwks_uri*.

        Args:
            audience: must be `aud`, or one of several in it; None leaves `aud` to the caller.
            typ: the class the header must name; None when the class is known otherwise.
        Raises: InvalidJwt; MalformedJwt; OutboundRefused and OutboundFailed when the keys cannot be
            had.
        """
        jws = parse(token)
        await self.check_signature(jws, jwks_uri, partition=partition)
        if typ is not None and not same_type(jws.header.get("typ"), typ):
            raise InvalidJwt("wrong `typ`")
        claims = jws.unverified_claims
        if claims.get("iss") != issuer:
            raise InvalidJwt("another issuer")
        if audience is not None and audience not in audiences(claims):
            raise InvalidJwt("another audience")
        check_times(claims, now=now, leeway_seconds=leeway_seconds)
        return claims

    async def check_signature(
        self, jws: CompactJws, jwks_uri: str, *, partition: str, strict: bool = False
    ) -> None:
        """Check that a key published at *jwks_uri* has signed. Of the claims nothing is looked at.

        Args:
            strict: for assertions: only the algorithms that zones announce, and no key in the header.
        Raises: InvalidJwt; OutboundRefused and OutboundFailed when the keys cannot be had.
        """
        algorithm, kid = _checked_header(jws, strict=strict)
        candidates = _candidates(await self._keys(jwks_uri, partition), kid, algorithm)
        if not candidates:
            again = await self._keys(jwks_uri, partition, newer_than_seconds=_REFETCH_AFTER_SECONDS)
            candidates = _candidates(again, kid, algorithm)
        _check_with(candidates, jws, algorithm)

    async def _keys(
        self, jwks_uri: str, partition: str, *, newer_than_seconds: float | None = None
    ) -> tuple[PublishedKey, ...]:
        async def fetch() -> tuple[PublishedKey, ...]:
            fetched = await self._outbound.get_json(jwks_uri, partition=partition)
            return parse_jwks(fetched.json)

        return await self._sets.get(
            jwks_uri, fetch, partition=partition, newer_than_seconds=newer_than_seconds
        )


def check_with(document: object, jws: CompactJws) -> None:
    """Check that a key of this JWK set has signed an assertion. Raises InvalidJwt, OutboundFailed."""
    algorithm, kid = _checked_header(jws, strict=True)
    _check_with(_candidates(parse_jwks(document), kid, algorithm), jws, algorithm)


def _checked_header(jws: CompactJws, *, strict: bool) -> tuple[str, str | None]:
    """The algorithm and the key id that a header names. Raises InvalidJwt."""
    if "crit" in jws.header or "b64" in jws.header:
        raise InvalidJwt("an extension that is not understood")
    if strict and not _KEY_HEADERS.isdisjoint(jws.header):
        raise InvalidJwt("a key, or the address of one, in the header")
    algorithm = jws.header.get("alg")
    allowed = _OF_ASSERTIONS if strict else ALGORITHMS
    if not isinstance(algorithm, str) or algorithm not in allowed:
        raise InvalidJwt("an algorithm that is not allowed")
    kid = jws.header.get("kid")
    if kid is not None and not isinstance(kid, str):
        raise InvalidJwt("`kid` is not text")
    return algorithm, kid


def _check_with(candidates: Sequence[PublishedKey], jws: CompactJws, algorithm: str) -> None:
    if len(candidates) != 1:
        raise InvalidJwt("no key, or no single key, of that id and algorithm")
    published = candidates[0]
    if not published.verifiers[algorithm].verify(jws.signing_input, published.key, jws.signature):
        raise InvalidJwt("the signature does not match")


def audiences(claims: Mapping[str, Any]) -> Sequence[str]:
    """The values of `aud`, which is one text or several. Raises InvalidJwt when it is neither."""
    given = claims.get("aud")
    if isinstance(given, str):
        return (given,)
    if isinstance(given, list) and all(isinstance(each, str) for each in given):
        return given
    raise InvalidJwt("`aud` is missing, or not a string or list of strings")


def parse_jwks(document: object) -> tuple[PublishedKey, ...]:
    """The signature keys in a JWK set; keys of other kinds are left out, as RFC 7517 section 5 asks.

    Raises: OutboundFailed when it is no JWK set.
    """
    members = document.get("keys") if isinstance(document, Mapping) else None
    if not isinstance(members, list) or len(members) > _MAX_KEYS:
        raise OutboundFailed("the answer is not a JWK set", temporary=False)
    return tuple(key for member in members if (key := published_key(member)) is not None)


def published_key(member: object) -> PublishedKey | None:
    """The public key that a JWK describes; None for one that signs nothing here, too weak or too large."""
    if not isinstance(member, dict) or member.get("use", "sig") != "sig":
        return None
    members = {name: value for name, value in member.items() if name != "d" and isinstance(value, str)}
    verifiers: dict[str, Algorithm] = {}
    key: Any = None
    for algorithm in sorted(_possible(members)):
        try:
            parsed = PyJWK(members, algorithm=algorithm)
        except (PyJWTError, ValueError):  # the latter for a point that is not on its curve
            return None
        key, verifiers[algorithm] = parsed.key, parsed.Algorithm
    if key is None or (members["kty"] == "RSA" and not _is_bounded(key)):
        return None
    return PublishedKey(members.get("kid"), key, verifiers)


def _is_bounded(key: RSAPublicKey) -> bool:
    exponent = key.public_numbers().e
    return key.key_size in _RSA_BITS and exponent.bit_length() <= _RSA_EXPONENT_BITS


def _possible(members: Mapping[str, Any]) -> frozenset[str]:
    """The algorithms that a key's type allows, or the one that it names."""
    kty, curve = members.get("kty"), members.get("crv")
    if kty == "RSA":
        fitting = frozenset(name for name in ALGORITHMS if name[:2] in ("RS", "PS"))
    elif kty == "EC":
        fitting = frozenset({_CURVES[curve]} if curve in _CURVES else ())
    else:
        fitting = frozenset({"EdDSA"} if kty == "OKP" and curve in _EDWARDS_CURVES else ())
    named = members.get("alg")
    return fitting if named is None else fitting & {named}


def _candidates(keys: Sequence[PublishedKey], kid: str | None, algorithm: str) -> list[PublishedKey]:
    return [key for key in keys if algorithm in key.verifiers and (kid is None or key.kid == kid)]
