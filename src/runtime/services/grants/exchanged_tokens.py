"""Tokens of an exchange, its steps 12 to 14: one that was issued before, or a new one."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from runtime.domain.oauth import scopes as scope_strings
from runtime.domain.oauth.attenuation import Delegation
from runtime.domain.oauth.claims import (
    AccessTokenFacts,
    ChainActor,
    access_token,
    names_of,
    reissued,
    seconds,
)
from runtime.domain.oauth.exchange import ACCESS_TOKEN
from runtime.domain.oauth.exchange_steps import Step
from runtime.domain.oauth.revocable_names import TokenNames
from runtime.services import rate_limits
from runtime.services.authority import revalidation
from runtime.services.authority.subject_tokens import SubjectToken
from runtime.services.client_types import ApplicationClient
from runtime.services.container import Services
from runtime.services.decision_log import Decision
from runtime.services.grants.verified_chains import VerifiedChain
from runtime.services.issuing import issue_time, token_cache
from runtime.services.issuing.access_tokens import confirmation, new_token_id, sign_access_token, token_type
from runtime.services.issuing.token_cache import CachedToken, OpenedTokens
from runtime.services.zones import CachedZone, SessionRoot


@dataclass(slots=True)
class TokenSeries:
    """The tokens of one client for one chain and one target: they differ in scopes, times and ids alone.

    Attributes:
        key_prefix: of their keys in the short-lived state; see `token_cache.entry_key`.
        names: under which they are revoked.
        claims: those of the first one, from which the others are made.
    """

    key_prefix: str
    names: TokenNames | None = None
    claims: dict[str, Any] | None = None


def series_of(
    zone: CachedZone,
    client: ApplicationClient,
    subject: SubjectToken,
    before: tuple[ChainActor, ...],
    root: SessionRoot | None,
    resource_id: str,
    jkt: str | None,
) -> TokenSeries:
    """The series of such an exchange."""
    key_prefix = token_cache.key_prefix(
        zone_id=zone.id,
        issuer=zone.issuer,
        principal=root.principal.user.id if root else f"application:{subject.sub}",
        resource=resource_id,
        client_id=client.client_id,
        actors=before,
        # Without a session the subject token itself bounds what is issued.
        session_id=subject.session_id or subject.digest,
        confirmation=confirmation(jkt),
    )
    return TokenSeries(key_prefix)


async def issue(
    services: Services,
    zone: CachedZone,
    client: ApplicationClient,
    chain: VerifiedChain,
    plan: Delegation,
    series: TokenSeries,
    key: str,
    candidate: bytes | None,
    changed_at: int,
    *,
    now: datetime,
    decision: Decision,
) -> CachedToken:
    """Steps 12 to 14: a token of that plan which was issued before, or a new one.

    Args:
        key, candidate: where the short-lived state keeps one, and what it has there.
        changed_at: the zone's epoch at the last change of anything that such a token depends on.
    """
    epochs = (zone.epoch, *(chain.root.epochs if chain.root else (0, 0)))
    opened = zone.cache_of(OpenedTokens)
    token = token_cache.open_entry(
        candidate,
        key=key,
        sealer=zone.sealer,
        opened=opened,
        epochs=epochs,
        changed_at=changed_at,
        plan=plan,
        now=now,
    )
    if token is None or token.token_id in zone.denied:
        await _require_settled(zone, client, chain, plan, series, now)
        decision.step = Step.SIGNING
        token = _mint(zone, client, chain, plan, series, epochs, now)
        decision.step = Step.STORING
        is_shared = services.state.version is None
        if is_shared and services.rate_limiter.hit_local(rate_limits.CACHED_TOKENS, zone.organization_id):
            return token
        await token_cache.store(services.state, token, key=key, sealer=zone.sealer, opened=opened, now=now)
    return token


async def _require_settled(
    zone: CachedZone,
    client: ApplicationClient,
    chain: VerifiedChain,
    plan: Delegation,
    series: TokenSeries,
    now: datetime,
) -> None:
    """Wait while a new token could not be told from what was revoked.

    Raises: StaleZone when that took time, in which much may have changed.
    """
    if series.names is None:
        own = None if chain.root else chain.subject.sub
        series.names = TokenNames(client.client_id, plan.audience, names_of(plan.actors), own=own)
    withdrawn = chain.root.withdrawn if chain.root else issue_time.NOTHING
    if seconds_left := await issue_time.seconds_to_wait(zone, series.names, now, withdrawn=withdrawn):
        if not zone.is_uncached:  # else a transaction is open
            await issue_time.wait(seconds_left)
        raise revalidation.StaleZone


def _mint(
    zone: CachedZone,
    client: ApplicationClient,
    chain: VerifiedChain,
    plan: Delegation,
    series: TokenSeries,
    epochs: token_cache.Epochs,
    now: datetime,
) -> CachedToken:
    """A new token. Every fact in it was established in this request, or in the first one of the series."""
    token_id, expires_at = new_token_id(), seconds(plan.expires_at)
    if series.claims is None:
        written = series.claims = access_token(_facts(zone, client, chain, plan, token_id, now))
    else:
        written = reissued(
            series.claims, plan.scopes, issued_at=seconds(now), expires_at=expires_at, token_id=token_id
        )
    return CachedToken(sign_access_token(zone, written), token_id, expires_at, plan.scopes, epochs)


def _facts(
    zone: CachedZone,
    client: ApplicationClient,
    chain: VerifiedChain,
    plan: Delegation,
    token_id: str,
    now: datetime,
) -> AccessTokenFacts:
    root = chain.root
    return AccessTokenFacts(
        issuer=zone.issuer,
        subject=chain.subject.sub,
        subject_profile=chain.subject_profile,
        audience=plan.audience,
        client_id=client.client_id,
        scopes=plan.scopes,
        issued_at=now,
        expires_at=plan.expires_at,
        token_id=token_id,
        session_id=root.session.id if root else chain.subject.application_session_id,
        authenticated_at=root.session.authenticated_at if root else None,
        acr=root.session.acr if root else None,
        actors=plan.actors,
        confirmation=confirmation(plan.jkt),
    )


def answer(token: CachedToken, jkt: str | None, now: datetime) -> dict[str, Any]:
    """The members of the answer with a token. Spec: RFC 8693 section 2.2.1."""
    return {
        "access_token": token.token,
        "issued_token_type": ACCESS_TOKEN,
        "token_type": token_type(jkt),
        "expires_in": token.expires_at - seconds(now),
    } | scope_strings.member(token.scopes)
