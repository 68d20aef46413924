"""Token introspection: is a token active, and what are its claims?

Whoever asks is an audience of the token: the application that provides the resource in `aud`, or for a
refresh token the client that holds it. To others every token is one that nobody knows. Spec: RFC 7662.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson

from runtime.adapters.keys.signing import MalformedJwt
from runtime.domain.errors import (
    AccessDenied,
    InsufficientAuthorization,
    InvalidClient,
    InvalidGrant,
    InvalidRequest,
    OAuthError,
)
from runtime.domain.oauth import scopes as scope_strings
from runtime.domain.oauth.claims import seconds
from runtime.domain.oauth.decision_events import DecisionEvent
from runtime.domain.oauth.forms import Form
from runtime.metrics import INTROSPECTIONS
from runtime.services import decision_log
from runtime.services.authority import revalidation
from runtime.services.authority.chain_consents import require_chain_consents
from runtime.services.authority.subject_tokens import (
    check_chain,
    provides,
    refused,
    require_audience_consent,
    require_not_denied,
    require_not_taken_back,
    require_own_application,
    require_root,
    verify_access_token,
)
from runtime.services.client_types import Client
from runtime.services.clients import authenticate_client
from runtime.services.clients.authentication_throttling import FAILED_AUTHENTICATIONS
from runtime.services.clients.jwt_replay import one_request
from runtime.services.container import Services
from runtime.services.decision_log import Decision
from runtime.services.grants import refresh_token_rotation
from runtime.services.zones import CachedZone

INACTIVE = b'{"active":false}'
_ACTIVE, _NOT_ACTIVE = INTROSPECTIONS.labels("active"), INTROSPECTIONS.labels("inactive")


async def respond(
    services: Services,
    zone_id: str,
    form: Form,
    *,
    authorization: str | None,
    address: str,
    request_id: str,
) -> bytes:
    """The JSON object that answers the question; exactly `INACTIVE` whatever is wrong with the token.

    What is wrong is recorded, as far as the limits of records go: what a stranger shows to a resource server
    comes here. That a token is active is no decision, and leaves none.

    Raises: OAuthError, InvalidClient for a caller that has not proved who it is; NotFound for an unknown
        zone; Unavailable.
    """

    asked: tuple[CachedZone, Client | None] | None = None

    async def attempt(zone: CachedZone) -> bytes:
        nonlocal asked
        asked = zone, None
        client = await authenticate_client(
            services,
            zone,
            form.values,
            authorization=authorization,
            address=address,
            throttle=FAILED_AUTHENTICATIONS,
        )
        asked = zone, client
        token = form.values.get("token")
        if token is None:
            raise InvalidRequest("`token` is missing")
        if client.is_public:
            raise InvalidClient(internal="a public client has no credential")
        services.decisions.record_use(zone.organization_id, zone.id, client)
        return await _told_of(services, zone, client, token, services.clock())

    try:
        with one_request():
            told = await revalidation.on_current_zone(services, zone_id, attempt, may_repeat=True)
            _ACTIVE.inc()
            return told
    except OAuthError as refusal:
        if asked is not None:
            decision = _decision(services, *asked, refusal, request_id)
            services.decisions.record_sampled(decision, address=address)
        if isinstance(refusal, _Inactive):
            _NOT_ACTIVE.inc()
            return INACTIVE
        raise


def _decision(
    services: Services, zone: CachedZone, client: Client | None, refusal: OAuthError, request_id: str
) -> Decision:
    """What is recorded of a token that is not active, or of a caller that may not ask."""
    decision = Decision(
        zone.organization_id, zone.id, services.clock(), request_id, event=DecisionEvent.INTROSPECTION
    )
    if client is not None:
        decision.identify(client)
    decision.refuse(refusal)
    if isinstance(refusal, _Inactive):
        decision.outcome = decision_log.INACTIVE
    return decision


class _Inactive(OAuthError):
    """The token is not active, as far as the caller may know."""

    code = decision_log.INACTIVE


async def _told_of(services: Services, zone: CachedZone, client: Client, token: str, now: datetime) -> bytes:
    """What a token says. Raises _Inactive, StaleZone, Unavailable."""
    try:
        if token.count(".") == 2:
            return await _access_token(services, zone, client, token, now)
        return await _refresh_token(services, zone, client, token, now)
    except (InvalidGrant, AccessDenied, InsufficientAuthorization) as refusal:
        raise _Inactive(refusal.detail, internal=refusal.internal or refusal.detail) from None


async def _access_token(
    services: Services, zone: CachedZone, client: Client, token: str, now: datetime
) -> bytes:
    """What an access token says, while everything it rests on stands. Raises InvalidGrant, AccessDenied."""
    try:
        known = verify_access_token(zone, token, now)
    except MalformedJwt as failure:
        raise refused(str(failure)) from None
    subject = known.subject
    root, _ = await revalidation.revalidate(
        services, zone, await revalidation.cached_root(zone, subject.session_id)
    )
    require_not_denied(zone, subject.token_id)
    if not await provides(zone, client, subject):
        raise refused("the caller is not an audience of the token")
    issued_to = await check_chain(zone, subject)
    if subject.session_id is None:
        await require_own_application(zone, subject, now)
        return _told(known.claims)
    standing = require_root(root, subject, now)
    await require_chain_consents(services, zone, subject, standing, now)
    await require_audience_consent(services, zone, subject, issued_to, standing, now)
    require_not_taken_back(zone, standing, subject)
    return _told(known.claims)


def _told(claims: Mapping[str, Any]) -> bytes:
    """The claims as the token has them, each one of them. Spec: RFC 7662 section 2.2."""
    token_type = "DPoP" if "jkt" in claims.get("cnf", {}) else "Bearer"
    return orjson.dumps({"active": True, "token_type": token_type, **claims})


async def _refresh_token(
    services: Services, zone: CachedZone, client: Client, token: str, now: datetime
) -> bytes:
    """What a refresh token of the caller stands for. Asking does not use it. Raises InvalidGrant."""
    family = await refresh_token_rotation.find_family(services, zone, client, token)
    if family is None or not refresh_token_rotation.is_usable(services, family, token, now):
        raise refused("unknown, or used up")
    session, user = await refresh_token_rotation.require_active_family(services, zone, family, now)
    authenticated_at = session.authenticated_at
    told = {
        "active": True,
        "iss": zone.issuer,
        "sub": user.identifier,
        "client_id": client.client_id,
        "iat": seconds(family.rotated_at or family.created_at),
        "exp": seconds(min(family.expires_at, session.expires_at)),
        "sid": session.id,
        "auth_time": seconds(authenticated_at) if authenticated_at else None,
        "acr": session.acr,
    } | scope_strings.member(frozenset(family.scopes))
    return orjson.dumps({name: value for name, value in told.items() if value is not None})
