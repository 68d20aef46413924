"""Signing of a zone's tokens, and verification of tokens that the zone signed.

The algorithm comes from our own key record, never from a token's header, and `kid` is a lookup key in a
fixed map. Keys travel as parsed objects: PyJWT given a PEM would parse and check it again for each token.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal

import orjson
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from jwt.algorithms import Algorithm as JwaAlgorithm
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from jwt.exceptions import PyJWTError
from jwt.utils import base64url_encode

from runtime.adapters.keys.jose import CompactJws, InvalidJwt, MalformedJwt, parse, same_type
from runtime.domain.oauth.assertions import LEEWAY_SECONDS
from runtime.domain.oauth.claims import is_time

__all__ = ["Algorithm", "InvalidJwt", "MalformedJwt", "SigningKey", "VerificationKey", "verify"]

Algorithm = Literal["RS256", "ES256"]
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey

_RSA_BITS = 2048
_P256_BYTES = 32  # of each half of a signature
# Made once: they say how to sign, and keep nothing of what was signed.
_SHA256 = hashes.SHA256()
_PKCS1 = padding.PKCS1v15()
_ECDSA = ec.ECDSA(_SHA256)
_ALGORITHMS: dict[str, JwaAlgorithm] = {
    "RS256": RSAAlgorithm(RSAAlgorithm.SHA256),
    "ES256": ECAlgorithm(ECAlgorithm.SHA256, ec.SECP256R1),
}
# A key that the token brings along, or an extension we would have to understand, is never looked at.
_REFUSED_HEADERS = frozenset({"crit", "jwk", "jku", "x5u", "x5c", "b64"})


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A zone's private key with what is published of it.

    Attributes:
        kid: the RFC 7638 thumbprint of the public key.
        public_jwk: the member of the zone's JWK set, `kid`, `use` and `alg` included.
    """

    kid: str
    algorithm: Algorithm
    private_key: PrivateKey = field(repr=False, compare=False)
    public_jwk: dict[str, str] = field(compare=False)

    @classmethod
    def generate(cls, algorithm: Algorithm) -> "SigningKey":
        """A new key. RSA takes a noticeable fraction of a second."""
        if algorithm == "RS256":
            return cls._of(rsa.generate_private_key(public_exponent=65537, key_size=_RSA_BITS), algorithm)
        return cls._of(ec.generate_private_key(ec.SECP256R1()), algorithm)

    @classmethod
    def from_pem(cls, pem: bytes, algorithm: Algorithm) -> "SigningKey":
        """The key that `to_pem` wrote. Raises ValueError when it does not fit the algorithm.

        It comes out of a seal, unchanged: testing its primes again would take a hundred times as long.
        """
        key = serialization.load_pem_private_key(pem, None, unsafe_skip_rsa_key_validation=True)
        if isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
            return cls._of(key, algorithm)
        raise ValueError("neither an RSA nor an EC key")

    @classmethod
    def _of(cls, key: PrivateKey, algorithm: Algorithm) -> "SigningKey":
        public = key.public_key()
        _require_fit(public, algorithm)
        members = _public_members(public)
        kid = thumbprint(members)
        return cls(kid, algorithm, key, {**members, "kid": kid, "use": "sig", "alg": algorithm})

    def to_pem(self) -> bytes:
        """The private key in clear, PKCS #8: to be sealed at once."""
        return self.private_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def sign(self, claims: Mapping[str, Any], *, typ: str) -> str:
        """The compact JWS of the claims, with `typ` and `kid` in its header."""
        signed = self.signing_input(claims, typ=typ)
        return self.joined(signed, self.signature(signed))

    def signing_input(self, claims: Mapping[str, Any], *, typ: str) -> bytes:
        """What a signature of these claims is made of. Spec: RFC 7515 section 5.1."""
        return b"%s.%s" % (_header(self.algorithm, typ, self.kid), base64url_encode(orjson.dumps(claims)))

    def signature(self, signed: bytes) -> bytes:
        """The signature of a signing input, as RFC 7518 section 3 has it."""
        # Not in a thread: cryptography 50 holds the interpreter lock while it signs. Two threads that sign
        # reach 0.89 (RS256) and 0.94 (ES256) times the rate of one.
        if isinstance(self.private_key, rsa.RSAPrivateKey):
            return self.private_key.sign(signed, _PKCS1, _SHA256)
        r, s = decode_dss_signature(self.private_key.sign(signed, _ECDSA))
        return r.to_bytes(_P256_BYTES) + s.to_bytes(_P256_BYTES)

    @staticmethod
    def joined(signed: bytes, signature: bytes) -> str:
        """The compact JWS."""
        return (b"%s.%s" % (signed, base64url_encode(signature))).decode("ascii")


@lru_cache(maxsize=4096)
def _header(algorithm: str, typ: str, kid: str) -> bytes:
    """The first part of a token: the same for every token of a class that one key signs."""
    return base64url_encode(
        json.dumps({"alg": algorithm, "typ": typ, "kid": kid}, separators=(",", ":")).encode()
    )


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A public key and the one algorithm it is used with."""

    kid: str
    algorithm: Algorithm
    public_key: PublicKey = field(repr=False, compare=False)

    @classmethod
    def from_jwk(cls, jwk: Mapping[str, Any]) -> "VerificationKey":
        """The key a zone published, `kid` and `alg` included.

        Raises ValueError when it is not such a key.
        """
        algorithm = jwk.get("alg")
        if algorithm not in ("RS256", "ES256"):
            raise ValueError("`alg` is neither RS256 nor ES256")
        try:
            key = _ALGORITHMS[algorithm].from_jwk({name: str(value) for name, value in jwk.items()})
        except PyJWTError as failure:
            raise ValueError(str(failure)) from failure
        if not isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey):
            raise ValueError("not a public key")
        _require_fit(key, algorithm)
        return cls(str(jwk["kid"]), algorithm, key)

    @classmethod
    def of(cls, key: SigningKey) -> "VerificationKey":
        """The public half of a signing key."""
        return cls(key.kid, key.algorithm, key.private_key.public_key())


def verify(
    token: str,
    keys: Mapping[str, VerificationKey],
    *,
    typ: str,
    issuer: str | frozenset[str],
    audience: str | None,
    now: datetime,
    leeway_seconds: int = 0,
    allow_expired: bool = False,
    allow_early: bool = False,
) -> dict[str, Any]:
    """The claims of a token that one of *keys* signed.

    Args:
        keys: kid -> key; the only keys that count.
        typ: the token class: `at+jwt`, `JWT`, ...
        issuer: what `iss` must be, or one of several that are the same.
        audience: the one value `aud` must be; None leaves `aud` to the caller.
        leeway_seconds: clock difference put up with for the end. For the beginning it is a minute.
        allow_expired: leave `exp` unchecked, for an `id_token_hint`.
        allow_early: leave `iat` and `nbf` unchecked, for a token that is to be ended.
    Raises: InvalidJwt; MalformedJwt when it is not a compact JWS at all.
    Spec: RFC 8725; zone interface, section 4, row RFC 7515.
    """
    jws = parse(token)
    _verify_signature(jws, keys)
    if not same_type(jws.header.get("typ"), typ):
        raise InvalidJwt("wrong `typ`")
    claims = jws.unverified_claims
    if claims.get("iss") not in ({issuer} if isinstance(issuer, str) else issuer):
        raise InvalidJwt("another issuer")
    if audience is not None and claims.get("aud") != audience:
        raise InvalidJwt("another audience")
    check_times(
        claims,
        now=now,
        leeway_seconds=leeway_seconds,
        allow_expired=allow_expired,
        allow_early=allow_early,
    )
    return claims


def check_times(
    claims: Mapping[str, Any],
    *,
    now: datetime,
    leeway_seconds: int,
    allow_expired: bool = False,
    allow_early: bool = False,
) -> None:
    """Check `exp` and `iat`, which must be there, and `nbf`; arguments as in `verify`. Raises InvalidJwt.

    A token that has begun only just is none that somebody has made up: its clock may be ahead.
    """
    at = now.timestamp()
    if not is_time(claims.get("exp")) or not is_time(claims.get("iat")):
        raise InvalidJwt("`exp` or `iat` is missing or not a NumericDate")
    if not allow_expired and claims["exp"] <= at - leeway_seconds:
        raise InvalidJwt("expired")
    if not allow_early and claims["iat"] > at + LEEWAY_SECONDS:
        raise InvalidJwt("issued in the future")
    if "nbf" in claims and not is_time(claims["nbf"]):
        raise InvalidJwt("`nbf` is not a NumericDate")
    if "nbf" in claims and not allow_early and claims["nbf"] > at + LEEWAY_SECONDS:
        raise InvalidJwt("not valid yet")


def _verify_signature(jws: CompactJws, keys: Mapping[str, VerificationKey]) -> None:
    if not _REFUSED_HEADERS.isdisjoint(jws.header):
        raise InvalidJwt("a header member that is not allowed")
    kid = jws.header.get("kid")
    key = keys.get(kid) if isinstance(kid, str) else None
    if key is None:
        raise InvalidJwt("no key of that id")
    if jws.header.get("alg") != key.algorithm:
        raise InvalidJwt("another algorithm than the key's")
    if not _ALGORITHMS[key.algorithm].verify(jws.signing_input, key.public_key, jws.signature):
        raise InvalidJwt("the signature does not match")


def _require_fit(key: PublicKey, algorithm: Algorithm) -> None:
    if isinstance(key, rsa.RSAPublicKey):
        fits = algorithm == "RS256" and key.key_size >= _RSA_BITS
    else:
        fits = algorithm == "ES256" and isinstance(key.curve, ec.SECP256R1)
    if not fits:
        raise ValueError(f"the key does not fit {algorithm}")


def _public_members(key: PublicKey) -> dict[str, str]:
    """The required members of the JWK: what RFC 7638 hashes."""
    if isinstance(key, rsa.RSAPublicKey):
        numbers = key.public_numbers()
        return {"kty": "RSA", "n": _number(numbers.n), "e": _number(numbers.e)}
    point = key.public_numbers()
    return {"kty": "EC", "crv": "P-256", "x": _number(point.x, 32), "y": _number(point.y, 32)}


def _number(value: int, length: int = 0) -> str:
    return base64url_encode(value.to_bytes(length or (value.bit_length() + 7) // 8, "big")).decode("ascii")


def thumbprint(members: Mapping[str, str]) -> str:
    """The RFC 7638 thumbprint of a key, from the required members of its JWK alone."""
    canonical = json.dumps(members, separators=(",", ":"), sort_keys=True).encode()
    return base64url_encode(sha256(canonical).digest()).decode("ascii")
