"""The token endpoint. Spec: RFC 6749 section 3.2."""

from typing import Any

from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api.oauth.client_authentication import refuse_query
from runtime.api.oauth.dpop_headers import offered_nonce, proof_of
from runtime.api.oauth.errors import NO_STORE, answering_oauth
from runtime.api.oauth.zone_routes import bind_zone_route
from runtime.api.shared.client_address import address_of
from runtime.api.shared.headers import header_of
from runtime.api.shared.json_answers import JsonAnswer
from runtime.api.shared.request_ids import request_id_of
from runtime.services.container import Services
from runtime.services.grants.token_endpoint import respond


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the token endpoint of every zone."""
    bind_zone_route(app, token, "/oauth/token", methods=("POST",), cors=True)


@answering_oauth
async def token(request: Request, zone_id: str) -> HTTPResponse:
    """Answer a token request. Spec: zone interface, sections 3 to 6."""
    refuse_query(request)
    services: Services = request.app.ctx.services
    proof = proof_of(request)
    answer = await respond(
        services,
        zone_id,
        request.body,
        content_type=request.headers.get("content-type"),
        authorization=header_of(request, "authorization"),
        address=address_of(request),
        request_id=request_id_of(request),
        proof=proof,
    )
    headers = NO_STORE
    if proof is not None:
        headers = {**NO_STORE, **offered_nonce(request, services.zones.cached(zone_id))}
    return JsonAnswer(answer, headers=headers)
