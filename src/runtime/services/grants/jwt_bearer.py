"""The JWT bearer grant: an access token for a user whom the zone's identity provider names in an assertion.

The provider signs an assertion about somebody who has signed in here before; an application that has one, and
can prove who it is, gets an access token as if that user had signed in to it just now.

Spec: RFC 7523 sections 2.1 and 3; RFC 7521 section 4.1.
"""

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NewType, TypeVar

from runtime.adapters.identity_providers.answers import ProviderRefused
from runtime.adapters.identity_providers.settings import ProviderSettings, settings_of
from runtime.adapters.keys.jose import CompactJws, InvalidJwt, check_class, parse
from runtime.adapters.outbound import OutboundFailed, OutboundRefused
from runtime.domain.errors import InvalidGrant, InvalidRequest, SignInRefused, Unavailable
from runtime.domain.identifiers import new_id
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.role import User
from runtime.domain.oauth import assertions as rules
from runtime.domain.oauth.claims import is_time
from runtime.domain.oauth.exchange_steps import Step
from runtime.domain.oauth.session_claims import kept_claims
from runtime.services.authority import admission
from runtime.services.authority.admission import UserAssertion
from runtime.services.authority.browser_sessions import PROFILE_CLAIMS
from runtime.services.authorization import requests
from runtime.services.client_types import ApplicationClient, require_confidential
from runtime.services.clients.jwt_replay import is_first_use
from runtime.services.container import Services
from runtime.services.decision_log import Decision
from runtime.services.grants.context import TokenContext
from runtime.services.issuing import token_responses
from runtime.services.issuing.token_responses import UserAuthorization
from runtime.services.zones import CachedZone
from runtime.storage.sql import sessions
from runtime.storage.sql.sessions import SessionRecord

REFUSED = "the assertion is not valid"
_T = TypeVar("_T")


async def grant(context: TokenContext) -> dict[str, Any]:
    """A token of the user whom the provider vouches for."""
    return await redeem(
        context.services,
        context.zone,
        require_confidential(context.client),
        context.form,
        context.resources,
        context.now,
        context.jkt,
        decision=context.decision,
    )


@dataclass(frozen=True, slots=True)
class AssertionClaims:
    """What an assertion says; `VerifiedAssertion` is one whose signature was verified.

    Attributes:
        identity: whom it is about: the subject is by the claim that the provider is configured with.
        sub: `sub`, by which it speaks of the user when it ends a session.
        authenticated_at: when the user proved to the provider who they are.
        expires_at, made_at: seconds since 1970; it cannot have been used before the latter.
    """

    identity: UserAssertion
    sub: str
    authenticated_at: datetime
    acr: str | None
    amr: list[str]
    token_id: str
    expires_at: float
    made_at: float


VerifiedAssertion = NewType("VerifiedAssertion", AssertionClaims)


async def redeem(
    services: Services,
    zone: CachedZone,
    client: ApplicationClient,
    form: Mapping[str, str],
    named: Sequence[str],
    now: datetime,
    jkt: str | None = None,
    *,
    decision: Decision,
) -> dict[str, Any]:
    """The token response for an assertion. No refresh token is in it.

    Args:
        jkt: thumbprint of the key that the sender has proved to have; the access token is bound to it.
        decision: is filled in on the way; its step is the one that refused.
    Raises: InvalidRequest; InvalidGrant, with one text for whatever is wrong with the assertion or its user;
        InvalidScope, InvalidTarget, AccessDenied; Unavailable.
    """
    decision.step = Step.SUBJECT_TOKEN
    if (assertion := form.get("assertion")) is None:
        raise InvalidRequest("`assertion` is missing")
    vouched = await _verify(services, zone, client, assertion, now)
    async with services.database.reading() as conn:
        user = await _admissible(admission.find_admissible(conn, zone.entity, vouched.identity))
    decision.step, decision.user_id = Step.RESOURCE, user.id
    asked, resources = await requests.requested_access(zone, client, list(named), form.get("scope"))
    scopes = asked - {"offline_access"}  # nothing here outlives the session
    session = _session(services, zone, client, user, vouched, now)
    authority = UserAuthorization(session, user, client, scopes, resources, jkt)
    target = await token_responses.choose_target(services, zone, authority, named, decision=decision)
    decision.step = Step.SUBJECT_TOKEN
    await _use_once(services, zone, vouched, now)
    answer = await token_responses.answer(
        services, zone, authority, target, nonce=None, now=now, decision=decision
    )
    decision.step = Step.STORING
    async with services.database.transaction(tenant=zone.organization_id) as conn:
        admitted = await _admissible(admission.admit(conn, zone.entity, vouched.identity, now=now))
        if admitted.user.id != user.id:
            raise InvalidGrant(REFUSED, internal="the subject now identifies another user")
        await sessions.add(conn, authority.session)
    return answer


async def _verify(
    services: Services, zone: CachedZone, client: ApplicationClient, assertion: str, now: datetime
) -> VerifiedAssertion:
    """What the zone's own identity provider vouches for. Raises InvalidGrant; Unavailable."""
    provider = await zone.user_provider()
    if provider is None:
        raise InvalidGrant(REFUSED, internal="the zone has no identity provider")
    settings = settings_of(provider, client_secret=None)
    try:
        jws = parse(assertion)
        unverified = _read_unverified(zone, client, provider, settings, jws, now)
        await services.openid.check_signature(settings, jws)
    except OutboundFailed as failure:
        if failure.temporary:
            raise Unavailable("the provider's keys cannot be had", internal=str(failure)) from None
        raise InvalidGrant(REFUSED, internal=str(failure)) from None
    except (InvalidJwt, rules.InvalidAssertion, ProviderRefused, OutboundRefused) as failure:
        raise InvalidGrant(REFUSED, internal=str(failure)) from None
    return VerifiedAssertion(unverified)


def _read_unverified(
    zone: CachedZone,
    client: ApplicationClient,
    provider: Provider,
    settings: ProviderSettings,
    jws: CompactJws,
    now: datetime,
) -> AssertionClaims:
    """What the assertion says, its signature still to be verified. Raises InvalidAssertion; InvalidToken.

    An ID token or an access token of the provider is none: neither is meant for this server alone.
    """
    check_class(jws, ("JWT",))
    claims = jws.unverified_claims
    if rules.named(claims, "iss") != settings.issuer:
        raise rules.InvalidAssertion("another issuer than the zone's identity provider")
    rules.check_audience(claims, zone.issuers)
    ends = rules.check_times(claims, now=now, max_ahead_seconds=rules.MAX_VOUCHED_AHEAD_SECONDS)
    if claims.get("client_id", client.client_id) != client.client_id:
        raise rules.InvalidAssertion("meant for another client")
    subject = rules.named(claims, settings.external_id_claim)
    acr, amr = claims.get("acr"), claims.get("amr")
    return AssertionClaims(
        identity=UserAssertion(provider, settings.issuer, subject, claims),
        sub=rules.named(claims, "sub"),
        authenticated_at=_authenticated_at(claims, now),
        acr=acr if isinstance(acr, str) else None,
        amr=[each for each in amr if isinstance(each, str)][:10] if isinstance(amr, list) else [],
        token_id=rules.token_id(claims),
        expires_at=ends,
        made_at=rules.made_at(claims, ends=ends, max_ahead_seconds=rules.MAX_VOUCHED_AHEAD_SECONDS),
    )


def _authenticated_at(claims: Mapping[str, Any], now: datetime) -> datetime:
    """When the user signed in at the provider, which is no later than now. Raises InvalidAssertion."""
    told = claims.get("auth_time", claims.get("iat", now.timestamp()))
    if not is_time(told):
        raise rules.InvalidAssertion("`auth_time` is not a time")
    return min(datetime.fromtimestamp(told, UTC), now)


async def _admissible(asked: Coroutine[Any, Any, _T]) -> _T:
    """What admission says. Raises InvalidGrant, with one text for whomever it refuses."""
    try:
        return await asked
    except SignInRefused as refusal:
        raise InvalidGrant(REFUSED, internal=refusal.internal or refusal.detail) from None


async def _use_once(services: Services, zone: CachedZone, vouched: VerifiedAssertion, now: datetime) -> None:
    """Take note of the assertion while it lasts. Raises InvalidGrant when it was used; Unavailable."""
    if not await is_first_use(
        services,
        f"vouched:{zone.id}",
        vouched.identity.issuer,
        vouched.token_id,
        made_at=vouched.made_at,
        ttl_seconds=int(vouched.expires_at - now.timestamp()) + 1,
    ):
        raise InvalidGrant(REFUSED, internal="the assertion was used before")


def _session(
    services: Services,
    zone: CachedZone,
    client: ApplicationClient,
    user: User,
    vouched: VerifiedAssertion,
    now: datetime,
) -> SessionRecord:
    """A session of the application's own: no browser stands behind it."""
    return SessionRecord(
        id=new_id(),
        organization_id=zone.organization_id,
        zone_id=zone.id,
        user_id=user.id,
        application_id=client.application.id,
        client_id=client.client_id,
        session_type="application",
        authenticated_at=vouched.authenticated_at,
        expires_at=now + timedelta(seconds=services.settings.session_lifetime_seconds),
        created_at=now,
        updated_at=now,
        acr=vouched.acr,
        amr=vouched.amr,
        provider_id=vouched.identity.provider.id,
        issuer=vouched.identity.issuer,
        subject=vouched.identity.subject,
        provider_subject=vouched.sub,
        session_data=kept_claims(vouched.identity.claims, first=("iss", "sub", *PROFILE_CLAIMS)),
        metadata={"name": client.application.name},
    )
