"""The canonical form of a plan, with and without the short way."""

import math
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from reconciler.plan.canonical_json import canonical, canonical_pieces

_TEXT = st.text(st.characters(codec="utf-8"))
_NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
_VALUES = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(_TEXT, inner),
)


@given(st.dictionaries(_TEXT, _VALUES))
def test_it_is_what_the_standard_says(value: dict[str, Any]) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@given(st.dictionaries(_TEXT, _VALUES))
def test_in_pieces_it_is_the_same(value: dict[str, Any]) -> None:
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
    assert canonical(value) == rfc8785.dumps(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, 2**53, -(10**20), "\ud800"])
def test_what_has_no_canonical_form(value: Any) -> None:
    assert canonical({"a": 1})

    with pytest.raises(ValueError):
        canonical({"a": value})
