"""The claims that a session keeps of the token that it begins with."""

import json
from collections.abc import Mapping
from typing import Any

MAX_BYTES = 8 * 1024  # of all claims of a session together, as JSON
_MAX_DEPTH = 20  # of objects and lists in one another: readers and databases take some hundreds
# They tie a token to one response, and say nothing of whom it is about.
_OF_THE_RESPONSE = frozenset({"nonce", "at_hash", "c_hash", "s_hash"})


def kept_claims(claims: Mapping[str, object], *, first: tuple[str, ...] = ()) -> dict[str, Any]:
    """The claims of an ID token, or of a workload's token, that are kept with a session.

    Claims that a database does not store, or for which there is no room, are left out.

    Args:
        first: what there must be room for before all others: the rest has what is left of `MAX_BYTES`.
    """
    kept: dict[str, Any] = {}
    room = MAX_BYTES
    for name in dict.fromkeys((*first, *claims)):
        size = _stored_size(name, claims[name]) if name in claims else None
        if size is not None and size <= room and name not in _OF_THE_RESPONSE:
            kept[name] = claims[name]
            room -= size
    return kept


def _stored_size(name: str, value: object) -> int | None:
    """Bytes of a claim as JSON; None for what a database does not take."""
    if not _is_storable({name: value}, _MAX_DEPTH):
        return None
    try:
        return len(json.dumps({name: value}, ensure_ascii=False, allow_nan=False).encode())
    except ValueError:  # half of a character, or no number
        return None


def _is_storable(value: object, depth: int) -> bool:
    """Whether a value of JSON has no NUL, no number of more than 64 bits, and at most so many levels."""
    if isinstance(value, str):
        return "\0" not in value
    if isinstance(value, int):
        return -(2**63) <= value < 2**64
    if not isinstance(value, dict | list):
        return True
    inner = (*value, *value.values()) if isinstance(value, dict) else value
    return depth > 0 and all(_is_storable(each, depth - 1) for each in inner)
