"""Verification of DPoP proofs, which carry the key that they are signed with. Spec: RFC 9449 section 4.

A proof says nothing about who made it, only that whoever did has the key: what it is worth, the thumbprint in
an access token decides.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runtime.adapters.keys.jose import InvalidJwt, parse, same_type
from runtime.adapters.keys.remote import published_key
from runtime.adapters.keys.signing import thumbprint
from runtime.domain.oauth import assertions, dpop_claims

_REFUSED_HEADERS = frozenset({"crit", "b64", "jku", "x5u", "x5c"})
_PRIVATE_MEMBERS = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
# Key type -> the members that make its thumbprint. Spec: RFC 7638 section 3.2, RFC 8037 section 2.
_REQUIRED = {"RSA": ("e", "kty", "n"), "EC": ("crv", "kty", "x", "y"), "OKP": ("crv", "kty", "x")}


@dataclass(frozen=True, slots=True)
class DpopProof:
    """A proof whose signature is verified; whether it is about the request at hand, its claims tell."""

    thumbprint: str
    claims: Mapping[str, Any]


def verify_dpop_proof(text: str) -> DpopProof:
    """The proof in a `DPoP` header. Raises InvalidJwt."""
    jws = parse(text)
    if not same_type(jws.header.get("typ"), dpop_claims.TYPE):
        raise InvalidJwt("wrong `typ`")
    if not _REFUSED_HEADERS.isdisjoint(jws.header):
        raise InvalidJwt("a header member that is not allowed")
    algorithm, jwk = jws.header.get("alg"), jws.header.get("jwk")
    if algorithm not in assertions.ALGORITHMS:
        raise InvalidJwt("an algorithm that is not allowed")
    if not isinstance(jwk, dict) or not _PRIVATE_MEMBERS.isdisjoint(jwk):
        raise InvalidJwt("no public key in the header")
    key = published_key({"alg": algorithm, **jwk})
    if key is None or algorithm not in key.verifiers:
        raise InvalidJwt("a key that cannot be used, or not with that algorithm")
    if not key.verifiers[algorithm].verify(jws.signing_input, key.key, jws.signature):
        raise InvalidJwt("the signature does not match")
    return DpopProof(thumbprint({name: jwk[name] for name in _REQUIRED[jwk["kty"]]}), jws.unverified_claims)
