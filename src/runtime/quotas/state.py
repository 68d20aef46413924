"""The kinds of short-lived state: who creates it, what limits that, and its lifetime.

The kind is the first part of a key. The state in this process takes no other, and knows from here how many
entries of a kind one zone may have there: beyond it the oldest goes, or the newcomer is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from runtime.domain.oauth import assertions as assertion_rules
from runtime.services import epochs, rate_limits
from runtime.services.authority import connect_links
from runtime.services.authorization import authorization_codes, interactions, pushed_authorization_requests
from runtime.services.clients import authentication_throttling, dpop_verification
from runtime.services.connect import upstream as connections
from runtime.services.issuing import token_cache
from runtime.services.login import throttling as login_limits
from runtime.services.login import upstream
from runtime.services.logout import requests as logout_requests
from runtime.services.vault import credential_cache

ANYBODY, USERS = "anybody", "users"
CLIENTS, PROVIDER, SERVICE = "applications", "the zone's provider", "this service"


@dataclass(frozen=True, slots=True)
class StateKind:
    """A kind of short-lived state.

    Attributes:
        name: the first part of its keys.
        what: an entry stands for.
        by: who leaves it.
        limited: names of limits, or in words what else bounds it.
        seconds: how long an entry is kept at most.
        most: entries of one zone in the memory of a process, where there is no Redis.
    """

    name: str
    what: str
    by: str
    limited: tuple[str, ...]
    seconds: int
    most: int = 20_000


_SIGN_INS = ("authorize", "authorize-client", "authorize-zone")
_PUSHES = ("push", "push-client", "push-back-end", "push-zone")
_TRIES = ("passwords", "passwords-zone")
_LONGEST_TOKEN_SECONDS = 86_400

STATE: tuple[StateKind, ...] = (
    StateKind(
        "interaction",
        "a pending sign-in or consent request",
        ANYBODY,
        _SIGN_INS,
        interactions.INTERACTION_SECONDS,
    ),
    StateKind(
        "trip",
        "a sign-in under way at the zone's provider",
        ANYBODY,
        _SIGN_INS,
        upstream.UPSTREAM_LOGIN_SECONDS,
    ),
    StateKind(
        "pushed",
        "a pushed authorization request (PAR)",
        ANYBODY,
        _PUSHES,
        pushed_authorization_requests.PUSHED_SECONDS,
    ),
    StateKind(
        "form",
        "a used form token",
        "anybody who has started a sign-in",
        ("forms-sent",),
        interactions.INTERACTION_SECONDS + 1,
    ),
    StateKind(
        "connect-link", "a used connect link", USERS, ("forms-sent",), connect_links.CONNECT_LINK_SECONDS
    ),
    StateKind(
        "connection",
        "an account being connected at a provider",
        USERS,
        ("forms-sent",),
        connections.CONNECTION_SECONDS,
    ),
    StateKind("code", "an authorization code", USERS, ("codes",), authorization_codes.CODE_SECONDS),
    StateKind(
        "code-used", "the tokens issued for a code", USERS, ("codes",), authorization_codes.MARK_SECONDS
    ),
    StateKind("code-reused", "the reuse of a code", ANYBODY, ("codes",), authorization_codes.MARK_SECONDS),
    StateKind(
        "sign-out",
        "the return address of a logout at the zone's provider",
        USERS,
        ("one for a session that ends",),
        logout_requests.KEPT_SECONDS,
    ),
    StateKind(
        "logout-token",
        "the `jti` of a used logout token",
        PROVIDER,
        ("signed by the provider",),
        _LONGEST_TOKEN_SECONDS,
    ),
    StateKind(
        "assertion",
        "the `jti` of a used client assertion",
        "clients with a key",
        ("assertions",),
        assertion_rules.MAX_AHEAD_SECONDS + 60,
        most=100_000,
    ),
    StateKind(
        "proof",
        "the `jti` of a used DPoP proof",
        ANYBODY,
        ("proofs",),
        dpop_verification.REMEMBERED_SECONDS,
        most=100_000,
    ),
    StateKind(
        "vouched",
        "the `jti` of a used assertion of a provider",
        PROVIDER,
        ("signed by the provider",),
        assertion_rules.MAX_VOUCHED_AHEAD_SECONDS + 60,
    ),
    StateKind(
        "token",
        "an issued token, for reuse",
        CLIENTS,
        ("cached-tokens",),
        token_cache.LONGEST_SECONDS,
        most=100_000,
    ),
    StateKind(
        "vault",
        "a credential of a user from the vault, for reuse",
        USERS,
        ("one for each delegated grant",),
        credential_cache.LONGEST_SECONDS,
        most=100_000,
    ),
    StateKind(
        "epoch",
        "the change counter of a zone, user or session",
        SERVICE,
        ("one for a zone, user or session",),
        epochs.TTL_SECONDS,
        most=200_000,
    ),
    StateKind(
        "guess",
        f"wrong secrets, in {authentication_throttling.BUCKETS:,} counters for an address",
        ANYBODY,
        ("guess",),
        rate_limits.CLIENT_SECRET_GUESSES.seconds,
        most=100_000,
    ),
    StateKind(
        "tries",
        "sign-in attempts for an account",
        ANYBODY,
        _TRIES,
        rate_limits.PASSWORD_TRIES.seconds,
        most=100_000,
    ),
    StateKind(
        "tries-gate", "the delay before the next attempt", ANYBODY, _TRIES, login_limits.MAX_DELAY_SECONDS
    ),
    *(
        StateKind(
            each.name,
            f"a count of {each.counts}",
            "the counted party",
            (f"one for {each.per}",),
            each.seconds,
        )
        for each in rate_limits.ALL
        if not each.per_process and each.name not in ("guess", "tries")
    ),
)

# Kind -> entries that one zone may have of it in the memory of a process.
BOUNDS: Mapping[str, int] = {kind.name: kind.most for kind in STATE}
