"""Finding the resource that a request means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.domain.oauth.resources import ResourceIndex, canonical

INDEX = ResourceIndex(
    [
        ("https://api.example", False, "root"),
        ("https://api.example/v1", True, "v1"),
        ("https://api.example/v1/admin", True, "admin"),
        ("https://api.example/v1/admin/exact", False, "exact"),
        ("https://files.example/", True, "files"),
        ("https://tree.example/dir/", True, "dir"),
        ("https://query.example/search?kind=a", True, "query"),
        ("http://api.example/v1", True, "plain-http"),
        ("calendar-api", False, "calendar"),
        ("urn:example:mail", True, "mail"),
    ]
)


@pytest.mark.parametrize(
    ("requested", "found"),
    [
        ("https://api.example", "root"),
        ("https://api.example/", "root"),
        ("HTTPS://API.example:443/", "root"),
        ("https://api.example/v1", "v1"),
        ("https://api.example/%761", "v1"),
        ("https://api.example/v1/", "v1"),
        ("https://api.example/v1/users/7", "v1"),
        ("https://api.example/v1?x=/admin", "v1"),
        ("https://api.example/v1/admin", "admin"),
        ("https://api.example/v1/admin/x/y", "admin"),
        ("https://api.example/v1/admin/exact", "exact"),
        ("https://api.example/v1/admin/exact/below", "admin"),
        ("https://files.example/any/thing", "files"),
        ("https://files.example?x", "files"),
        ("https://tree.example/dir/file", "dir"),
        ("https://query.example/search?kind=a", "query"),
        ("http://api.example/v1/x", "plain-http"),
        ("calendar-api", "calendar"),
        ("urn:example:mail", "mail"),
    ],
)
def test_finds_the_exact_resource_or_the_longest_prefix(requested, found):
    """Exact first, then the longest prefix that ends at a boundary."""
    assert INDEX.find(requested) == found


@pytest.mark.threat("16d")
@pytest.mark.parametrize(
    "requested",
    [
        "https://api.example/v2",
        "https://api.example/v1evil",
        "https://api.example/v1%2Fadmin",
        "https://api.example:8443/v1",
        "https://api.example.evil.test/v1",
        "https://api.example@evil.test/v1",
        "https://api.example/v1/../v2",
        "https://api.example/v1/%2e%2e/v2",
        "https://api.example/v1\\..\\v2",
        "https://api.example/v1#fragment",
        "https://tree.example/dir",
        "https://query.example/search?kind=ab",
        "ftp://api.example/v1",
        "calendar-api/",
        "calendar-api/sub",
        "urn:example:mail/below",
        "https://api.internal/admin",
        "",
        "https://",
        "https://api.example/v1\n",
    ],
)
@pytest.mark.deviation("prefix-fragment")
def test_finds_nothing_else(requested):
    """Neighbours, other origins, and spellings that readers understand differently name no resource."""
    assert INDEX.find(requested) is None


@pytest.mark.deviation("prefix-host")
@pytest.mark.parametrize("spelling", ["https://a.example/x%7ey", "https://A.example:443/x~y"])
def test_spellings_of_one_resource_are_one(spelling):
    """Case of scheme and host, the default port and needless escapes make no difference."""
    assert canonical(spelling) == "https://a.example/x~y"


@given(st.text(max_size=60))
def test_canonical_is_settled(text):
    """The canonical form of a canonical form is itself, for any text."""
    once = canonical(text)
    assert once is None or canonical(once) == once


@given(st.lists(st.sampled_from(["a", "b", "c", "ab"]), max_size=6), st.sampled_from(["", "/", "?q", "/?q"]))
def test_a_prefix_found_is_a_prefix_at_a_boundary(segments, end):
    """What a prefix resource answers for starts with it and goes on at a boundary."""
    index = ResourceIndex([("https://h.example/a", True, "a"), ("https://h.example/a/b", True, "ab")])
    requested = "https://h.example/" + "/".join(segments) + end

    expected = "ab" if segments[:2] == ["a", "b"] else "a" if segments[:1] == ["a"] else None

    assert index.find(requested) == expected
