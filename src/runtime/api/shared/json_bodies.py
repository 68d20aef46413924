"""Parses JSON bodies strictly: duplicate members and other ambiguous input is refused."""

import json
import math
import re
from itertools import accumulate
from typing import Any

from runtime.domain import strict_json
from runtime.domain.errors import BadRequest, TooLarge

MAX_BODY_BYTES = 1024 * 1024
MAX_CHANGESET_BYTES = 96 * 1024 * 1024
MAX_DEPTH = 64
# One that is not closed ends with the body: trying again at each quote in it would take hours.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_EXACT = 2**53  # above, floating point leaves integers out
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS = bytes(set(range(256)) - _STEPS.keys())


def read_json(body: bytes, content_type: str | None, *, limit: int = MAX_BODY_BYTES) -> Any:
    """The value in a request body.

    Raises: TooLarge above *limit* bytes. BadRequest for another content type, and for what is not JSON in
        UTF-8 with distinct members: a member given twice, NaN, numbers beyond floating point, NUL, or more
        than 64 levels.
    """
    if len(body) > limit:
        raise TooLarge(f"the body has more than {limit} bytes")
    kind = (content_type or "application/json").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise BadRequest("the content type must be `application/json`")
    if _depth(body) > MAX_DEPTH:
        raise BadRequest(f"the body is nested deeper than {MAX_DEPTH} levels")
    try:
        value = _read(body.decode("utf-8"))
    except UnicodeDecodeError:
        raise BadRequest("the body is not UTF-8") from None
    except ValueError as failure:
        raise BadRequest(_told(failure)) from None
    if b"\\u0000" in body and _has_nul(value):
        raise BadRequest("the body contains a NUL character")
    return value


def _depth(body: bytes) -> int:
    """How deep brackets stand inside one another at most, strings left out."""
    if (opening := body.count(b"[") + body.count(b"{")) <= MAX_DEPTH:
        return opening  # most bodies: not even all of them inside one another would be too deep
    brackets = _STRING.sub(b"", body).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0)


def _finite(text: str) -> float:
    """The number. One without a fraction is an integer, however it is written: JSON Schema section 4.2.3."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return int(number) if number.is_integer() and abs(number) <= _EXACT else number


_read = strict_json.reader(parse_float=_finite)


def _has_nul(value: object) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, list):
        return any(_has_nul(entry) for entry in value)
    if isinstance(value, dict):
        return any(_has_nul(name) or _has_nul(entry) for name, entry in value.items())
    return False


def _told(failure: Exception) -> str:
    if isinstance(failure, json.JSONDecodeError):
        return f"the body is not JSON: {failure.msg.lower()} at line {failure.lineno} column {failure.colno}"
    return f"the body is not JSON: {failure}"
