"""The claims of the zone's tokens."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.domain.oauth import claims
from runtime.domain.oauth.claims import AccessTokenFacts, ChainActor
from runtime.domain.oauth.entity_profiles import EntityProfile, profile_of

NOW = datetime(2026, 11, 21, 12, 0, 0, 700_000, tzinfo=UTC)

ISSUER = "https://zone.example"


def facts(**changes):
    plain = AccessTokenFacts(
        issuer=ISSUER,
        subject="ada",
        subject_profile=EntityProfile.USER,
        audience="https://api.example",
        client_id="agent",
        scopes=frozenset({"write", "read"}),
        issued_at=NOW,
        expires_at=NOW.replace(hour=13),
        token_id="t1",
        session_id="s1",
        authenticated_at=NOW.replace(hour=11),
        acr="2",
        actors=(ChainActor("agent", ISSUER, "agent-1", "ai_agent"), ChainActor("portal")),
    )
    return plain._replace(**changes)


def test_writes_every_claim():
    """All facts are there, times in whole seconds, scopes in one order, the chain nested."""
    assert claims.access_token(facts(confirmation={"jkt": "x"}, extra={"purpose": "demo"})) == {
        "iss": "https://zone.example",
        "sub": "ada",
        "sub_profile": "user",
        "aud": "https://api.example",
        "client_id": "agent",
        "scope": "read write",
        "iat": 1795262400,
        "exp": 1795266000,
        "jti": "t1",
        "sid": "s1",
        "auth_time": 1795258800,
        "acr": "2",
        "act": {
            "sub": "agent",
            "iss": "https://zone.example",
            "client_id": "agent-1",
            "sub_profile": "ai_agent",
            "act": {"sub": "portal"},
        },
        "cnf": {"jkt": "x"},
        "purpose": "demo",
    }


def test_leaves_out_what_is_not():
    """No scopes, no session, no user signed in and no chain: no claims for them."""
    bare = facts(scopes=frozenset(), session_id=None, authenticated_at=None, acr=None, actors=())

    assert claims.access_token(bare).keys() == {
        *("iss", "sub", "sub_profile", "aud", "client_id", "iat", "exp", "jti")
    }


@pytest.mark.parametrize("before", [frozenset(), frozenset({"read"})], ids=["no scopes", "a scope"])
@pytest.mark.parametrize("after", [frozenset(), frozenset({"write", "admin"})], ids=["none", "others"])
def test_a_reissued_token_says_what_a_new_one_would(before, after):
    """Whatever scopes the first one had, only scopes, times and id differ."""
    first = claims.access_token(facts(scopes=before))
    times = {"issued_at": NOW.replace(minute=5), "expires_at": NOW.replace(hour=14), "token_id": "t2"}
    anew = claims.access_token(facts(scopes=after, **times))

    again = claims.reissued(first, after, issued_at=anew["iat"], expires_at=anew["exp"], token_id="t2")

    assert again == anew
    assert first == claims.access_token(facts(scopes=before))


def test_extra_claims_replace_nothing():
    """An extra claim cannot take the place of one the service answers for, even of an absent one."""
    with pytest.raises(ValueError, match="act"):
        claims.access_token(facts(actors=(), extra={"act": {"sub": "someone"}}))


ACTORS = st.builds(
    ChainActor,
    st.text(min_size=1),
    st.sampled_from([None, ISSUER]),
    st.none() | st.text(),
    st.sampled_from([None, "service", "ai_agent", "service ai_agent"]),
)


@pytest.mark.threat("15d")
@given(st.lists(ACTORS, max_size=claims.MAX_CHAIN_DEPTH).map(tuple))
def test_a_chain_survives_the_token(actors):
    """Every actor that is written is read again, in order, so a chain is never shortened."""
    assert claims.actors_of({"iss": ISSUER, "act": claims.nest_actors(actors)}) == actors


@pytest.mark.threat("15d")
@pytest.mark.parametrize(
    "act",
    [
        "agent",
        {"sub": 1},
        {},
        {"sub": "a", "act": "b"},
        {"sub": "a", "iss": "https://elsewhere.example"},
        {"sub": "a", "client_id": 1},
        {"sub": "a", "sub_profile": ["ai_agent"]},
        claims.nest_actors((ChainActor("a"),) * 9),
    ],
)
def test_a_strange_chain_is_refused(act):
    """What this service would not have written, or too deep a chain, is not read as a shorter one."""
    with pytest.raises(ValueError, match="act"):
        claims.actors_of({"iss": ISSUER, "act": act})


@pytest.mark.parametrize(
    ("traits", "profile"),
    [
        (None, "service"),
        ([], "service"),
        (["mcp-server"], "service"),
        (["ai-agent"], "ai_agent"),
        (["gateway", "ai-agent"], "ai_agent"),
    ],
)
def test_the_trait_of_an_agent_makes_it_one(traits, profile):
    """Any other application is a service."""
    assert profile_of(traits) == profile


def test_at_hash_is_the_one_of_the_standard():
    """The left half of the digest, of the size that the algorithm names."""
    token = "jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y"

    assert claims.at_hash(token, "RS256") == "77QmUPtjPfzWtF2AnpK9RQ"
    assert len(claims.at_hash(token, "ES384")) == 32
    assert len(claims.at_hash(token, "EdDSA")) == 43


def test_times_have_a_zone():
    """A time without zone would be read differently on another machine."""
    with pytest.raises(ValueError, match="zone"):
        claims.seconds(NOW.replace(tzinfo=None))


@pytest.mark.parametrize(
    ("said", "verified"), [(True, True), ("true", True), (False, False), ("false", False), (1, False)]
)
def test_an_address_is_verified_by_true_alone(said: object, verified: bool) -> None:
    """The boolean and its text count; a number that equals `True` in Python does not."""
    assert claims.has_verified_email({"email_verified": said}) is verified


def test_an_address_of_which_nothing_is_said_is_not_verified() -> None:
    """Without `email_verified` nobody vouches for the address."""
    assert not claims.has_verified_email({"email": "ada@acme.example"})
