"""The revocation endpoint: form in, authenticated client, an empty answer. Spec: RFC 7009."""

from typing import Any

from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api.oauth.client_authentication import refuse_query, require_client
from runtime.api.oauth.errors import NO_STORE, answering_oauth
from runtime.api.oauth.zone_routes import bind_zone_route
from runtime.api.shared.client_address import address_of
from runtime.api.shared.request_ids import request_id_of
from runtime.domain.errors import InvalidRequest, OAuthError
from runtime.domain.oauth.decision_events import DecisionEvent
from runtime.domain.oauth.forms import read_form
from runtime.services.container import Services
from runtime.services.decision_log import IGNORED, Decision
from runtime.services.tokens.revocation import revoke


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the revocation endpoint of every zone."""
    bind_zone_route(app, revocation, "/oauth/revoke", methods=("POST",), cors=True)


@answering_oauth
async def revocation(request: Request, zone_id: str) -> HTTPResponse:
    """End what a token stands for. A token that is unknown or another client's is answered alike."""
    refuse_query(request)
    form = read_form(request.body, request.headers.get("content-type"))
    services: Services = request.app.ctx.services
    zone = await services.zones.get(zone_id)
    decision = Decision(
        zone.organization_id,
        zone.id,
        services.clock(),
        request_id_of(request),
        event=DecisionEvent.REVOCATION,
    )
    try:
        client = await require_client(services, zone, request, form)
        decision.identify(client)
        token = form.values.get("token")
        if token is None:
            raise InvalidRequest("`token` is missing")
        await revoke(services, zone, client, token, decision.at, decision)
    except OAuthError as refusal:
        raise await services.decisions.refused(decision, refusal, address=address_of(request)) from None
    if decision.outcome == IGNORED and not decision.is_known:
        services.decisions.record_sampled(decision, address=address_of(request))
    else:
        services.decisions.record(decision)
    return HTTPResponse(headers=NO_STORE)  # of no type: some clients reject one that they do not parse
