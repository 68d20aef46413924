"""The cache of exchanged tokens: valid until something changes that a token was made from.

Where other processes read it, too, each entry is sealed.

An entry has the epochs of the zone, the session and the user that it was made under. The latter two must be
the present ones. The zone's may have moved on by changes of what the token does not depend on, which the
tags of the exchange tell (`zones.tagged_cache`).

The key holds everything a token depends on, so no application can be handed a token made for another.
Spec: zone interface, section 3; design of the two token caches.
"""

from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

import orjson

from runtime.adapters.keys.sealing import Sealer
from runtime.domain.errors import Unavailable
from runtime.domain.oauth import scopes as scope_strings
from runtime.domain.oauth.attenuation import Delegation
from runtime.domain.oauth.claims import ChainActor, seconds
from runtime.services import cache_sizes, state_values
from runtime.services.bounded_cache import BoundedCache
from runtime.services.zones import ChangeHistory, ZoneCache
from runtime.storage.state import StateStore

MIN_REMAINING_SECONDS = 60  # what has less left to live is made again, unless a new one had little more
LONGEST_SECONDS = 900  # in Redis, however long it lives: what is asked for again is so within minutes

Epochs = tuple[int, int, int]  # zone, session, user


class CachedToken(NamedTuple):
    """A token that was issued before, as the short-lived state has it."""

    token: str
    token_id: str
    expires_at: int
    scopes: frozenset[str]
    epochs: Epochs


class OpenedTokens(ZoneCache):
    """What entries of a zone said when this process opened them: the same bytes say the same again.

    Where the short-lived state is in this process as well, tokens are here alone, and nothing is sealed.
    """

    outlives_changes = True  # it is about bytes alone

    def __init__(self, history: ChangeHistory) -> None:
        self._opened: BoundedCache[tuple[bytes | None, CachedToken]] = BoundedCache(cache_sizes.OPENED_TOKENS)

    def open(self, sealed: bytes | None, key: str, sealer: Sealer) -> CachedToken | None:
        """The token in an entry; None without one, and for one that does not open at this place."""
        held = self._opened.get(key)
        if held is not None and held[0] == sealed:
            return held[1]
        kept = state_values.read_sealed(CachedToken, sealed, sealer, bound_to=key)
        if sealed is not None and kept is not None:
            self._opened[key] = sealed, kept
        return kept

    def keep(self, key: str, token: CachedToken) -> None:
        """Keep a token that nobody but this process gives out again: it is found without an entry."""
        self._opened[key] = None, token


def key_prefix(
    *,
    zone_id: str,
    issuer: str,
    principal: str,
    resource: str,
    client_id: str,
    actors: tuple[ChainActor, ...],
    session_id: str | None,
    confirmation: Mapping[str, str] | None = None,
) -> str:
    """What the keys of such tokens begin with, whichever scopes they are for.

    Args:
        issuer: that they say: a zone that is moved has several.
        principal: the user's id, or the identifier of the application that a chain without user starts from.
        actors: everyone who acted before the requesting application.
    """
    key_parts = [
        issuer,
        principal,
        resource,
        client_id,
        [(actor.subject, actor.issuer, actor.client_id, actor.profile) for actor in actors],
        session_id,
        sorted(confirmation.items()) if confirmation else None,
    ]
    return f"token:{zone_id}:{sha256(orjson.dumps(key_parts)).hexdigest()}"


def entry_key(prefix: str, scopes: frozenset[str] | None) -> str:
    """Where the short-lived state keeps a token for these scopes.

    Args:
        scopes: as requested, whatever their order; None when the request names none.
    """
    if scopes is None:
        return prefix
    return f"{prefix}:{sha256(scope_strings.to_text(scopes).encode()).hexdigest()}"


def open_entry(
    sealed: bytes | None,
    *,
    key: str,
    sealer: Sealer,
    opened: OpenedTokens,
    epochs: Epochs,
    changed_at: int,
    plan: Delegation,
    now: datetime,
) -> CachedToken | None:
    """The token under that key, when it may be given out again: made under epochs that still stand, with just
    the scopes of the plan, ending no later than that, and not about to end. An entry moved here from another
    key does not open.

    Args:
        epochs: the present ones.
        changed_at: the zone's epoch at the last change of anything that such a token depends on.
    """
    found = opened.open(sealed, key, sealer)
    if found is None:
        return None
    lifetime = seconds(plan.expires_at) - now.timestamp()  # of a token that were made now
    if found.epochs[1:] != epochs[1:] or not changed_at <= found.epochs[0] <= epochs[0]:
        return None
    if found.expires_at - now.timestamp() < _least_remaining(lifetime):
        return None
    is_within = found.scopes == plan.scopes and found.expires_at <= seconds(plan.expires_at)
    return found if is_within else None


def reissued_at(token: CachedToken, plan: Delegation, now: datetime) -> float:
    """When a token that may be given out now is due to be replaced, in seconds since 1970.

    Until then nothing that `open_entry` looks at changes by itself: a plan that is made later ends no sooner.
    """
    return token.expires_at - _least_remaining(seconds(plan.expires_at) - now.timestamp())


async def store(
    state: StateStore,
    entry: CachedToken,
    *,
    key: str,
    sealer: Sealer,
    opened: OpenedTokens,
    now: datetime,
) -> None:
    """Keep a token until it is about to end. A state that is away costs only speed."""
    if state.version is not None:
        opened.keep(key, entry)
        return
    lifetime = entry.expires_at - now.timestamp()
    remaining = min(int(lifetime - _least_remaining(lifetime)), LONGEST_SECONDS)
    if remaining <= 0:
        return
    plain = orjson.dumps([entry.token, entry.token_id, entry.expires_at, sorted(entry.scopes), entry.epochs])
    try:
        await state.put(key, sealer.seal(plain, bound_to=key), ttl_seconds=remaining)
    except Unavailable:
        return


def _least_remaining(lifetime: float) -> float:
    """How long a token must still live to be given out again, in seconds.

    Args:
        lifetime: how long a new one in its place would live. A token that lives for a minute would never be
            given out again if it had to live for another one.
    """
    return min(MIN_REMAINING_SECONDS, lifetime / 2)
