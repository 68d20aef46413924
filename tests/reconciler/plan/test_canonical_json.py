"""The canonical form of a plan, with and without the short way."""

import math
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from reconciler.plan.canonical_json import canonical, canonical_pieces

_TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
_NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
_VALUES = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(_TEXT, _VALUES, max_size=4))
def test_it_is_what_the_standard_says(value: dict[str, Any]) -> None:
    """RFC 8785, as another implementation has it."""
    assert canonical(value) == rfc8785.dumps(value)


@given(st.dictionaries(_TEXT, _VALUES, max_size=4))
def test_in_pieces_it_is_the_same(value: dict[str, Any]) -> None:
    """Whatever is gone through piece by piece."""
    in_turn = {name: iter(one) if isinstance(one, list) else one for name, one in value.items()}

    assert b"".join(canonical_pieces(in_turn)) == rfc8785.dumps(value)


@pytest.mark.parametrize(
    "value",
    [
        {"\U0001f600": 1, "\ufb33": 2},  # UTF-16 puts the first before the second
        {"a": 1.0, "b": 1e21, "c": 1e-7, "d": -0.0},
        {"a": "1.5e3 and 12345678901234567", "b": 'a \\"1.5\\" in quotes'},
        {"a": "\x00\x1f\x7f\u2028/<>"},
    ],
)
def test_what_the_standard_library_writes_otherwise(value: dict[str, Any]) -> None:
    """The order of names in UTF-16, numbers with fractions, and texts that look like them."""
    assert canonical(value) == rfc8785.dumps(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, 2**53, -(10**20), "\ud800"])
def test_what_has_no_canonical_form(value: Any) -> None:
    """What not every reader of JSON knows exactly."""
    assert canonical({"a": 1})

    with pytest.raises(ValueError):
        canonical({"a": value})
