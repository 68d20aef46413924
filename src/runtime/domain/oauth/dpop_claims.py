"""DPoP proof claims: checks `htm`, `htu`, `iat` and `ath` against the request. Spec: RFC 9449 section 4.3."""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from hmac import compare_digest
from typing import Any
from urllib.parse import urlsplit

from runtime.domain.oauth.assertions import InvalidAssertion, named, token_id
from runtime.domain.oauth.claims import is_time

TYPE = "dpop+jwt"
WINDOW_SECONDS = 60  # a proof is made for one request; clocks differ by this much, either way
_DEFAULT_PORTS = {"https": 443, "http": 80}


def check_proof(
    claims: Mapping[str, Any], *, method: str, uri: str, now: datetime, access_token: str | None = None
) -> str:
    """Check that a proof is about this request; its `jti`, by which a second use is recognised.

    Args:
        uri: the address that was asked for, as this service knows it: never made from what a request says.
        access_token: what the proof comes with at an API.
    Raises: InvalidAssertion.
    """
    if named(claims, "htm") != method:
        raise InvalidAssertion("`htm` is not the method of the request")
    if not same_target(named(claims, "htu"), uri):
        raise InvalidAssertion("`htu` is not the URL of the request")
    issued_at = claims.get("iat")
    if not is_time(issued_at) or abs(issued_at - now.timestamp()) > WINDOW_SECONDS:
        raise InvalidAssertion("`iat` is missing or not current")
    if access_token is not None and not compare_digest(
        named(claims, "ath").encode(), digest(access_token).encode()
    ):
        raise InvalidAssertion("`ath` belongs to another access token")
    return token_id(claims)


def digest(access_token: str) -> str:
    """The `ath` of an access token."""
    return urlsafe_b64encode(sha256(access_token.encode()).digest()).rstrip(b"=").decode("ascii")


def same_target(given: str, uri: str) -> bool:
    """Tell whether both name one address, query and fragment apart. Spec: RFC 9449 section 4.3, item 9."""
    try:
        return _target(given) == _target(uri)
    except ValueError:
        return False


def _target(uri: str) -> tuple[str, str, int | None, str]:
    parts = urlsplit(uri)
    if parts.username is not None or not parts.hostname:
        raise ValueError("no plain address")
    return parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme), parts.path or "/"


def is_thumbprint(text: str) -> bool:
    """Tell whether a text can be the SHA-256 thumbprint of a key: 43 base64url characters."""
    return len(text) == 43 and text.isascii() and all(char.isalnum() or char in "-_" for char in text)
