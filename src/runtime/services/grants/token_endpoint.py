"""The token endpoint: authenticates the client, dispatches on `grant_type`, records the decision.

Spec: RFC 6749 section 3.2; zone interface, sections 3 to 6.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from runtime.domain.errors import (
    InvalidRequest,
    OAuthError,
    TemporarilyUnavailable,
    UnsupportedGrantType,
)
from runtime.domain.oauth.decision_events import DecisionEvent
from runtime.domain.oauth.exchange import GRANT_TYPE as TOKEN_EXCHANGE
from runtime.domain.oauth.exchange_steps import Step
from runtime.domain.oauth.forms import Form, read_form
from runtime.domain.oauth.revocable_names import TokenNames
from runtime.services.authority import revalidation
from runtime.services.authority.revalidation import StaleZone
from runtime.services.clients import authenticate_client, dpop_verification
from runtime.services.clients.authentication_throttling import FAILED_AUTHENTICATIONS
from runtime.services.clients.jwt_replay import one_request
from runtime.services.clients.last_used import LAST_USED
from runtime.services.container import Services
from runtime.services.decision_log import Decision
from runtime.services.grants import (
    authorization_code,
    client_credentials,
    jwt_bearer,
    refresh_token_rotation,
    repeated_exchanges,
    token_exchange,
)
from runtime.services.grants.context import TokenContext
from runtime.services.grants.known_exchanges import (
    KnownExchanges,
    SentRequest,
    may_be_remembered,
    sent_request,
)
from runtime.services.issuing import issue_time
from runtime.services.issuing.issue_time import NotSettled
from runtime.services.rate_limiter import network_of
from runtime.services.zones import CachedZone

_MOST_WAITS = 3
_MOST_REPETITIONS = 2  # of a request that is known, while the zone is written to


@dataclass(frozen=True, slots=True)
class GrantType:
    """One grant type.

    Attributes:
        event: what the record of decisions calls it.
        grant: makes the members of the answer.
        is_single_use: what proves the user counts once, so that the grant cannot be worked on anew.
    """

    event: DecisionEvent
    grant: Callable[[TokenContext], Awaitable[dict[str, Any]]]
    is_single_use: bool = False


GRANT_TYPES: Mapping[str, GrantType] = {
    "authorization_code": GrantType(
        DecisionEvent.AUTHORIZATION_CODE, authorization_code.grant, is_single_use=True
    ),
    "refresh_token": GrantType(DecisionEvent.REFRESH_TOKEN, refresh_token_rotation.grant),
    "client_credentials": GrantType(DecisionEvent.CLIENT_CREDENTIALS, client_credentials.grant),
    TOKEN_EXCHANGE: GrantType(DecisionEvent.TOKEN_EXCHANGE, token_exchange.grant),
    "urn:ietf:params:oauth:grant-type:jwt-bearer": GrantType(
        DecisionEvent.JWT_BEARER, jwt_bearer.grant, is_single_use=True
    ),
}


async def respond(
    services: Services,
    zone_id: str,
    body: bytes,
    *,
    content_type: str | None,
    authorization: str | None,
    address: str,
    request_id: str,
    proof: str | None = None,
) -> dict[str, Any]:
    """The members of the answer to a token request.

    Args:
        body, content_type: the form, encoded.
        authorization: the header of that name.
        address: whom it comes from, for limits.
        proof: the `DPoP` header.
    Raises: OAuthError, after the refusal has been recorded; NotFound for an unknown zone.
    """
    sent = sent_request(body, content_type, authorization) if proof is None else None
    if sent is not None:
        answer = await _repeated(services, zone_id, sent, address, request_id)
        if answer is not None:
            return answer
    form = read_form(body, content_type)
    decision: Decision | None = None

    async def attempt(zone: CachedZone) -> dict[str, Any]:
        nonlocal decision
        decision = Decision(zone.organization_id, zone.id, services.clock(), request_id)
        return await _granted(services, zone, form, decision, authorization, address, proof, sent)

    try:
        with one_request():
            may_repeat = form.values.get("grant_type") == TOKEN_EXCHANGE
            answer = await _once_settled(
                lambda: revalidation.on_current_zone(services, zone_id, attempt, may_repeat=may_repeat)
            )
    except OAuthError as refusal:
        if decision is not None:
            raise await services.decisions.refused(decision, refusal, address=address) from None
        raise
    if decision is not None:
        decision.issue()
        services.decisions.record(decision)
    return answer


async def _once_settled(work: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """The answer, which is made anew after each wait for what was revoked. Raises what *work* raises."""
    for _ in range(_MOST_WAITS):
        try:
            return await work()
        except NotSettled as unsettled:
            await issue_time.wait(unsettled.seconds)
    raise _changed()


def _changed() -> TemporarilyUnavailable:
    return TemporarilyUnavailable("what the request depends on has just been revoked: send a new one")


async def _repeated(
    services: Services, zone_id: str, sent: SentRequest, address: str, request_id: str
) -> dict[str, Any] | None:
    """The answer to a request that is known, and recorded; None where it has to be read after all.

    Raises: NotFound for a zone that is gone; Unavailable.
    """
    for _ in range(_MOST_REPETITIONS):
        zone, now = services.zones.cached(zone_id), services.clock()
        known = zone.cache_of(KnownExchanges).find(sent, now.timestamp()) if zone is not None else None
        if zone is None or known is None:
            return None
        client = known.client
        if FAILED_AUTHENTICATIONS.is_blocked(zone_id, client.client_id, address, now=now.timestamp()):
            return None
        decision = Decision(zone.organization_id, zone_id, now, request_id, DecisionEvent.TOKEN_EXCHANGE)
        decision.identify(client)
        try:
            answer = await repeated_exchanges.repeat(services, zone, known, sent.scope, decision=decision)
        except StaleZone:
            await revalidation.catch_up(services, zone)
            continue
        if answer is not None:
            LAST_USED.record(services, client, now)
            decision.issue()
            services.decisions.record(decision)
        return answer
    return None


async def _granted(
    services: Services,
    zone: CachedZone,
    form: Form,
    decision: Decision,
    authorization: str | None,
    address: str,
    proof: str | None,
    sent: SentRequest | None,
) -> dict[str, Any]:
    name = form.values.get("grant_type")
    if name is None:
        raise InvalidRequest("`grant_type` is required")
    grant_type = GRANT_TYPES.get(name)
    decision.event = grant_type.event if grant_type else DecisionEvent.UNKNOWN_GRANT_TYPE
    decision.step = Step.CLIENT
    client = await authenticate_client(
        services,
        zone,
        form.values,
        authorization=authorization,
        address=address,
        throttle=FAILED_AUTHENTICATIONS,
    )
    decision.identify(client)
    if grant_type is None:
        raise UnsupportedGrantType("this grant type is not supported")
    jkt = None
    if proof is not None:
        uri = str(zone.entity.protocols.oauth2.token_endpoint)
        sender = None if decision.is_known else network_of(address)
        jkt = await dpop_verification.verify_proof(
            services, zone, proof, method="POST", uri=uri, now=decision.at, sender=sender
        )
    context = TokenContext(
        services=services,
        zone=zone,
        client=client,
        form=form.values,
        resources=form.resources,
        audiences=form.audiences,
        now=decision.at,
        request_id=decision.request_id,
        decision=decision,
        jkt=jkt,
        sent=sent if sent is not None and may_be_remembered(sent, form) else None,
    )
    if not grant_type.is_single_use:
        return await grant_type.grant(context)
    # While nothing is used up: a secret that was rotated just now costs nobody a sign-in.
    await issue_time.require_settled(zone, TokenNames(client.client_id, None), decision.at)
    try:
        return await grant_type.grant(context)
    except NotSettled:
        raise _changed() from None
