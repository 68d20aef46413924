"""The value types that members share."""

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from runtime.domain.kinds.values import Uri

URI = TypeAdapter(Uri)
PUBLISHED = jsonschema_rs.Draft202012Validator({**URI.json_schema(), "format": "uri"}, validate_formats=True)
# What URIs are made of, and what they are not.
PIECES = [
    "a:",
    "http://",
    "[::1]",
    "u@",
    ":80",
    "/",
    "?",
    "#",
    "%20",
    "%z",
    "é",
    " ",
    "<",
    "\\",
    "x",
    "*",
    "]",
    "[",
]


def is_uri(text: str) -> bool:
    try:
        return bool(URI.validate_python(text))
    except ValidationError:
        return False


@pytest.mark.parametrize(
    "text",
    [
        "https://a.example",
        "http://localhost:8080/callback",
        "http://[::1]:8080/callback",
        "com.example.app:/callback",
        "com.example.app:/",
        "urn:ietf:wg",
        "https://a.example/x?y=%20#z",
    ],
)
def test_is_an_absolute_uri(text: str) -> None:
    """Addresses, private schemes and names."""
    assert is_uri(text)


@pytest.mark.parametrize(
    "text",
    ["", "a", "a.example/x", "https://", "w:", "https://é.example", "https://a/%zz", "http://[::1", "x:|"],
)
def test_what_is_no_absolute_uri_is_none(text: str) -> None:
    """What has no scheme, leads nowhere, or holds what RFC 3986 wants encoded."""
    assert not is_uri(text)


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join))
def test_is_what_the_published_schema_says(text: str) -> None:
    """Whoever checks with the JSON Schema comes to the same answer."""
    assert is_uri(text) == PUBLISHED.is_valid(text)
