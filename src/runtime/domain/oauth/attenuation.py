"""Attenuation: what a token may say at most. Every grant type computes it here, and none a second time.

A token that is made from another one is at most that one: for the same resource it has no scope that the
other has not, it ends no later, and its chain of actors is the other's with one more in front. For another
resource its scopes come from the user's word for that one, never from the token.

Tokens of an outside provider cannot be narrowed here, so that what is asked of the provider limits them, and
whatever it grants beyond that is not used.

Spec: zone interface, section 6, rules 2 to 7; RFC 6749 section 6; RFC 8693 section 4.1.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from runtime.domain.errors import InvalidRequest, InvalidScope
from runtime.domain.oauth import scopes as scope_strings
from runtime.domain.oauth.claims import MAX_CHAIN_DEPTH, ChainActor, names_of

MAX_TIMES_IN_CHAIN = 2
_MAX_SHOWN_CHARS = 200


class Delegation(NamedTuple):
    """What a token lets its holder do, before it is text.

    Attributes:
        audience: one resource's identifier, as registered, or the zone's issuer.
        actors: the acting application first; none in a token that no exchange has made.
        jkt: thumbprint of the key that the token is bound to; None for a bearer token.
    """

    audience: str
    scopes: frozenset[str]
    actors: tuple[ChainActor, ...]
    expires_at: datetime
    jkt: str | None

    def restricted_to(self, scopes: frozenset[str]) -> "Delegation":
        """The same with the scopes that policy leaves. Raises ValueError for one that is not in it."""
        if not scopes <= self.scopes:
            raise ValueError("a policy decision adds no scope")
        return self if scopes == self.scopes else self._replace(scopes=scopes)


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """What a token is for, with everything that limits it there, whatever it is made from.

    Attributes:
        scopes: those that the resource has.
        allowed: those that the user lets the client have there; None where no user limits them.
        lifetime_seconds: of the resource's tokens.
        ends: what no token outlives: the session, the user's grant; None for one that does not end by itself.
    """

    audience: str
    scopes: frozenset[str]
    lifetime_seconds: int
    allowed: frozenset[str] | None = None
    ends: tuple[datetime | None, ...] = ()


def originate(
    limits: TokenLimits, requested: frozenset[str] | None, *, jkt: str | None, now: datetime
) -> Delegation:
    """The delegation of a token that is made from no other: of a sign-in, or of an application by itself.

    Args:
        requested: None when the request names no scope: everything within the limits is meant.
        jkt: thumbprint of the key that the sender has proved to have.
    Raises: InvalidScope.
    """
    return Delegation(limits.audience, _scopes(limits, requested), (), _end(limits, now), jkt)


def attenuate(
    parent: Delegation,
    limits: TokenLimits,
    requested: frozenset[str] | None,
    *,
    actor: ChainActor,
    jkt: str | None,
    now: datetime,
) -> Delegation:
    """The delegation of a token that an application gets for another one. It ends no later than that.

    Args:
        parent: of the token that is exchanged, with everyone who acted so far among its actors.
        actor: who exchanges it.
    Raises: InvalidScope; InvalidRequest for a chain too long.
    """
    held = parent.scopes if parent.audience == limits.audience else None
    return Delegation(
        limits.audience,
        _scopes(limits, requested, held),
        extend_chain(parent.actors, actor),
        min(_end(limits, now), parent.expires_at),
        jkt,
    )


def is_held_with(parent: str | None, jkt: str | None) -> bool:
    """Tell whether the client that a token was issued to may use it: with its key, if it is bound to one."""
    return parent in (None, jkt)


def extend_chain(previous: tuple[ChainActor, ...], actor: ChainActor) -> tuple[ChainActor, ...]:
    """The chain with the authenticated application in front of all who acted before it.

    Raises: InvalidRequest beyond the greatest depth, and for an actor that is in the chain twice already.
    """
    if len(previous) >= MAX_CHAIN_DEPTH:
        raise InvalidRequest(f"the chain of actors is longer than {MAX_CHAIN_DEPTH}")
    if names_of(previous).count(actor.subject) >= MAX_TIMES_IN_CHAIN:
        raise InvalidRequest("the application is in the chain of actors (`act`) too often")
    return (actor, *previous)


class UpstreamScopes(NamedTuple):
    """What an outside provider has granted, against what it was asked for.

    Attributes:
        granted: what its tokens are good for in the zone.
        missing: asked for and not granted.
        beyond: granted without having been asked for; good for nothing here.
    """

    granted: frozenset[str]
    missing: frozenset[str]
    beyond: frozenset[str]


def connection_scopes(
    requested: frozenset[str], connected: frozenset[str], offered: frozenset[str]
) -> frozenset[str]:
    """What a provider is asked for when a user connects an account: the user agrees to exactly these.

    Args:
        requested: by the application.
        connected: what the account is connected for: the new tokens replace those that other applications
            use, so the same is asked for again.
        offered: the scopes that the resource has.
    """
    return (requested | connected) & offered


def limit_upstream(asked: frozenset[str], answered: frozenset[str]) -> UpstreamScopes:
    """What new tokens of an outside provider are good for: at most what the provider was asked for.

    Args:
        asked: of a connection, what the user has agreed to; of a refresh, the scopes of the user's grant, so
            that none comes back that an earlier answer has left out (RFC 6749 section 6).
        answered: the scopes of the provider's answer.
    """
    return UpstreamScopes(asked & answered, asked - answered, answered - asked)


def require_offered(offered: frozenset[str], requested: frozenset[str] | None) -> None:
    """Check that a resource has all the scopes that are requested of it: no consent could bring another.

    Args:
        requested: None when the request names no scope.
    Raises: InvalidScope. Spec: RFC 6749 section 5.2.
    """
    _require_none(scope_strings.narrow(requested, offered).refused)


def _require_none(unavailable: frozenset[str]) -> None:
    """Raise InvalidScope when a scope is not available."""
    if unavailable:
        named = " ".join(sorted(unavailable))[:_MAX_SHOWN_CHARS]
        raise InvalidScope(
            "a requested scope is not available for that resource", internal=f"not available: {named}"
        )


def _scopes(
    limits: TokenLimits, requested: frozenset[str] | None, held: frozenset[str] | None = None
) -> frozenset[str]:
    """What is issued, within what the subject token has, where that is for the same resource."""
    narrowed = scope_strings.narrow(requested, limits.scopes, limits.allowed, held)
    _require_none(narrowed.refused)
    return narrowed.issued


def _end(limits: TokenLimits, now: datetime) -> datetime:
    end = now + timedelta(seconds=limits.lifetime_seconds)
    for each in limits.ends:
        if each is not None and each < end:
            end = each
    return end
