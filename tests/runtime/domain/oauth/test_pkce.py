"""Proof key for code exchange."""

import pytest

from runtime.domain.errors import InvalidGrant, InvalidRequest
from runtime.domain.oauth import pkce

VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


@pytest.mark.standard("RFC 7636")
def test_challenge_is_the_one_of_the_standard():
    """The example of RFC 7636 appendix B comes out."""
    assert pkce.challenge_of(VERIFIER) == CHALLENGE


def test_the_right_verifier_passes():
    """A verifier whose digest was announced is accepted."""
    assert pkce.check_challenge(CHALLENGE, "S256", required=True) == CHALLENGE
    pkce.check_verifier(VERIFIER, CHALLENGE)


def test_nothing_announced_and_nothing_proved_passes_where_optional():
    """Where PKCE is optional a flow without it goes through."""
    assert pkce.check_challenge(None, None, required=False) is None
    pkce.check_verifier(None, None)


@pytest.mark.threat("2c")
@pytest.mark.parametrize("method", ["plain", None, "s256", "S512", ""])
def test_only_s256_is_a_method(method):
    """`plain`, an absent method (which means plain) and everything unknown are refused."""
    with pytest.raises(InvalidRequest):
        pkce.check_challenge(CHALLENGE, method, required=False)


@pytest.mark.threat("2a")
def test_a_required_challenge_may_not_be_missing():
    """A zone that requires PKCE refuses a request without a challenge."""
    with pytest.raises(InvalidRequest):
        pkce.check_challenge(None, None, required=True)


@pytest.mark.threat("2b")
def test_a_verifier_without_a_stored_challenge_is_a_downgrade():
    """Somebody took the challenge out on the way; the honest client still proves its verifier."""
    with pytest.raises(InvalidGrant):
        pkce.check_verifier(VERIFIER, None)


@pytest.mark.threat("2d")
@pytest.mark.parametrize("verifier", ["a" * 42, "a" * 129, "a" * 43 + "\n", "a" * 42 + "+", "é" * 50, ""])
def test_a_malformed_verifier_is_an_invalid_request(verifier):
    """Length and characters are checked before anything is compared."""
    with pytest.raises(InvalidRequest):
        pkce.check_verifier(verifier, CHALLENGE)


@pytest.mark.parametrize("verifier", ["a" * 43, "a" * 128, None])
def test_a_wrong_or_missing_verifier_is_an_invalid_grant(verifier):
    """A well-formed verifier that is not the announced one, or none, does not redeem the code."""
    with pytest.raises(InvalidGrant):
        pkce.check_verifier(verifier, CHALLENGE)


@pytest.mark.parametrize("challenge", ["short", CHALLENGE + "A", CHALLENGE[:-1] + "="])
def test_a_challenge_is_a_digest(challenge):
    """What cannot be a SHA-256 digest is refused at authorize, not found out at the token endpoint."""
    with pytest.raises(InvalidRequest):
        pkce.check_challenge(challenge, "S256", required=False)
