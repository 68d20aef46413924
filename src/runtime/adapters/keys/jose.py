"""Strict parsing of compact JWS (RFC 7515): lenient parsing is where token attacks begin."""

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from runtime.domain import strict_json

MAX_TOKEN_CHARS = 16_384
_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\Z")


class InvalidJwt(Exception):
    """The token is not acceptable. The message is for the log alone and holds nothing of the token."""


class MalformedJwt(InvalidJwt):
    """It is not even a compact JWS with JSON inside."""


@dataclass(frozen=True, slots=True)
class CompactJws:
    """The parts of a JWT whose signature is not verified yet."""

    header: dict[str, Any]
    unverified_claims: dict[str, Any]
    signing_input: bytes
    signature: bytes


def parse(token: str) -> CompactJws:
    """Take a compact JWS apart.

    Raises: MalformedJwt when it is not exactly three base64url parts (so a five-part JWE, a trailing
        newline and padding are refused), is longer than 16 KB, or holds anything but JSON objects with
        distinct members.
    """
    if len(token) > MAX_TOKEN_CHARS or not _COMPACT.match(token):
        raise MalformedJwt("not a compact JWS")
    signing_input, _, signature = token.rpartition(".")
    header, _, payload = signing_input.partition(".")
    return CompactJws(
        header=_json_object(_decode(header)),
        unverified_claims=_json_object(_decode(payload)),
        signing_input=signing_input.encode("ascii"),
        signature=_decode(signature),
    )


def same_type(given: object, wanted: str) -> bool:
    """Compare `typ` values; case and `application/` make no difference. Spec: RFC 7515 section 4.1.9."""
    return isinstance(given, str) and given.lower().removeprefix("application/") == wanted.lower()


def check_class(jws: CompactJws, accepted: Collection[str]) -> None:
    """Check that a token is none of another class: its `typ`, if it has one, is among those accepted.

    What was issued for another purpose (an access token, a proof, a notice of logout) says so there, and is
    refused however well it is signed. Raises InvalidJwt.
    Spec: RFC 8725 sections 3.11 and 3.12; RFC 9068 section 2.1.
    """
    if "typ" in jws.header and not any(same_type(jws.header["typ"], each) for each in accepted):
        raise InvalidJwt("wrong `typ`")


def _decode(part: str) -> bytes:
    try:
        decoded = urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (binascii.Error, ValueError):
        raise MalformedJwt("a part is not base64url") from None
    if urlsafe_b64encode(decoded).rstrip(b"=") != part.encode("ascii"):
        # Or one signature could be written in several ways.
        raise MalformedJwt("a part is not canonical base64url")
    return decoded


def _json_object(raw: bytes) -> dict[str, Any]:
    try:
        value = strict_json.parse(raw)
    except ValueError:
        raise MalformedJwt("a part is not JSON with distinct members") from None
    if not isinstance(value, dict):
        raise MalformedJwt("a part is not a JSON object")
    return value
