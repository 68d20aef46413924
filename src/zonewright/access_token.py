"""An access token that was verified, and what it says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zonewright.errors import ScopeRequired, TokenRefused

_MAX_ACTORS = 32


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A verified access token. Spec: RFC 9068 section 2.2; RFC 8693 section 4.1 for `actors`.

    Attributes:
        subject: the user; or the application, where it acts for itself.
        client_id: the client that the token was issued to.
        actors: who acts for the subject: the caller first, the client that the user signed in to last.
        expires_at: seconds since the epoch, as `issued_at`.
        session_id: the session at the zone that the token rests on; None of an application's own token.
        jkt: thumbprint of the key that the token is bound to (RFC 9449); None of a bearer token.
        claims: everything the token says.
    """

    issuer: str
    subject: str
    audience: str
    client_id: str
    scopes: frozenset[str]
    actors: tuple[str, ...]
    token_id: str
    issued_at: int
    expires_at: int
    session_id: str | None
    jkt: str | None
    claims: Mapping[str, Any] = field(repr=False)

    @classmethod
    def from_claims(cls, claims: Mapping[str, Any]) -> "AccessToken":
        """The token with these verified claims. Raises TokenRefused when one is of a wrong type."""
        confirmation = claims.get("cnf") or {}
        if not isinstance(confirmation, dict) or confirmation.keys() - {"jkt"}:
            raise TokenRefused("`cnf` of the token does not name a DPoP key")
        return cls(
            issuer=_text(claims, "iss"),
            subject=_text(claims, "sub"),
            audience=_text(claims, "aud"),
            client_id=_text(claims, "client_id"),
            scopes=frozenset(_text(claims, "scope").split()) if "scope" in claims else frozenset(),
            actors=_actors(claims.get("act")),
            token_id=_text(claims, "jti"),
            issued_at=_time(claims, "iat"),
            expires_at=_time(claims, "exp"),
            session_id=_text(claims, "sid") if "sid" in claims else None,
            jkt=_text(confirmation, "jkt") if confirmation else None,
            claims=claims,
        )

    def require(self, *scopes: str) -> None:
        """Check that the token has all of these scopes. Raises ScopeRequired, which names them all."""
        if not self.scopes.issuperset(scopes):
            raise ScopeRequired(scopes)


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value:
        raise TokenRefused(f"`{name}` of the token is missing or not a string")
    return value


def _time(claims: Mapping[str, Any], name: str) -> int:
    value = claims.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise TokenRefused(f"`{name}` of the token is missing or not an integer")
    return value


def _actors(act: object) -> tuple[str, ...]:
    found: list[str] = []
    while act is not None:
        if not isinstance(act, dict) or len(found) == _MAX_ACTORS:
            raise TokenRefused("`act` of the token is malformed")
        found.append(_text(act, "sub"))
        act = act.get("act")
    return tuple(found)
