"""The pushed authorization request endpoint. Spec: RFC 9126."""

from typing import Any

import orjson
from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api.oauth.client_authentication import refuse_query, require_client
from runtime.api.oauth.dpop_headers import offered_nonce, proof_of
from runtime.api.oauth.errors import NO_STORE, answering_oauth
from runtime.api.oauth.zone_routes import bind_zone_route
from runtime.api.shared.client_address import address_of
from runtime.api.shared.request_ids import request_id_of
from runtime.domain.errors import InvalidDpopProof, OAuthError
from runtime.domain.oauth.decision_events import DecisionEvent
from runtime.domain.oauth.forms import Form, read_form
from runtime.services.authorization import pushed_authorization_requests as pushed
from runtime.services.authorization import throttling
from runtime.services.client_types import is_known
from runtime.services.clients import dpop_verification
from runtime.services.container import Services
from runtime.services.decision_log import Decision
from runtime.services.rate_limiter import network_of
from runtime.services.zones import CachedZone


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the pushed authorization request endpoint of every zone."""
    bind_zone_route(app, push, "/oauth/par", methods=("POST",), cors=True)


@answering_oauth
async def push(request: Request, zone_id: str) -> HTTPResponse:
    """Take an authorize request from the application itself, which proves who it is as for a token."""
    refuse_query(request)
    services: Services = request.app.ctx.services
    zone = await services.zones.get(zone_id)
    form = read_form(request.body, request.headers.get("content-type"))
    decision = Decision(
        zone.organization_id,
        zone.id,
        services.clock(),
        request_id_of(request),
        event=DecisionEvent.PUSHED_AUTHORIZATION_REQUEST,
    )
    try:
        return await _pushed(request, services, zone, form, decision)
    except OAuthError as refusal:
        # Each that is kept is counted before, and so is what is refused: `throttling` has their limits.
        decision.refuse(refusal)
        services.decisions.record_sampled(decision, address=address_of(request))
        raise


async def _pushed(
    request: Request, services: Services, zone: CachedZone, form: Form, decision: Decision
) -> HTTPResponse:
    client = await require_client(services, zone, request, form)
    decision.identify(client)
    services.decisions.record_use(zone.organization_id, zone.id, client)
    await throttling.check_pushed_request_rate(services, zone, client, address_of(request))
    sent = [*form.values.items(), *(("resource", each) for each in form.resources)]
    if (proof := proof_of(request)) is not None:
        address = f"{zone.issuer}/oauth/par"
        sender = None if is_known(client) else network_of(address_of(request))
        jkt = await dpop_verification.verify_proof(
            services, zone, proof, method="POST", uri=address, now=services.clock(), sender=sender
        )
        if form.values.get("dpop_jkt", jkt) != jkt:
            raise InvalidDpopProof("`dpop_jkt` is not the thumbprint of the key in the DPoP proof")
        sent = [*(each for each in sent if each[0] != "dpop_jkt"), ("dpop_jkt", jkt)]
    request_uri = await pushed.push(services, zone, client, sent)
    headers = {**NO_STORE, **offered_nonce(request, zone)}
    body = orjson.dumps({"request_uri": request_uri, "expires_in": pushed.PUSHED_SECONDS})
    return HTTPResponse(body, status=201, headers=headers, content_type="application/json")
