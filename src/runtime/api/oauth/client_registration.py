"""The registration endpoint. Spec: RFC 7591 section 3; zone interface, sections 3 and 4."""

from typing import Any

import orjson
from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api.oauth.errors import NO_STORE, answering_oauth
from runtime.api.oauth.zone_routes import bind_zone_route
from runtime.api.shared.client_address import address_of
from runtime.api.shared.json_bodies import read_json
from runtime.api.shared.request_ids import request_id_of
from runtime.domain.errors import BadRequest, InvalidClientMetadata, MetadataTooLarge, OAuthError, TooLarge
from runtime.domain.kinds.user_agent import UserAgent
from runtime.domain.oauth.claims import seconds
from runtime.domain.oauth.decision_events import DecisionEvent
from runtime.services.clients import dynamic_registration
from runtime.services.container import Services
from runtime.services.decision_log import REGISTERED, Decision

MAX_BODY_BYTES = 16 * 1024


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the registration endpoint of every zone."""
    bind_zone_route(app, register, "/oauth/register", methods=("POST",), cors=True)


@answering_oauth
async def register(request: Request, zone_id: str) -> HTTPResponse:
    """Register the client that describes itself, or find it registered; whatever comes of it is recorded."""
    services: Services = request.app.ctx.services
    zone = await services.zones.get(zone_id)
    address, request_id = address_of(request), request_id_of(request)
    decision = Decision(
        zone.organization_id, zone.id, services.clock(), request_id, event=DecisionEvent.REGISTRATION
    )
    try:
        await dynamic_registration.check_registration_allowed(services, zone, address)
        user_agent = await dynamic_registration.register(services, zone, _document(request))
    except OAuthError as refusal:
        decision.refuse(refusal)
        services.decisions.record_sampled(decision, address=address)
        raise
    decision.user_agent_id = user_agent.id
    decision.succeed(REGISTERED)
    services.decisions.record_sampled(decision, address=address)
    return HTTPResponse(
        orjson.dumps(_answer(user_agent)), status=201, headers=NO_STORE, content_type="application/json"
    )


def _document(request: Request) -> dict[str, Any]:
    try:
        document = read_json(request.body, request.headers.get("content-type"), limit=MAX_BODY_BYTES)
    except TooLarge as failure:
        raise MetadataTooLarge(failure.detail) from None
    except BadRequest as failure:
        raise InvalidClientMetadata(failure.detail) from None
    if not isinstance(document, dict):
        raise InvalidClientMetadata("the body is not a JSON object")
    return document


def _answer(user_agent: UserAgent) -> dict[str, Any]:
    """What is kept of the client, which may be less than it asked for. There is no secret."""
    metadata = user_agent.client_metadata.model_dump(mode="json", exclude_none=True)
    return {
        "client_id": user_agent.identifier,
        "client_id_issued_at": seconds(user_agent.created_at),
        **metadata,
    }
