"""Logout tokens (OpenID Connect Back-Channel Logout): reading them, and which addresses may receive them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from runtime.domain.oauth import redirect_uris
from runtime.domain.oauth.redirect_uris import Refusal

LOGOUT_TOKEN_TYPE = "logout+jwt"
LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"
MAX_LIFETIME_SECONDS = 3600
# What an address of logout tokens has to be instead: plain HTTP is for development alone.
EXPLANATIONS: Mapping[Refusal, str] = {**redirect_uris.EXPLANATIONS, "insecure": "must use https"}
_MAX_CHARS = 255


@dataclass(frozen=True, slots=True)
class LogoutToken:
    """What a logout token says: the session `session`, or every session of `subject`; or both together.

    Attributes:
        token_id: `jti`, which counts once until `expires_at`.
    """

    subject: str | None
    session: str | None
    token_id: str
    expires_at: datetime


def address_refusal(uri: str, *, on_loopback: bool) -> Refusal | None:
    """Why logout tokens cannot be posted to this address; None when they can.

    Args:
        on_loopback: for development: plain HTTP on the server's own machine will do.
    Spec: OpenID Connect Back-Channel Logout section 2.2.
    """
    reason = redirect_uris.refusal(uri)
    if reason not in (None, "response_parameter"):  # nothing is answered here, so there is nothing to fix
        return reason
    is_safe = uri.startswith("https://") or (on_loopback and redirect_uris.is_loopback(uri))
    return None if is_safe else "insecure"


def read_logout_token(claims: Mapping[str, Any]) -> LogoutToken:
    """What verified claims of class `logout+jwt` say.

    Args:
        claims: issuer, audience and times are checked already.
    Raises: ValueError when they are no logout token.
    Spec: OpenID Connect Back-Channel Logout sections 2.4 and 2.6.
    """
    events = claims.get("events")
    if not isinstance(events, Mapping) or not isinstance(events.get(LOGOUT_EVENT), Mapping):
        raise ValueError("`events` has no back-channel logout event")
    if "nonce" in claims:
        raise ValueError("a logout token must not have a `nonce`")
    if claims["exp"] - claims["iat"] > MAX_LIFETIME_SECONDS:
        raise ValueError(f"the logout token is valid for more than {MAX_LIFETIME_SECONDS} seconds")
    token_id, subject, session = _text(claims, "jti"), _text(claims, "sub"), _text(claims, "sid")
    if token_id is None:
        raise ValueError("`jti` is missing")
    if subject is None and session is None:
        raise ValueError("`sub` and `sid` are both missing")
    return LogoutToken(subject, session, token_id, datetime.fromtimestamp(claims["exp"], UTC))


def _text(claims: Mapping[str, Any], name: str) -> str | None:
    """A member that is text, or missing. Raises ValueError for anything else: it must not be passed over."""
    value = claims.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_CHARS:
        raise ValueError(f"`{name}` is not a string of 1 to {_MAX_CHARS} characters")
    return value
