"""Authentication requirements (`prompt`, `max_age`, `acr_values`): does the session meet them?

Spec: OpenID Connect Core section 3.1.2.1; RFC 9470.
"""

from datetime import datetime

from pydantic import BaseModel, ConfigDict

from runtime.domain.errors import LoginRequired, UnmetAuthenticationRequirements
from runtime.services.authority.browser_sessions import SignedInUser

_FRESH = frozenset({"login", "select_account"})
# Between a sign-in at a provider and the check here seconds pass: what counts is that it was not an old one.
LEEWAY_SECONDS = 60


class AuthenticationRequirements(BaseModel):
    """What is asked of a sign-in.

    Attributes:
        max_age: in seconds.
        acr_values: one of them must be what the sign-in reaches; empty for any.
        hinted_subject: identifier of the user an `id_token_hint` names.
        invitation: hash of the token of an invitation to register with, in hex.
    """

    model_config = ConfigDict(frozen=True)

    prompts: frozenset[str] = frozenset()
    max_age: int | None = None
    acr_values: tuple[str, ...] = ()
    login_hint: str | None = None
    hinted_subject: str | None = None
    invitation: str | None = None


def are_met(terms: AuthenticationRequirements, signed_in: SignedInUser, now: datetime) -> bool:
    """Tell whether the session at hand is good enough, so that nobody has to sign in."""
    return (
        not (terms.prompts & _FRESH)
        and _is_recent(terms, signed_in, now, leeway_seconds=0)
        and _is_hinted(terms, signed_in)
        and _reaches(terms, signed_in)
    )


def require_met(terms: AuthenticationRequirements, signed_in: SignedInUser, now: datetime) -> None:
    """Check what only the sign-in itself could settle.

    Raises: LoginRequired, UnmetAuthenticationRequirements.
    """
    if not _is_hinted(terms, signed_in):
        raise LoginRequired("the user who signed in is not the one that `id_token_hint` names")
    if not _is_recent(terms, signed_in, now, leeway_seconds=LEEWAY_SECONDS):
        raise LoginRequired("the sign-in is older than `max_age` allows")
    if not _reaches(terms, signed_in):
        raise UnmetAuthenticationRequirements("the sign-in satisfies none of the requested `acr_values`")


def _is_recent(
    terms: AuthenticationRequirements, signed_in: SignedInUser, now: datetime, *, leeway_seconds: int
) -> bool:
    """A session that does not know when its user proved themselves is old."""
    if terms.max_age is None:
        return True
    at = signed_in.session.authenticated_at
    if at is None:
        return False
    return (now - at).total_seconds() < terms.max_age + leeway_seconds


def _is_hinted(terms: AuthenticationRequirements, signed_in: SignedInUser) -> bool:
    return terms.hinted_subject in (None, signed_in.user.identifier)


def _reaches(terms: AuthenticationRequirements, signed_in: SignedInUser) -> bool:
    return not terms.acr_values or signed_in.session.acr in terms.acr_values
