"""The userinfo endpoint. Spec: OpenID Connect Core section 5.3; RFC 6750."""

from typing import Any

import orjson
from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api.oauth.bearer import BearerUser, require_bearer
from runtime.api.oauth.dpop_headers import offered_nonce
from runtime.api.oauth.errors import NO_STORE, answering_oauth
from runtime.api.oauth.zone_routes import bind_zone_route
from runtime.api.shared.client_address import address_of
from runtime.api.shared.request_ids import request_id_of
from runtime.domain.errors import OAuthError
from runtime.domain.oauth.decision_events import DecisionEvent
from runtime.services.container import Services
from runtime.services.decision_log import Decision, recorded_request
from runtime.services.issuing.token_responses import person_claims
from runtime.services.zones import CachedZone


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the userinfo endpoint of every zone."""
    bind_zone_route(app, userinfo, "/openid/userinfo", methods=("GET", "POST"), cors=True)


@answering_oauth
async def userinfo(request: Request, zone_id: str) -> HTTPResponse:
    """What the token's scopes let the application know of the user. The token travels in the header alone."""
    services: Services = request.app.ctx.services
    zone = await services.zones.get(zone_id)
    bearer = await _require_bearer(services, zone, request)
    user, session = bearer.root.principal.user, bearer.root.session
    claims = {"sub": user.identifier, **person_claims(user, session.session_data, bearer.subject.scopes)}
    headers = {**NO_STORE, **offered_nonce(request, zone)}
    return HTTPResponse(orjson.dumps(claims), headers=headers, content_type="application/json")


async def _require_bearer(services: Services, zone: CachedZone, request: Request) -> BearerUser:
    """The user of the access token; a refusal is recorded. Raises OAuthError."""
    address = str(zone.entity.protocols.openid.userinfo_endpoint)
    request_id = request_id_of(request)
    decision = Decision(
        zone.organization_id, zone.id, services.clock(), request_id, event=DecisionEvent.USERINFO
    )
    try:
        with recorded_request(decision):
            return await require_bearer(
                services, zone, request, audience=zone.issuer, scope="openid", uri=address
            )
    except OAuthError as refusal:
        decision.refuse(refusal)
        services.decisions.record_sampled(decision, address=address_of(request))
        raise
