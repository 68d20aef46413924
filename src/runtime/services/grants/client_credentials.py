"""The client credentials grant: a token for the application itself, for a resource or for the zone."""

from datetime import datetime
from typing import Any

from runtime.domain.errors import InvalidScope, InvalidTarget
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth import attenuation
from runtime.domain.oauth import scopes as scope_strings
from runtime.domain.oauth.attenuation import Delegation
from runtime.domain.oauth.claims import AccessTokenFacts, seconds
from runtime.domain.oauth.entity_profiles import profile_of
from runtime.domain.oauth.exchange_steps import Step
from runtime.domain.oauth.resources import at_most_one
from runtime.domain.oauth.revocable_names import TokenNames
from runtime.services.authority import application_sessions
from runtime.services.client_types import ApplicationClient, require_confidential
from runtime.services.container import Services
from runtime.services.decision_log import Decision
from runtime.services.grants.authorized_exchanges import AuthorizedExchange
from runtime.services.grants.context import TokenContext
from runtime.services.issuing import issue_time, policy_decision, target_checks
from runtime.services.issuing.access_tokens import (
    confirmation,
    issue_access_token,
    new_token_id,
    token_type,
)
from runtime.services.zones import CachedZone


async def grant(context: TokenContext) -> dict[str, Any]:
    """A token of the application's own, for a resource it depends on or for the zone itself."""
    asked = context.form.get("scope")
    return await client_credentials(
        context.services,
        context.zone,
        require_confidential(context.client),
        resources=context.resources,
        audiences=context.audiences,
        scopes=None if asked is None else scope_strings.parse(asked),
        now=context.now,
        decision=context.decision,
        jkt=context.jkt,
    )


async def client_credentials(
    services: Services,
    zone: CachedZone,
    client: ApplicationClient,
    *,
    resources: tuple[str, ...],
    audiences: tuple[str, ...],
    scopes: frozenset[str] | None,
    now: datetime,
    decision: Decision,
    jkt: str | None = None,
) -> dict[str, Any]:
    """The members of the answer to a client credentials request.

    Args:
        jkt: thumbprint of the key that the sender has proved to have; the token is bound to it.
        resources: at most one. Without one, `audiences` may name it, as some providers' clients do; with
            neither, the token is for the zone itself and carries no scope.
    Raises: OAuthError; NotSettled. The steps are numbered as those of an exchange.
    """
    await target_checks.require_principal(zone, client)
    decision.step = Step.RESOURCE
    named = at_most_one(resources or audiences)
    target = await zone.resources.resolve(named) if named is not None else None
    audience = target.identifier if target is not None else None
    names = TokenNames(client.client_id, audience, own=client.application.identifier)
    await issue_time.require_settled(zone, names, now)
    if named is None:
        if scopes:
            raise InvalidScope(
                "a token for the zone itself has no scopes: send `resource`, or leave out `scope`"
            )
        own = attenuation.TokenLimits(zone.issuer, frozenset(), services.settings.token_lifetime_seconds)
        return await _issue(services, zone, client, attenuation.originate(own, None, jkt=jkt, now=now), now)
    try:
        authorized = await authorize(
            services,
            zone,
            client,
            named,
            audiences=audiences,
            scopes=scopes,
            now=now,
            decision=decision,
            jkt=jkt,
        )
    except InvalidTarget as refusal:
        if resources:
            raise
        told = f"{refusal.detail}: `audience` was read as its identifier; send `resource` with that"
        raise InvalidTarget(told, internal=refusal.internal) from None
    decision.step = Step.SIGNING
    return await _issue(services, zone, client, authorized.plan, now)


async def authorize(
    services: Services,
    zone: CachedZone,
    client: ApplicationClient,
    named: str,
    *,
    audiences: tuple[str, ...] = (),
    scopes: frozenset[str] | None,
    now: datetime,
    decision: Decision,
    jkt: str | None = None,
) -> AuthorizedExchange:
    """Steps 7 to 11: what the application may have of a resource for itself; nothing is issued.

    Args:
        named: what the request calls the resource.
        decision: is filled in on the way; its step is the one that refused.
    Raises: OAuthError.
    """
    decision.step = Step.RESOURCE
    resource = await target_checks.require_resource(
        zone, named, await zone.resources.resolve(named), audiences
    )
    decision.resource_id = resource.id
    decision.step = Step.DEPENDENCY
    await target_checks.require_dependency(zone, client, resource)
    decision.step = Step.CONSENT
    await target_checks.require_own_tokens(zone, resource, has_user=False)
    return await authorize_scopes(
        services, zone, client, resource, scopes, now=now, decision=decision, jkt=jkt
    )


async def authorize_scopes(
    services: Services,
    zone: CachedZone,
    client: ApplicationClient,
    resource: Resource,
    scopes: frozenset[str] | None,
    *,
    now: datetime,
    decision: Decision,
    jkt: str | None = None,
) -> AuthorizedExchange:
    """Steps 10 and 11: what a token for the resource would say, as far as policies permit it.

    Raises: OAuthError.
    """
    decision.step = Step.SCOPES
    target = attenuation.TokenLimits(
        resource.identifier,
        frozenset(resource.scopes or ()),
        resource.credential_lifetime_seconds or services.settings.token_lifetime_seconds,
    )
    plan = attenuation.originate(target, scopes, jkt=jkt, now=now)
    decision.step = Step.POLICY
    verdict = await policy_decision.decide_direct(
        zone, client, resource=resource, scopes=plan.scopes, now=now
    )
    decision.determining = verdict.determining
    if verdict.scopes is None:
        raise policy_decision.denied()
    return AuthorizedExchange(
        resource=resource,
        plan=plan.restricted_to(verdict.scopes),
        credential=None,
        left_out=plan.scopes - verdict.scopes,
        forbidding=verdict.forbidding,
        unpermitted=verdict.unpermitted,
    )


async def _issue(
    services: Services, zone: CachedZone, client: ApplicationClient, plan: Delegation, now: datetime
) -> dict[str, Any]:
    session = await application_sessions.current(services, zone, client, until=plan.expires_at, now=now)
    facts = AccessTokenFacts(
        issuer=zone.issuer,
        subject=client.application.identifier,
        subject_profile=profile_of(client.application.traits),
        audience=plan.audience,
        client_id=client.client_id,
        scopes=plan.scopes,
        issued_at=now,
        expires_at=plan.expires_at,
        token_id=new_token_id(),
        session_id=session.id,
        authenticated_at=None,
        acr=None,
        actors=plan.actors,
        confirmation=confirmation(plan.jkt),
    )
    return {
        "access_token": issue_access_token(zone, facts),
        "token_type": token_type(plan.jkt),
        "expires_in": seconds(plan.expires_at) - seconds(now),
    } | scope_strings.member(plan.scopes)
