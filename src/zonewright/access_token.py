"""A verified access token: its claims, scopes and actor chain."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zonewright.errors import ScopeRequired, TokenRefused

_MAX_ACTORS = 32


@dataclass(frozen=True, slots=True)
class ChainActor:
    """An application that acts for the subject: one level of `act`.

    Tokens of older zones name only the subject of each level.

    Attributes:
        subject: the identifier of the application, or the client id of a client that registered itself.
        issuer: the zone in which that is its name.
        client_id: the client id that it authenticated with.
        profile: what it is, words with spaces between: `service` or `ai_agent`. None of an actor that nobody
            has classified; rules for agents should hold for it, too.
    Spec: RFC 8693 section 4.1; draft-mcguinness-oauth-actor-profile-00.
    """

    subject: str
    issuer: str | None = None
    client_id: str | None = None
    profile: str | None = None

    @property
    def is_ai_agent(self) -> bool:
        """Tell whether the zone says that it is an AI agent."""
        return "ai_agent" in (self.profile or "").split()


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A verified access token. Spec: RFC 9068 section 2.2; RFC 8693 section 4.1 for `actors`.

    Attributes:
        subject: the user; or the application, where it acts for itself.
        subject_profile: which of them: `user`, `service` or `ai_agent`; None where the zone does not say.
        client_id: the client that the token was issued to.
        actors: who acts for the subject: the caller first, the client that the user signed in to last.
        expires_at: seconds since the epoch, as `issued_at`.
        session_id: the session at the zone that the token rests on, of an application's own token that of the
            application; None in tokens of releases without these.
        jkt: thumbprint of the key that the token is bound to (RFC 9449); None of a bearer token.
        claims: all claims of the token.
        raw: the token itself, to exchange it for the next resource's: a secret that belongs into no log.
    """

    issuer: str
    subject: str
    subject_profile: str | None
    audience: str
    client_id: str
    scopes: frozenset[str]
    actors: tuple[ChainActor, ...]
    token_id: str
    issued_at: int
    expires_at: int
    session_id: str | None
    jkt: str | None
    claims: Mapping[str, Any] = field(repr=False)
    raw: str = field(repr=False)

    @classmethod
    def from_claims(cls, claims: Mapping[str, Any], *, raw: str) -> "AccessToken":
        """The token *raw*, which has these verified claims. Raises TokenRefused when one has a wrong type."""
        confirmation = claims.get("cnf") or {}
        if not isinstance(confirmation, dict) or confirmation.keys() - {"jkt"}:
            raise TokenRefused("`cnf` of the token does not name a DPoP key")
        return cls(
            issuer=_text(claims, "iss"),
            subject=_text(claims, "sub"),
            subject_profile=_optional_text(claims, "sub_profile"),
            audience=_text(claims, "aud"),
            client_id=_text(claims, "client_id"),
            scopes=frozenset(_text(claims, "scope").split()) if "scope" in claims else frozenset(),
            actors=_actors(claims.get("act")),
            token_id=_text(claims, "jti"),
            issued_at=_time(claims, "iat"),
            expires_at=_time(claims, "exp"),
            session_id=_optional_text(claims, "sid"),
            jkt=_optional_text(confirmation, "jkt"),
            claims=claims,
            raw=raw,
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


def _optional_text(claims: Mapping[str, Any], name: str) -> str | None:
    return _text(claims, name) if name in claims else None


def _time(claims: Mapping[str, Any], name: str) -> int:
    value = claims.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise TokenRefused(f"`{name}` of the token is missing or not an integer")
    return value


def _actors(act: object) -> tuple[ChainActor, ...]:
    found: list[ChainActor] = []
    while act is not None:
        if not isinstance(act, dict) or len(found) == _MAX_ACTORS:
            raise TokenRefused("`act` of the token is malformed")
        others = (_optional_text(act, name) for name in ("iss", "client_id", "sub_profile"))
        found.append(ChainActor(_text(act, "sub"), *others))
        act = act.get("act")
    return tuple(found)
