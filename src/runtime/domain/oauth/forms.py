"""Parses form bodies strictly: duplicate parameters and other ambiguous input is refused."""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote_plus

from runtime.domain.errors import FormTooLarge, InvalidRequest

MAX_BODY_BYTES = 64 * 1024
MAX_PARAMETERS = 100
CONTENT_TYPE = "application/x-www-form-urlencoded"
# Values of these come from a few, and hold no secret: they are decoded once.
_FEW = frozenset({"grant_type", "subject_token_type", "actor_token_type", "requested_token_type", "resource"})
_MAX_REMEMBERED_CHARS = 300


class Form(NamedTuple):
    """A form in which every parameter stands once, but for those that may be repeated.

    Attributes:
        values: name -> value; a parameter sent empty is not there.
        resources, audiences: every `resource` and `audience` that was sent, in order.
    """

    values: Mapping[str, str]
    resources: tuple[str, ...] = ()
    audiences: tuple[str, ...] = ()


def read_form(body: bytes, content_type: str | None) -> Form:
    """The form in a request body.

    Raises: InvalidRequest for another content type, a parameter sent twice (empty ones count too), text that
        is not UTF-8 or holds NUL, or more than a hundred parameters; FormTooLarge above 64 KB.
    Spec: RFC 6749 section 3.2; zone interface, section 4.
    """
    if (content_type or "").partition(";")[0].strip().lower() != CONTENT_TYPE:
        raise InvalidRequest(f"the content type must be `{CONTENT_TYPE}`")
    return parse_form(body)


def parse_form(encoded: bytes) -> Form:
    """The form in a body or a query string. Raises as `read_form` does."""
    if len(encoded) > MAX_BODY_BYTES:
        raise FormTooLarge(f"the form has more than {MAX_BODY_BYTES} bytes")
    try:
        text = encoded.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidRequest("the form is not UTF-8") from None
    pieces = [piece for piece in text.split("&") if piece]
    if len(pieces) > MAX_PARAMETERS:
        raise InvalidRequest(f"the form has more than {MAX_PARAMETERS} parameters")
    values: dict[str, str] = {}
    resources: list[str] = []
    audiences: list[str] = []
    for piece in pieces:
        name, _, value = piece.partition("=")
        name = _decoded(name)
        few = name in _FEW and len(value) <= _MAX_REMEMBERED_CHARS
        value = _remembered(value) if few else _decoded(value)
        if name == "resource":
            resources.append(value)
        elif name == "audience":
            audiences.append(value)
        elif name in values:
            raise InvalidRequest("a parameter was sent twice", internal=repr(name[:60]))
        else:
            values[name] = value
    if "" in values.values():
        values = {name: value for name, value in values.items() if value}
    return Form(values, tuple(filter(None, resources)), tuple(filter(None, audiences)))


def decode_value(encoded: bytes) -> str:
    """The value of a parameter, from how it stands in a form.

    Raises: InvalidRequest for text that is not UTF-8 or holds NUL.
    """
    try:
        return _decoded(encoded.decode("utf-8"))
    except UnicodeDecodeError:
        raise InvalidRequest("the form is not UTF-8") from None


def without_parameter(encoded: bytes, name: bytes) -> tuple[bytes, bytes | None] | None:
    """A form without a parameter, and that one's value as it is encoded, which is None without it.

    None for a form that has it more than once. A name that is encoded in another way than plainly is not
    recognized: `parse_form` tells.
    """
    before, found, after = (b"&" + encoded).partition(b"&" + name + b"=")
    if not found:
        return before, None
    value, ampersand, rest = after.partition(b"&")
    rest = ampersand + rest
    return None if b"&" + name + b"=" in rest else (before + rest, value)


def _decoded(encoded: str) -> str:
    if "%" in encoded or "+" in encoded:
        try:
            encoded = unquote_plus(encoded, errors="strict")
        except UnicodeDecodeError:
            raise InvalidRequest("the form is not UTF-8") from None
    if "\0" in encoded:
        raise InvalidRequest("the form contains a NUL character")
    return encoded


_remembered = lru_cache(maxsize=2048)(_decoded)
