"""Token responses: access and ID token for an authorization code, refresh token or JWT bearer assertion.

An access token has one audience. Who was authorized for one resource gets a token for that; who was
authorized for several, or for none, gets one for the zone itself (userinfo, exchanges), or names a resource.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from runtime.domain.errors import InvalidScope, InvalidTarget, OAuthError
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.role import User
from runtime.domain.oauth import attenuation
from runtime.domain.oauth import scopes as scope_strings
from runtime.domain.oauth.claims import AccessTokenFacts
from runtime.domain.oauth.entity_profiles import EntityProfile
from runtime.domain.oauth.exchange_steps import Step
from runtime.domain.oauth.resources import RequestedResource, at_most_one
from runtime.domain.oauth.revocable_names import Name, TokenNames
from runtime.services.authority import consents
from runtime.services.authority.browser_sessions import profile_claims
from runtime.services.authority.connect_links import MissingAuthorization
from runtime.services.authority.consents import authorization_required
from runtime.services.client_types import Client
from runtime.services.clients import client_lookup
from runtime.services.container import Services
from runtime.services.decision_log import Decision
from runtime.services.issuing import connect_offers, issue_time, policy_decision
from runtime.services.issuing.access_tokens import (
    confirmation,
    issue_access_token,
    issue_id_token,
    new_token_id,
    token_type,
)
from runtime.services.issuing.policy_decision import PolicyPrincipal
from runtime.services.issuing.target_checks import issues_itself, require_own_tokens
from runtime.services.zones import CachedZone
from runtime.storage.sql.sessions import SessionRecord


@dataclass(frozen=True, slots=True)
class UserAuthorization:
    """What the user agreed to, and who may use it.

    Attributes:
        session: the application's session; its id is the tokens' `sid`.
        user: as read in this request.
        scopes: the sign-in scopes.
        jkt: thumbprint of the key that access tokens are bound to.
        withdrawn: what the user has taken back from the tokens of the session, as `SessionRoot` has it.
    """

    session: SessionRecord
    user: User
    client: Client
    scopes: frozenset[str]
    resources: tuple[RequestedResource, ...]
    jkt: str | None = None
    withdrawn: Mapping[Name, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TokenTarget:
    """What one access token is for.

    Attributes:
        scopes: those that the user has authorized; the resource may have lost some of them.
        ends_at: when the user's delegated grant ends; None when it does not by itself.
    """

    resource: Resource
    scopes: frozenset[str]
    ends_at: datetime | None = None


async def choose_target(
    services: Services,
    zone: CachedZone,
    authority: UserAuthorization,
    named: Sequence[str],
    *,
    decision: Decision,
) -> TokenTarget | None:
    """The resource an access token is for; None for the zone itself.

    That is also for whoever was authorized for a resource of the vault alone: an exchange hands out its
    credential.

    Args:
        named: what the token request says; it can only narrow what was authorized.
        decision: is filled in on the way; its step is the one that refused.
    Raises: InvalidTarget; AccessDenied when the client may not know any more who the user is, or may not use
        the resource: the user has taken it back, or has agreed to another client than it is by now.
    Spec: RFC 8707 section 2.2; zone interface, section 3.
    """
    wanted = at_most_one(named)
    decision.step = Step.CONSENT
    if not await consents.covers_sign_in(services, zone, authority.client, authority.user, authority.scopes):
        raise authorization_required(
            zone, authority.client, None, internal="no consent to the sign-in scopes"
        )
    decision.step = Step.RESOURCE
    authorized = {each.id: each for each in authority.resources}
    if zone.is_itself(wanted):
        return None
    if wanted is not None:
        found = await zone.resources.resolve(wanted)
        decision.resource_id = found.id if found else None
        asked = authorized.get(found.id) if found else None
        if asked is None:
            raise InvalidTarget("the user has not authorized this `resource`")
    elif len(authorized) == 1 and not await _is_in_vault(zone, authority.resources[0]):
        asked = authority.resources[0]
    else:
        return None
    return await _usable(services, zone, authority, asked, decision)


def narrowed(authority: UserAuthorization, scope: str | None) -> UserAuthorization:
    """The same authority with fewer scopes. Raises InvalidScope for one that was not authorized."""
    if scope is None:
        return authority
    whole = authority.scopes.union(*(each.scopes for each in authority.resources))
    narrowed = scope_strings.narrow(scope_strings.parse(scope), whole)
    if narrowed.refused:
        raise InvalidScope(f"`{min(narrowed.refused)[:60]}` is not a scope that the user has authorized")
    asked = narrowed.issued
    resources = tuple(each.model_copy(update={"scopes": each.scopes & asked}) for each in authority.resources)
    return replace(authority, scopes=authority.scopes & asked, resources=resources)


async def answer(
    services: Services,
    zone: CachedZone,
    authority: UserAuthorization,
    target: TokenTarget | None,
    *,
    nonce: str | None,
    now: datetime,
    decision: Decision,
) -> dict[str, Any]:
    """The members of a token response, but for a refresh token.

    Args:
        decision: is filled in on the way; its step is the one that refused.
    Raises: AccessDenied when policy says no; NotSettled.
    """
    names = TokenNames(authority.client.client_id, target.resource.identifier if target else None)
    await issue_time.require_settled(zone, names, now, withdrawn=authority.withdrawn)
    decision.step = Step.SCOPES
    plan = attenuation.originate(_limits(services, zone, authority, target), None, jkt=authority.jkt, now=now)
    if target is not None:
        plan = plan.restricted_to(await _permitted(zone, authority, target, plan.scopes, now, decision))
    decision.step = Step.SIGNING
    facts = AccessTokenFacts(
        issuer=zone.issuer,
        subject=authority.user.identifier,
        subject_profile=EntityProfile.USER,
        audience=plan.audience,
        client_id=authority.client.client_id,
        scopes=plan.scopes,
        issued_at=now,
        expires_at=plan.expires_at,
        token_id=new_token_id(),
        session_id=authority.session.id,
        authenticated_at=authority.session.authenticated_at,
        acr=authority.session.acr,
        actors=plan.actors,
        confirmation=confirmation(plan.jkt),
    )
    access_token = issue_access_token(zone, facts)
    members: dict[str, Any] = {
        "access_token": access_token,
        "token_type": token_type(authority.jkt),
        "expires_in": int((facts.expires_at - now).total_seconds()),
    } | scope_strings.member(plan.scopes | authority.scopes)
    if "openid" in authority.scopes:
        members["id_token"] = issue_id_token(
            zone,
            subject=authority.user.identifier,
            client_id=authority.client.client_id,
            session_id=authority.session.id,
            access_token=access_token,
            nonce=nonce,
            authenticated_at=authority.session.authenticated_at,
            acr=authority.session.acr,
            now=now,
            algorithm=authority.client.id_token_algorithm,
            expires_at=now + timedelta(seconds=services.settings.token_lifetime_seconds),
            extra=person_claims(authority.user, authority.session.session_data, authority.scopes)
            | ({"amr": authority.session.amr} if authority.session.amr else {}),
        )
    return members


def _limits(
    services: Services, zone: CachedZone, authority: UserAuthorization, target: TokenTarget | None
) -> attenuation.TokenLimits:
    """What limits a token of this authority, for a resource or for the zone itself."""
    lifetime, ends = services.settings.token_lifetime_seconds, authority.session.expires_at
    if target is None:
        return attenuation.TokenLimits(zone.issuer, authority.scopes, lifetime, ends=(ends,))
    resource = target.resource
    return attenuation.TokenLimits(
        resource.identifier,
        frozenset(resource.scopes or ()),
        resource.credential_lifetime_seconds or lifetime,
        allowed=target.scopes,
        ends=(ends, target.ends_at),
    )


def person_claims(user: User, session_data: Mapping[str, Any], scopes: frozenset[str]) -> dict[str, Any]:
    """What the scopes let an application know about a user. Spec: OpenID Connect Core section 5.4."""
    claims: dict[str, Any] = {}
    if "email" in scopes:
        claims |= {"email": user.email, "email_verified": user.email_verified}
    if "profile" in scopes:
        claims |= profile_claims(session_data)
        if "email" in scopes:  # what the zone knows a user by is the address, which `profile` alone hides
            claims.setdefault("preferred_username", user.email)
    return claims


async def _is_in_vault(zone: CachedZone, asked: RequestedResource) -> bool:
    """Tell whether only an exchange hands out what a resource accepts."""
    resource = await zone.resources.get(asked.id)
    return resource is not None and not await issues_itself(zone, resource)


async def _usable(
    services: Services,
    zone: CachedZone,
    authority: UserAuthorization,
    asked: RequestedResource,
    decision: Decision,
) -> TokenTarget:
    """The resource as it stands now, if the application may still have a token for it.

    Raises: InvalidTarget; AccessDenied when the user has taken it back, or must connect an account first.
    """
    decision.step, decision.resource_id = Step.DEPENDENCY, asked.id
    resource = await zone.resources.get(asked.id)
    client = authority.client
    if resource is None or not await client_lookup.may_request(zone, client, resource):
        raise InvalidTarget("the application may no longer request a token for that resource")
    decision.step = Step.CONSENT
    await require_own_tokens(zone, resource, has_user=True)
    allowance = await consents.find_granted_allowance(services, zone, client, authority.user, asked)
    if allowance is None:
        raise await _asking_again(services, zone, authority, resource, asked.scopes, decision)
    return TokenTarget(resource, asked.scopes, allowance.ends_at)


async def _asking_again(
    services: Services,
    zone: CachedZone,
    authority: UserAuthorization,
    resource: Resource,
    scopes: frozenset[str],
    decision: Decision,
) -> OAuthError:
    """The refusal of what the user does not allow any more: with a link, or in the name of policy."""
    client = authority.client
    return await connect_offers.answer_to(
        authorization_required(zone, client, resource, internal="consent was withdrawn during the request"),
        zone,
        client,
        await _principal(zone, authority),
        resource,
        MissingAuthorization(authority.session, scopes, (client.identifier,), services.clock()),
        scopes=scopes,
        decision=decision,
    )


async def _principal(zone: CachedZone, authority: UserAuthorization) -> PolicyPrincipal:
    person = await zone.session_roots.principal(authority.user)
    return PolicyPrincipal.of_user(authority.session, person)


async def _permitted(
    zone: CachedZone,
    authority: UserAuthorization,
    target: TokenTarget,
    scopes: frozenset[str],
    now: datetime,
    decision: Decision,
) -> frozenset[str]:
    """The scopes that the zone's policies leave: a sign-in is no way around them. Raises AccessDenied."""
    decision.step = Step.POLICY
    verdict = await policy_decision.decide_exchange(
        zone,
        authority.client,
        await _principal(zone, authority),
        actors=(authority.client.identifier,),
        resource=target.resource,
        scopes=scopes,
        now=now,
    )
    decision.determining = verdict.determining
    if verdict.scopes is None:
        raise policy_decision.denied()
    return verdict.scopes
