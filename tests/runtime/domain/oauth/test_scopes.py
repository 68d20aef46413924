"""Scope strings and the scope algebra."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.domain.errors import InvalidScope
from runtime.domain.oauth import scopes
from runtime.domain.oauth.scopes import narrow

some_scopes = st.frozensets(st.sampled_from(["read", "write", "admin", "share", "openid"]))
limits = st.lists(st.none() | some_scopes, max_size=4)


def test_parses_tokens_with_single_spaces():
    """A scope parameter is a set of tokens."""
    assert scopes.parse("write read read") == {"read", "write"}
    assert scopes.parse("") == frozenset()


@pytest.mark.threat("31k")
@pytest.mark.parametrize(
    "text",
    [" read", "read ", "read  write", "read\twrite", "read\n", 'a"b', "a\\b", "é", "a\x00", "x" * 9000,
     " ".join(f"s{i}" for i in range(201))],
)  # fmt: skip
def test_refuses_what_the_grammar_does_not_allow(text):
    """Other separators, quotes, backslashes, control characters and excess are refused, not repaired."""
    with pytest.raises(InvalidScope):
        scopes.parse(text)


@given(st.frozensets(st.text("abc:/.-_", min_size=1, max_size=8), max_size=20))
def test_text_and_set_are_inverse(given_scopes):
    """Writing a set and reading it again gives the set, in one order."""
    assert scopes.parse(scopes.to_text(given_scopes)) == given_scopes


def test_issues_the_intersection_and_names_the_rest():
    """Every limit takes its part, and what was refused is told."""
    outcome = narrow(
        frozenset({"read", "write", "share"}),
        frozenset({"read", "write"}),
        None,
        frozenset({"read", "share"}),
    )

    assert outcome.issued == {"read"}
    assert outcome.refused == {"write", "share"}


def test_no_scope_asked_means_all_within_the_limits():
    """A request without `scope` gets what every limit allows, and nothing when nothing limits."""
    assert narrow(None, frozenset({"a", "b"}), frozenset({"b"})).issued == {"b"}
    assert narrow(None).issued == frozenset()


@pytest.mark.threat("16f")
@given(st.none() | some_scopes, limits)
def test_never_issues_beyond_any_limit(requested, bounds):
    """Whatever is asked, the outcome stays within each limit and within what was asked."""
    outcome = narrow(requested, *bounds)

    assert not [bound for bound in bounds if not (bound is None or outcome.issued <= bound)]
    if requested is not None:
        assert outcome.issued | outcome.refused == requested
        assert not outcome.issued & outcome.refused


@pytest.mark.threat("16f")
@given(some_scopes, st.lists(st.tuples(st.none() | some_scopes, limits), max_size=8))
def test_a_chain_never_widens(start, hops):
    """However a chain asks, each token is within the one it came from when that one is the subject."""
    held = start
    for requested, bounds in hops:
        issued = narrow(requested, held, *bounds).issued
        assert issued <= held
        held = issued


@given(some_scopes, limits)
def test_narrowing_twice_changes_nothing(requested, bounds):
    """The algebra is idempotent."""
    once = narrow(requested, *bounds).issued
    assert narrow(once, *bounds).issued == once
