"""What a token may say at most: a fact of the pure core each, which a state machine tries together."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from runtime.domain.errors import InvalidRequest, InvalidScope
from runtime.domain.oauth.attenuation import (
    Delegation,
    TokenLimits,
    UpstreamScopes,
    attenuate,
    connection_scopes,
    extend_chain,
    is_held_with,
    limit_upstream,
    originate,
)
from runtime.domain.oauth.claims import ChainActor

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
READ, WRITE = frozenset({"read"}), frozenset({"write"})
API = TokenLimits("https://api.example", READ | WRITE, 3600)
HELD = Delegation(API.audience, READ, (ChainActor("portal"),), NOW + timedelta(hours=8), "key")
ELSEWHERE = HELD._replace(audience="https://elsewhere.example")
AGENT = ChainActor("agent")


def exchanged(
    parent: Delegation, target: TokenLimits = API, requested: frozenset[str] | None = None
) -> Delegation:
    return attenuate(parent, target, requested, actor=AGENT, jkt=None, now=NOW)


def test_without_a_requested_scope_all_of_the_resources_are_meant() -> None:
    """What the resource has, where nothing else limits it."""
    assert originate(API, None, jkt=None, now=NOW).scopes == READ | WRITE


def test_the_users_word_limits_the_scopes() -> None:
    """What the user lets the client have is the most that it gets."""
    assert originate(replace(API, allowed=READ), None, jkt=None, now=NOW).scopes == READ


@pytest.mark.parametrize("target", [API, replace(API, allowed=READ)])
def test_a_scope_beyond_the_limits_is_refused(target: TokenLimits) -> None:
    """It is not dropped in silence."""
    with pytest.raises(InvalidScope):
        originate(target, READ | WRITE | {"root"}, jkt=None, now=NOW)


def test_for_the_same_resource_the_subject_token_limits_the_scopes() -> None:
    """Exchanging a token for what it is for already adds nothing."""
    assert exchanged(HELD).scopes == READ


def test_for_the_same_resource_a_scope_that_the_subject_token_lacks_is_refused() -> None:
    """Whatever the resource has and the user allows."""
    with pytest.raises(InvalidScope):
        exchanged(HELD, requested=WRITE)


def test_scopes_of_another_resource_neither_limit_nor_add() -> None:
    """Scopes belong to their resource, also when they have the same names."""
    assert exchanged(ELSEWHERE).scopes == READ | WRITE


@pytest.mark.parametrize(
    ("limit", "ends"),
    [
        ({}, timedelta(hours=1)),
        ({"lifetime_seconds": 60}, timedelta(seconds=60)),
        ({"ends": (None,)}, timedelta(hours=1)),
        ({"ends": (NOW + timedelta(minutes=9), None)}, timedelta(minutes=9)),
        ({"ends": (NOW + timedelta(minutes=9), NOW + timedelta(minutes=3))}, timedelta(minutes=3)),
    ],
    ids=["the default", "the resource's lifetime", "no end", "the session's end", "the grant's end"],
)
def test_a_token_ends_with_the_first_of_its_limits(limit: dict[str, object], ends: timedelta) -> None:
    """The lifetime of the resource, the session, the user's grant."""
    assert exchanged(HELD, replace(API, **limit)).expires_at == NOW + ends  # type: ignore[arg-type]


def test_a_token_ends_no_later_than_the_subject_token() -> None:
    """Whatever it is for."""
    soon = NOW + timedelta(minutes=2)
    assert exchanged(ELSEWHERE._replace(expires_at=soon)).expires_at == soon


def test_the_actor_comes_in_front_of_all_before_it() -> None:
    """Nobody who acted is dropped."""
    assert exchanged(HELD).actors == (AGENT, ChainActor("portal"))


def test_a_token_that_no_exchange_made_has_no_actors() -> None:
    """Nobody acts for anybody yet."""
    assert originate(API, None, jkt=None, now=NOW).actors == ()


def test_a_token_is_bound_to_the_key_that_its_sender_has_proved() -> None:
    """Not to the key of the subject token, which a resource server cannot have."""
    assert attenuate(HELD, API, None, actor=AGENT, jkt="mine", now=NOW).jkt == "mine"


@pytest.mark.parametrize(
    ("bound", "proved", "may"),
    [
        (None, None, True),
        (None, "key", True),
        ("key", "key", True),
        ("key", None, False),
        ("key", "x", False),
    ],
)
def test_a_bound_token_is_used_with_its_key(bound: str | None, proved: str | None, may: bool) -> None:
    """A token that is not bound may be used with any key."""
    assert is_held_with(bound, proved) is may


def test_the_eighth_actor_is_the_last() -> None:
    """A ninth is refused."""
    eight = tuple(ChainActor(f"app{number}") for number in range(8))
    assert len(extend_chain(eight[1:], eight[0])) == 8
    with pytest.raises(InvalidRequest, match="longer than 8"):
        extend_chain(eight, AGENT)


def test_an_actor_is_in_a_chain_twice_at_most() -> None:
    """Whatever its client id and profile: its name counts."""
    once = extend_chain((ChainActor("portal"),), AGENT)
    twice = extend_chain(once, ChainActor("agent", client_id="another"))
    with pytest.raises(InvalidRequest, match="too often"):
        extend_chain(twice, AGENT)


def test_policy_takes_scopes_away() -> None:
    """Everything else stays as it is."""
    assert HELD._replace(scopes=READ | WRITE).restricted_to(READ) == HELD


def test_policy_adds_no_scope() -> None:
    """A decision with more scopes than were asked about is a fault of the service."""
    with pytest.raises(ValueError, match="adds no scope"):
        HELD.restricted_to(READ | WRITE)


def test_a_provider_gives_at_most_what_it_was_asked_for() -> None:
    """What it leaves out is missing; what it adds is good for nothing."""
    admin = frozenset({"admin"})
    limited = limit_upstream(READ | WRITE, READ | admin)
    assert limited == UpstreamScopes(granted=READ, missing=WRITE, beyond=admin)


def test_a_refresh_brings_no_scope_back() -> None:
    """One that an answer has left out stays away when the next one names it."""
    first = limit_upstream(READ | WRITE, READ)
    assert limit_upstream(first.granted, READ | WRITE).granted == READ


@pytest.mark.parametrize(
    ("connected", "offered", "asked"),
    [
        (frozenset(), READ | WRITE, READ),
        (WRITE, READ | WRITE, READ | WRITE),
        (WRITE, READ, READ),
    ],
    ids=["a first connection", "what others use", "what the resource has lost"],
)
def test_a_connection_asks_for_what_is_wanted_and_used(
    connected: frozenset[str], offered: frozenset[str], asked: frozenset[str]
) -> None:
    """What an application requests and what the account is connected for, as far as the resource has it."""
    assert connection_scopes(READ, connected, offered) == asked
