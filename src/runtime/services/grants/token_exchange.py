"""The token exchange grant (RFC 8693), step by step. Every exchange takes these steps, in this order.

The steps are numbered as token events record them:
1 the form was read, 2 its zone resolved, 3 the client authenticated (`token_endpoint`)
4 subject token   5 session: epochs and the cached token in one round trip   6 chain   7 resource
8 dependency   9 consent   10 scopes, of the chain and of the resource, and lifetime   11 policy   12 a token
issued before, or the user's credential from the vault   13 signing of a new one   14 storing for the next
"""

from contextlib import suppress
from datetime import datetime
from typing import Any

from runtime.domain import cache_tags
from runtime.domain.errors import InvalidGrant, OAuthError
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth import attenuation
from runtime.domain.oauth import scopes as scope_strings
from runtime.domain.oauth.attenuation import Delegation
from runtime.domain.oauth.claims import names_of, seconds
from runtime.domain.oauth.exchange import ExchangeRequest, read_request
from runtime.domain.oauth.exchange_steps import Step
from runtime.services.authority import revalidation
from runtime.services.authority.chain_consents import require_chain_consents
from runtime.services.authority.consents import Allowance, require_allowance, wider_consent_required
from runtime.services.authority.subject_tokens import (
    ExpiredToken,
    SubjectToken,
    as_actor,
    check_actor,
    check_provenance,
    prior_actors,
    refused,
    require_audience_consent,
    require_not_denied,
    require_not_taken_back,
    verify_subject_token,
)
from runtime.services.client_types import ApplicationClient, Client, require_confidential
from runtime.services.container import Services
from runtime.services.decision_log import Decision
from runtime.services.grants import exchanged_tokens, user_refusals
from runtime.services.grants.authorized_exchanges import (
    AllowedTarget,
    AllowedTargetCache,
    AuthorizedExchange,
)
from runtime.services.grants.context import TokenContext
from runtime.services.grants.exchanged_tokens import TokenSeries
from runtime.services.grants.known_exchanges import KnownExchanges, SentRequest
from runtime.services.grants.verified_chains import VerifiedChain, authority_of
from runtime.services.issuing import policy_decision, target_checks, token_cache
from runtime.services.vault import credential_cache, credentials, refresh
from runtime.services.vault.credentials import KeptCredential
from runtime.services.zones import CachedZone, SessionRoot, collecting
from runtime.storage.sql.vault_tokens import VaultPlace


async def grant(context: TokenContext) -> dict[str, Any]:
    """A token for one resource, on the authority of the subject token's user."""
    client = require_confidential(context.client)
    request = read_request(context.form, context.resources, context.audiences)
    return await exchange(
        context.services,
        context.zone,
        client,
        request,
        now=context.now,
        decision=context.decision,
        jkt=context.jkt,
        sent=context.sent,
    )


async def exchange(
    services: Services,
    zone: CachedZone,
    client: ApplicationClient,
    request: ExchangeRequest,
    *,
    now: datetime,
    decision: Decision,
    jkt: str | None = None,
    sent: SentRequest | None = None,
) -> dict[str, Any]:
    """The members of the answer to an exchange request.

    Args:
        zone: the zone as this process knows it; the round trip tells whether it still stands.
        decision: is filled in on the way.
        jkt: thumbprint of the key that the sender has proved to have; what is issued is bound to it.
        sent: the request as it came, for `repeat`; None where that proves nothing a second time.
    Raises: OAuthError; StaleZone when all is to be done again with a newer view.
    """
    decision.step = Step.SUBJECT_TOKEN
    try:
        subject = verify_subject_token(zone, request.subject_token, now)
    except ExpiredToken as refusal:
        await _name_subject_and_resource(zone, refusal.subject, request, decision)
        raise
    decision.actors = names_of(subject.actors)
    resource = await zone.resources.resolve(request.resource)
    decision.resource_id = resource.id if resource else None

    decision.step = Step.SESSION
    held = await revalidation.cached_root(zone, subject.session_id)
    # A session never changes its user: whoever it is, a refusal from here on is one of theirs.
    decision.user_id = held.root.principal.user.id if held.root else None
    before = await prior_actors(zone, client, subject)
    place = await credential_cache.place_of(zone, held.root, resource)
    named = resource.id if resource else ""
    series = exchanged_tokens.series_of(zone, client, subject, before, held.root, named, jkt)
    if place is not None:
        key = credential_cache.entry_key(place)
    else:
        key = token_cache.entry_key(series.key_prefix, request.scopes)
    current_root, candidate = await revalidation.revalidate(services, zone, held, key=key)
    require_not_denied(zone, subject.token_id)
    root, authority = await authority_of(zone, subject, current_root, now)

    chain = VerifiedChain(subject, before, root, authority)
    try:
        return await _exchange_chain(
            services,
            zone,
            client,
            request,
            chain,
            resource,
            place,
            series,
            key,
            candidate,
            now=now,
            decision=decision,
            jkt=jkt,
            sent=sent,
        )
    except OAuthError as refusal:
        raise await user_refusals.answer_to(
            refusal, zone, client, chain, resource, request.scopes, now=now, decision=decision
        ) from None


async def _exchange_chain(
    services: Services,
    zone: CachedZone,
    client: ApplicationClient,
    request: ExchangeRequest,
    chain: VerifiedChain,
    resource: Resource | None,
    place: VaultPlace | None,
    series: TokenSeries,
    key: str,
    candidate: bytes | None,
    *,
    now: datetime,
    decision: Decision,
    jkt: str | None,
    sent: SentRequest | None,
) -> dict[str, Any]:
    """Steps 6 to 14.

    Args:
        place: where the vault would have the user's credential.
        series: of the tokens that such requests are answered with.
        key, candidate: where the short-lived state keeps what was issued, and what it has there.
    Raises: as `exchange` does.
    """
    subject, root = chain.subject, chain.root
    question = cached = entry = None
    if place is None and request.actor_token is None:
        question = "\0".join((subject.digest, jkt or "", request.resource, *request.audiences))
        entry = zone.cache_of(AllowedTargetCache).find(question, client, root, request.scopes, now)
    if entry is not None:
        allowed, tags, changed_at = entry.value.allowed, entry.tags, entry.changed_at
        authorized = await authorize_scopes(
            zone, client, request.scopes, chain, allowed, now=now, decision=decision, jkt=jkt
        )
    else:
        cached = credential_cache.open_entry(candidate, zone, root, place, now)
        with collecting() as collected:
            collected |= client.cache_tags | chain.authority.cache_tags
            if resource is not None:
                await zone.resources.resolve(request.resource)
            allowed = await require_target(
                services,
                zone,
                client,
                request,
                chain,
                resource,
                now=now,
                decision=decision,
                jkt=jkt,
                cached=cached,
            )
            authorized = await authorize_scopes(
                zone, client, request.scopes, chain, allowed, now=now, decision=decision, jkt=jkt
            )
        tags = cache_tags.decisive(collected)
        changed_at = zone.history.changed_at(tags)
        if question is not None:
            allowed = allowed._replace(permitted_by=authorized.permitted_by)
            zone.cache_of(AllowedTargetCache).store(question, allowed, client, root, now, tags, zone.epoch)
    plan = authorized.plan

    decision.step, credential = Step.CREDENTIAL, allowed.credential
    if credential is not None:
        refreshed = await refresh.current(services, zone, client, allowed.resource, credential, now=now)
        if refreshed is not credential:
            # It took as long as the provider did, and the user may have connected the account for more scopes
            # since: what was concluded before is asked again, of the token that the vault has now.
            raise revalidation.StaleZone
        if root is not None and credential is not cached:
            decision.step = Step.STORING
            await credential_cache.store(services, zone, root, credential, now=services.clock())
        return credentials.response(credential, plan.scopes, until=plan.expires_at, now=services.clock())
    token = await exchanged_tokens.issue(
        services, zone, client, chain, plan, series, key, candidate, changed_at, now=now, decision=decision
    )
    if sent is not None and question is not None:
        known = zone.cache_of(KnownExchanges).store(
            sent, client, chain, allowed, series, now, tags, zone.epoch
        )
        if known is not None:
            known.remember(token, plan, sent.scope, decision)
    return exchanged_tokens.answer(token, jkt, now)


async def _name_subject_and_resource(
    zone: CachedZone, subject: SubjectToken, request: ExchangeRequest, decision: Decision
) -> None:
    """Record whose token is refused, and for what, as far as their session and that are still there."""
    decision.actors = names_of(subject.actors)
    resource = await zone.resources.resolve(request.resource)
    decision.resource_id = resource.id if resource else None
    with suppress(InvalidGrant):
        held = await revalidation.cached_root(zone, subject.session_id)
        decision.user_id = held.root.principal.user.id if held.root else None


async def authorize(
    services: Services,
    zone: CachedZone,
    client: ApplicationClient,
    request: ExchangeRequest,
    chain: VerifiedChain,
    target: Resource | None,
    *,
    now: datetime,
    decision: Decision,
) -> AuthorizedExchange:
    """Steps 6 to 11: what the application may have for a chain that is in order; nothing is issued.

    Args:
        target: what `resource` resolves to; None for an unknown one.
        decision: is filled in on the way; its step is the one that refused.
    Raises: OAuthError.
    """
    allowed = await require_target(services, zone, client, request, chain, target, now=now, decision=decision)
    return await authorize_scopes(zone, client, request.scopes, chain, allowed, now=now, decision=decision)


async def require_target(
    services: Services,
    zone: CachedZone,
    client: ApplicationClient,
    request: ExchangeRequest,
    chain: VerifiedChain,
    target: Resource | None,
    *,
    now: datetime,
    decision: Decision,
    jkt: str | None = None,
    cached: KeptCredential | None = None,
) -> AllowedTarget:
    """Steps 6 to 9: whether the application may have anything for the chain at the resource, and within what.

    With `authorize_scopes`, every rule of an exchange is asked here, of a real one and of one that is only
    explained.

    Args:
        cached: the user's credential for the resource, where it need not be read from the vault.
    Raises: OAuthError.
    """
    root = chain.root
    decision.step = Step.CHAIN
    await target_checks.require_principal(zone, client)
    issued_to = await check_provenance(zone, client, chain.subject, jkt=jkt)
    if root is not None:
        await require_chain_consents(services, zone, chain.subject, root, now)
    if root is not None and not _asks_for_the_same(client, issued_to, chain.subject, target):
        await require_audience_consent(services, zone, chain.subject, issued_to, root, now)
    await check_actor(zone, client, chain.subject, request.actor_token, now, jkt=jkt)

    decision.step = Step.RESOURCE
    resource = await target_checks.require_resource(zone, request.resource, target, request.audiences)
    decision.resource_id = resource.id

    decision.step = Step.DEPENDENCY
    await target_checks.require_dependency(zone, client, resource)

    decision.step = Step.SCOPES  # first: nobody is asked for consent to a scope that there is not
    attenuation.require_offered(frozenset(resource.scopes or ()), request.scopes)

    decision.step = Step.CONSENT
    allowed = await require_authorization(
        services, zone, client, root, resource, wanted=request.scopes, now=now, cached=cached
    )
    if root is not None:  # last: who has taken something back is asked for it again
        require_not_taken_back(zone, root, chain.subject)
    return allowed


async def require_authorization(
    services: Services,
    zone: CachedZone,
    client: ApplicationClient,
    root: SessionRoot | None,
    resource: Resource,
    *,
    wanted: frozenset[str] | None,
    now: datetime,
    cached: KeptCredential | None = None,
) -> AllowedTarget:
    """Step 9: what the user has authorized at the resource, and the credential that it takes.

    Args:
        wanted: the scopes as requested; None when the request names none.
        cached: the user's credential for the resource, where it need not be read from the vault.
    Raises: OAuthError.
    """
    provider = await target_checks.find_credential_provider(zone, resource)
    allowance = Allowance()
    if root is not None:
        allowance = await require_allowance(services, zone, client, root, resource, wanted=wanted, now=now)
    credential = None
    if provider is not None:
        credential = await credentials.require(
            services,
            zone,
            client,
            root,
            resource,
            provider,
            allowance=allowance,
            now=now,
            wanted=wanted,
            cached=cached,
        )
        allowance = credential.bounds(allowance)
    return allowed_target(services, root, resource, allowance, credential)


def allowed_target(
    services: Services,
    root: SessionRoot | None,
    resource: Resource,
    allowance: Allowance,
    credential: KeptCredential | None = None,
) -> AllowedTarget:
    """The resource, with what limits a token for it under what the user allows."""
    return AllowedTarget(resource, _limits(services, root, resource, allowance), allowance, credential)


async def authorize_scopes(
    zone: CachedZone,
    client: ApplicationClient,
    wanted: frozenset[str] | None,
    chain: VerifiedChain,
    allowed: AllowedTarget,
    *,
    now: datetime,
    decision: Decision,
    jkt: str | None = None,
) -> AuthorizedExchange:
    """Steps 10 and 11: what a token for the target would say, as far as policies permit it.

    Args:
        wanted: the scopes as requested; None when the request names none.
    Raises: OAuthError.
    """
    resource, root, credential = allowed.resource, chain.root, allowed.credential
    decision.step, decision.resource_id = Step.SCOPES, resource.id
    parent = chain.delegation
    if root is not None and credential is None:
        _require_consented(zone, client, parent, resource, allowed.allowance, wanted)
    plan = attenuation.attenuate(
        parent, allowed.limits, wanted, actor=as_actor(zone, client), jkt=jkt, now=now
    )
    _require_lifetime(plan, now)
    decision.actors = names_of(plan.actors)
    if credential is not None:
        credentials.require_whole(credential, plan.scopes)

    decision.step = Step.POLICY
    if allowed.permitted_by is not None:
        decision.determining = allowed.permitted_by
        return AuthorizedExchange(resource, plan, credential, allowed.permitted_by)
    verdict = await policy_decision.decide_exchange(
        zone,
        client,
        chain.authority,
        actors=decision.actors,
        resource=resource,
        scopes=plan.scopes,
        now=now,
    )
    decision.determining = verdict.determining
    if verdict.scopes is None:
        raise policy_decision.denied()
    if credential is not None and credential.scopes - verdict.scopes:
        decision.determining = verdict.forbidding  # a credential is handed out whole or not at all
        raise policy_decision.denied()

    return AuthorizedExchange(
        resource=resource,
        plan=plan.restricted_to(verdict.scopes),
        credential=credential,
        permitted_by=verdict.determining if verdict.is_for_any_scopes else None,
        left_out=plan.scopes - verdict.scopes,
        forbidding=verdict.forbidding,
        unpermitted=verdict.unpermitted,
    )


def _asks_for_the_same(
    client: ApplicationClient, issued_to: Client, subject: SubjectToken, resource: Resource | None
) -> bool:
    """Tell whether a client exchanges its own token for what that is for already.

    Then what the token rests on is what the target is asked for, and whose refusal says where the user can
    give it again.
    """
    return (
        issued_to.client_ref == client.client_ref
        and resource is not None
        and resource.identifier == subject.audience
    )


def _require_consented(
    zone: CachedZone,
    client: ApplicationClient,
    parent: Delegation,
    resource: Resource,
    allowance: Allowance,
    wanted: frozenset[str] | None,
) -> None:
    """Refuse scopes that nothing but the user's consent leaves out, in the words that ask for it.

    Raises: InvalidScope.
    """
    if wanted is None or allowance.covers(wanted):
        return
    held = parent.scopes if parent.audience == resource.identifier else None
    if not scope_strings.narrow(wanted, frozenset(resource.scopes or ()), held).refused:
        raise wider_consent_required(zone, client, resource)


def _limits(
    services: Services, root: SessionRoot | None, resource: Resource, allowance: Allowance
) -> attenuation.TokenLimits:
    """What limits a token for the resource, whatever it is made from.

    Spec: zone interface, section 6, rules 2, 4, 5 and 7.
    """
    return attenuation.TokenLimits(
        resource.identifier,
        frozenset(resource.scopes or ()),
        resource.credential_lifetime_seconds or services.settings.token_lifetime_seconds,
        allowed=allowance.scopes,
        ends=(root.session.expires_at if root else None, allowance.ends_at),
    )


def _require_lifetime(plan: Delegation, now: datetime) -> None:
    """Raise InvalidGrant unless a token of that delegation would last at all."""
    if seconds(plan.expires_at) <= seconds(now):
        raise refused("the token would have no lifetime left")
