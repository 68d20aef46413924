"""`max_age`, `acr_values`, `id_token_hint` and `prompt`: whether a session satisfies a request."""

from datetime import UTC, datetime, timedelta

import pytest

from runtime.domain.errors import LoginRequired, UnmetAuthenticationRequirements
from runtime.domain.kinds.role import User
from runtime.services.authority.browser_sessions import SignedInUser
from runtime.services.authorization.requirements import (
    LEEWAY_SECONDS,
    AuthenticationRequirements,
    are_met,
    require_met,
)
from runtime.storage.sql.sessions import SessionRecord

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def session(*, age_seconds: float | None = 0, acr: str | None = None) -> SignedInUser:
    """Ada, who signed in so long ago; None where the provider does not say when."""
    at = None if age_seconds is None else NOW - timedelta(seconds=age_seconds)
    times = {"created_at": NOW, "updated_at": NOW}
    of_zone = {"organization_id": "o", "zone_id": "z"}
    user = User(id="u", identifier="ada", email="ada@acme.example", email_verified=True, **of_zone, **times)
    record = SessionRecord(
        id="s",
        **of_zone,
        user_id="u",
        application_id=None,
        session_type="browser",
        authenticated_at=at,
        expires_at=NOW + timedelta(hours=1),
        acr=acr,
        **times,
    )
    return SignedInUser(record, user)


def test_a_request_that_asks_for_nothing_takes_any_session() -> None:
    """Also one of which nobody knows when its user signed in."""
    assert are_met(AuthenticationRequirements(), session(age_seconds=None), NOW)


@pytest.mark.parametrize(("age_seconds", "is_recent"), [(0, True), (9.9, True), (10, False), (11, False)])
def test_a_session_is_recent_below_max_age(age_seconds: float, is_recent: bool) -> None:
    """One that is as old as `max_age` is too old, without leeway: the user can still be asked."""
    assert are_met(AuthenticationRequirements(max_age=10), session(age_seconds=age_seconds), NOW) is is_recent


def test_a_session_without_a_time_is_not_recent() -> None:
    """Whoever asks for `max_age` needs to know."""
    assert not are_met(AuthenticationRequirements(max_age=10), session(age_seconds=None), NOW)


def test_max_age_zero_asks_for_a_new_sign_in() -> None:
    """No session that is there already is as young as that."""
    assert not are_met(AuthenticationRequirements(max_age=0), session(), NOW)


@pytest.mark.parametrize("prompt", ["login", "select_account"])
def test_prompts_for_a_new_sign_in_take_no_session(prompt: str) -> None:
    """However recent it is."""
    assert not are_met(AuthenticationRequirements(prompts=frozenset({prompt})), session(), NOW)


def test_a_prompt_for_consent_leaves_the_session() -> None:
    """It asks for a decision, not for a sign-in."""
    assert are_met(AuthenticationRequirements(prompts=frozenset({"consent"})), session(), NOW)


@pytest.mark.parametrize(("hint", "met"), [("ada", True), ("grace", False), (None, True)])
def test_a_hint_names_the_user_of_the_session(hint: str | None, met: bool) -> None:
    """Another user's session does not do."""
    assert are_met(AuthenticationRequirements(hinted_subject=hint), session(), NOW) is met


@pytest.mark.parametrize(("acr", "met"), [("gold", True), ("silver", True), ("bronze", False), (None, False)])
def test_one_of_the_acr_values_is_enough(acr: str | None, met: bool) -> None:
    """A session that does not say how strong it is satisfies none."""
    wanted = AuthenticationRequirements(acr_values=("gold", "silver"))

    assert are_met(wanted, session(acr=acr), NOW) is met


def test_a_new_sign_in_has_a_minute_of_leeway() -> None:
    """The way back from the provider takes time, and clocks differ: that is not held against it."""
    wanted = AuthenticationRequirements(max_age=10)

    require_met(wanted, session(age_seconds=10 + LEEWAY_SECONDS - 1), NOW)
    with pytest.raises(LoginRequired):
        require_met(wanted, session(age_seconds=10 + LEEWAY_SECONDS), NOW)


def test_a_new_sign_in_of_another_user_is_refused() -> None:
    """The application is told, instead of being given somebody else."""
    with pytest.raises(LoginRequired):
        require_met(AuthenticationRequirements(hinted_subject="grace"), session(), NOW)


def test_a_new_sign_in_that_is_too_weak_is_refused() -> None:
    """With the code for it. Spec: OpenID Connect Core error code for unmet authentication requirements."""
    with pytest.raises(UnmetAuthenticationRequirements):
        require_met(AuthenticationRequirements(acr_values=("gold",)), session(acr="bronze"), NOW)


def test_a_new_sign_in_satisfies_a_prompt_for_one() -> None:
    """`prompt=login` is settled by signing in."""
    require_met(AuthenticationRequirements(prompts=frozenset({"login"})), session(), NOW)
