"""Verifies what a zone has signed: access tokens and revocation lists. Spec: RFC 7515; RFC 8725 3.11."""

from collections.abc import Mapping
from typing import Any

import jwt

from zonewright.keys import ZoneKeys

_ALGORITHMS = ("RS256", "ES256")


class NotSigned(ValueError):
    """The text is no JWS of the zone, or not one of the type that was expected."""


async def verified_claims(jws: str, keys: ZoneKeys, *, typ: str, **expected: Any) -> Mapping[str, Any]:
    """The claims of a JWS that one of the zone's keys has signed.

    Args:
        typ: its type, with or without `application/` in front: each purpose of a signature has its own.
        expected: further arguments for `jwt.decode`: `issuer`, `audience`, `leeway`, `options`.
    Raises: NotSigned; ZoneUnreachable.
    """
    try:
        header = jwt.get_unverified_header(jws)
        algorithm, kid = header.get("alg"), header.get("kid")
        if header.get("typ") not in (typ, f"application/{typ}"):
            raise NotSigned(f"its `typ` is not `{typ}`")
        if "crit" in header or not isinstance(kid, str):
            raise NotSigned("its header has no `kid`, or a `crit`")
        if (key := await keys.get(kid)) is None:
            raise NotSigned("its `kid` is not in the zone's JWK set")
        if algorithm not in _ALGORITHMS or key.algorithm_name != algorithm:
            raise NotSigned("it is signed with another algorithm than its key is for")
        claims: Mapping[str, Any] = jwt.decode(jws, key, algorithms=[algorithm], **expected)
    except (jwt.PyJWTError, TypeError, RecursionError) as failure:
        raise NotSigned(str(failure)) from failure
    return claims
