"""Parses JSON strictly: duplicate members and other ambiguous input is refused.

Spec: RFC 8259 section 4 leaves open what a member given twice means, and knows no NaN.
"""

import json
from collections.abc import Callable
from typing import Any

Reader = Callable[[bytes | str], Any]


def reader(*, parse_float: Callable[[str], Any] | None = None) -> Reader:
    """A function that gives the value of a JSON text, with distinct member names and finite numbers.

    It raises ValueError, also when the text is nested too deep.

    Args:
        parse_float: what a number with a fraction or an exponent is read as.
    """
    # Made once: `json.loads` with hooks makes a decoder each time, which takes longer than a token's header.
    decoder = json.JSONDecoder(
        object_pairs_hook=_distinct, parse_constant=_no_constant, parse_float=parse_float
    )

    def read(text: bytes | str) -> Any:
        if isinstance(text, bytes):
            text = text.decode(json.detect_encoding(text), "surrogatepass")
        try:
            return decoder.decode(text)
        except RecursionError:
            raise ValueError("nested too deeply") from None

    return read


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member occurs twice in one object")
    return members


def _no_constant(name: str) -> None:
    raise ValueError(f"`{name}` is not JSON")


parse = reader()
