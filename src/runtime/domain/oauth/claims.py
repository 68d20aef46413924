"""The claims of the zone's tokens."""

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from datetime import datetime
from hashlib import sha256, sha384, sha512
from typing import Any, NamedTuple, TypeGuard

from runtime.domain.oauth import scopes as scope_strings
from runtime.domain.oauth.entity_profiles import EntityProfile

ACCESS_TOKEN_TYPE = "at+jwt"
ID_TOKEN_TYPE = "JWT"
MAX_CHAIN_DEPTH = 8
YEAR_10000 = 253_402_300_800  # seconds since 1970
_HASHES = {"256": sha256, "384": sha384, "512": sha512}


class ChainActor(NamedTuple):
    """One level of `act`: an application that acts for the subject.

    Tokens of releases before these members had only `sub`; a level is passed on as it was read.

    Attributes:
        subject: `sub`: the application's identifier, or the client id of a client that registered itself.
        issuer: `iss`: the zone, whose names these are.
        client_id: the client id that it authenticated with.
        profile: `sub_profile`; None for a client that registered itself: nobody here knows what it is.
    """

    subject: str
    issuer: str | None = None
    client_id: str | None = None
    profile: str | None = None


class AccessTokenFacts(NamedTuple):
    """Everything an access token says. No default stands in for a fact that somebody forgot to establish.

    Attributes:
        subject: the user's zone identifier, or the application's identifier when it acts for itself.
        subject_profile: which of the two the subject is.
        audience: one registered resource identifier, written as registered, or the issuer for the zone
            itself.
        session_id: the root session; None without one.
        actors: the acting application first; empty unless the token comes from an exchange.
        confirmation: the `cnf` member of a sender-constrained token.
        extra: further claims, none of which may replace one that is set here.
    """

    issuer: str
    subject: str
    subject_profile: EntityProfile
    audience: str
    client_id: str
    scopes: frozenset[str]
    issued_at: datetime
    expires_at: datetime
    token_id: str
    session_id: str | None
    authenticated_at: datetime | None
    acr: str | None
    actors: tuple[ChainActor, ...]
    confirmation: Mapping[str, str] | None = None
    extra: Mapping[str, Any] | None = None


_SETTLED = frozenset(
    {
        *("iss", "sub", "sub_profile", "aud", "client_id", "scope", "iat", "exp"),
        *("jti", "sid", "auth_time", "acr", "act", "cnf"),
    }
)


def access_token(facts: AccessTokenFacts) -> dict[str, Any]:
    """The claims of an access token, in a settled order. Spec: zone interface, section 3; RFC 9068."""
    claims: dict[str, Any] = {
        "iss": facts.issuer,
        "sub": facts.subject,
        "sub_profile": facts.subject_profile.value,
        "aud": facts.audience,
        "client_id": facts.client_id,
    }
    if facts.scopes:
        claims["scope"] = scope_strings.to_text(facts.scopes)
    claims["iat"], claims["exp"] = seconds(facts.issued_at), seconds(facts.expires_at)
    claims["jti"] = facts.token_id
    if facts.session_id is not None:
        claims["sid"] = facts.session_id
    if facts.authenticated_at is not None:
        claims["auth_time"] = seconds(facts.authenticated_at)
    if facts.acr is not None:
        claims["acr"] = facts.acr
    if facts.actors:
        claims["act"] = nest_actors(facts.actors)
    if facts.confirmation:
        claims["cnf"] = dict(facts.confirmation)
    for name, value in (facts.extra or {}).items():
        if name in _SETTLED:
            raise ValueError(f"`{name}` is not an extra claim")
        claims[name] = value
    return claims


def reissued(
    claims: Mapping[str, Any], scopes: frozenset[str], *, issued_at: int, expires_at: int, token_id: str
) -> dict[str, Any]:
    """The claims of a token that differs from another one in its scopes, its times and its id alone.

    Args:
        claims: of that one, from `access_token`.
        issued_at, expires_at: in seconds since 1970.
    """
    times = {"iat": issued_at, "exp": expires_at, "jti": token_id}
    if not scopes:
        return {name: value for name, value in claims.items() if name != "scope"} | times
    return {**claims, "scope": scope_strings.to_text(scopes), **times}


def nest_actors(actors: tuple[ChainActor, ...]) -> dict[str, Any] | None:
    """The `act` claim of a chain, the acting application outermost; None for no chain."""
    nested: dict[str, Any] | None = None
    for actor in reversed(actors):
        level: dict[str, Any] = {"sub": actor.subject}
        if actor.issuer is not None:
            level["iss"] = actor.issuer
        if actor.client_id is not None:
            level["client_id"] = actor.client_id
        if actor.profile is not None:
            level["sub_profile"] = actor.profile
        if nested is not None:
            level["act"] = nested
        nested = level
    return nested


def actors_of(claims: Mapping[str, Any]) -> tuple[ChainActor, ...]:
    """The chain in a token's `act` claim, the latest actor first; empty without one.

    Raises: ValueError when `act` is not a chain this service could have written, or is too deep.
    """
    chain: list[ChainActor] = []
    level: object = claims.get("act")
    while level is not None:
        if not isinstance(level, Mapping):
            raise ValueError("`act` is not a chain of actors")
        if len(chain) == MAX_CHAIN_DEPTH:
            raise ValueError(f"`act` is deeper than {MAX_CHAIN_DEPTH}")
        chain.append(_actor(level, claims.get("iss")))
        level = level.get("act")
    return tuple(chain)


def _actor(level: Mapping[str, Any], issuer: object) -> ChainActor:
    """One level of `act`. Raises ValueError, also for an actor in the names of another issuer."""
    subject, *others = (level.get(name) for name in ("sub", "iss", "client_id", "sub_profile"))
    if not isinstance(subject, str) or not all(isinstance(each, str | None) for each in others):
        raise ValueError("a member of `act` is missing or not a string")
    if level.get("iss") not in (None, issuer):
        raise ValueError("`act` names an actor of another issuer")
    return ChainActor(subject, *others)


def names_of(actors: Iterable[ChainActor]) -> tuple[str, ...]:
    """What policies and records call the actors of a chain."""
    return tuple([actor.subject for actor in actors])


def at_hash(access_token: str, algorithm: str) -> str:
    """The `at_hash` claim: the left half of the token's digest. Spec: OpenID Connect Core section 3.1.3.6.

    Args:
        algorithm: of the ID token; its last three digits name the digest, and EdDSA takes SHA-512.
    """
    digest = _HASHES.get(algorithm[-3:], sha512)(access_token.encode("ascii")).digest()
    return urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=").decode("ascii")


def is_time(value: object) -> TypeGuard[float]:
    """Tell whether a claim is a NumericDate that the calendar has: a number from 1970 to the year 9999."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < YEAR_10000


def has_verified_email(claims: Mapping[str, Any]) -> bool:
    """Tell whether an issuer says that the address in `email` is verified: by `true`, or by that as text.

    No other value does, whatever it is taken for elsewhere: neither `1` nor `"false"`.
    Spec: OpenID Connect Core section 5.1.
    """
    value = claims.get("email_verified")
    return value is True or value == "true"


def seconds(moment: datetime) -> int:
    """Seconds since 1970, fractions dropped. Raises ValueError for a datetime without a time zone."""
    if moment.tzinfo is None:
        raise ValueError("a datetime without a time zone")
    return int(moment.timestamp())
