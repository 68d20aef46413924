"""Reads claims of a token whose signature is not verified yet, to find the key that verifies it."""

import re

from runtime.adapters.keys.jose import MalformedJwt, parse, same_type

# What an id may look like. A database does not take every text there is, and nobody has proved anything yet.
_ID = re.compile(r"[!-~]{1,255}")


def claim(token: str, name: str) -> str | None:
    """An id claim of an unverified token; None when it has none, or is malformed."""
    try:
        value = parse(token).unverified_claims.get(name)
    except MalformedJwt:
        return None
    return _id(value)


def is_of_type(token: str, typ: str) -> bool:
    """Tell whether a token says that it is of that class."""
    try:
        return same_type(parse(token).header.get("typ"), typ)
    except MalformedJwt:
        return False


def key_id(token: str) -> str | None:
    """The id of the key that a token says it was signed with."""
    try:
        value = parse(token).header.get("kid")
    except MalformedJwt:
        return None
    return _id(value)


def _id(value: object) -> str | None:
    return value if isinstance(value, str) and _ID.fullmatch(value) else None
