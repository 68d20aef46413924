"""Exchange requests that are known: only what may have changed since they were read is asked again."""

from typing import Any

from runtime.domain.errors import InvalidRequest, InvalidScope, OAuthError
from runtime.domain.oauth.exchange import read_scope
from runtime.services.authority import revalidation
from runtime.services.container import Services
from runtime.services.decision_log import Decision
from runtime.services.grants import exchanged_tokens, token_exchange
from runtime.services.grants.known_exchanges import KnownExchange
from runtime.services.issuing import token_cache
from runtime.services.zones import CachedZone, SessionRoot


async def repeat(
    services: Services, zone: CachedZone, known: KnownExchange, scope: bytes | None, *, decision: Decision
) -> dict[str, Any] | None:
    """The members of the answer to a request that is known; None where it has to be read after all.

    What is refused is always read: so every refusal is made, and recorded, in one place.

    Args:
        scope: what it asks for, encoded.
        decision: is filled in on the way; to be made anew where the answer is None.
    Raises: StaleZone and Unavailable, as `exchange` does.
    """
    root, now = known.root, decision.at
    issued = known.issued_for(scope, now.timestamp())
    wanted = _covered(known, scope) if issued is None else frozenset[str]()
    if wanted is None or zone.session_roots.cached(root.session.id) is not root:
        return None
    key = token_cache.entry_key(known.series.key_prefix, wanted) if issued is None else None
    held = revalidation.CachedRoot(root, is_fresh=False)
    is_elsewhere = services.state.version is None  # else no entry is kept for others
    current, candidate = await revalidation.revalidate(
        services, zone, held, key=key if is_elsewhere else None
    )
    if not _rests_on_the_same(zone, known, current):
        return None
    decision.user_id, decision.resource_id = root.principal.user.id, known.allowed.resource.id
    if key is not None:
        return await _issue_again(services, zone, known, wanted, scope, key, candidate, decision=decision)
    if issued is None or issued.token.token_id in zone.denied:
        return None
    decision.actors, decision.determining = issued.actors, issued.determining
    return exchanged_tokens.answer(issued.token, None, now)


def _rests_on_the_same(zone: CachedZone, known: KnownExchange, current: SessionRoot | None) -> bool:
    """Tell whether session and user stand as they did, and the subject token has not been revoked."""
    return current is known.root and known.chain.subject.token_id not in zone.denied


def _covered(known: KnownExchange, scope: bytes | None) -> frozenset[str] | None:
    """The scopes that a known request names, if the user is known to have consented to them; None if not.

    Before a user is asked for more, the database is: that request is read as if it were new.
    """
    try:
        wanted = read_scope(scope)
    except (InvalidRequest, InvalidScope):
        return None
    return wanted if wanted is not None and known.allowed.allowance.covers(wanted) else None


async def _issue_again(
    services: Services,
    zone: CachedZone,
    known: KnownExchange,
    wanted: frozenset[str],
    scope: bytes | None,
    key: str,
    candidate: bytes | None,
    *,
    decision: Decision,
) -> dict[str, Any] | None:
    """Steps 10 to 14 for other scopes than before, or once a new token is due; None where they refuse."""
    client, chain, now = known.client, known.chain, decision.at
    allowed, changed_at = known.allowed, known.changed_at
    try:
        authorized = await token_exchange.authorize_scopes(
            zone, client, wanted, chain, allowed, now=now, decision=decision
        )
    except OAuthError:
        return None
    plan = authorized.plan
    token = await exchanged_tokens.issue(
        services,
        zone,
        client,
        chain,
        plan,
        known.series,
        key,
        candidate,
        changed_at,
        now=now,
        decision=decision,
    )
    known.remember(token, plan, scope, decision)
    return exchanged_tokens.answer(token, None, now)
