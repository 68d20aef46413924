"""The revocation endpoint: form in, authenticated client, an empty answer. Spec: RFC 7009."""

from typing import Any

from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse, text

from runtime.api.oauth.addresses import bind_zone_route
from runtime.api.oauth.clients import refuse_query, require_client
from runtime.api.oauth.errors import NO_STORE, answering_oauth, request_id_of
from runtime.api.shared.senders import address_of
from runtime.domain.errors import InvalidRequest, OAuthError
from runtime.domain.oauth.forms import read_form
from runtime.services.decisions import Decision
from runtime.services.parts import Parts
from runtime.services.tokens.revoking import revoke


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the revocation endpoint of every zone."""
    bind_zone_route(app, revocation, "/oauth/revoke", methods=("POST",), cors=True)


@answering_oauth
async def revocation(request: Request, zone_id: str) -> HTTPResponse:
    """End what a token stands for. A token that is unknown or another client's is answered alike."""
    refuse_query(request)
    form = read_form(request.body, request.headers.get("content-type"))
    parts: Parts = request.app.ctx.parts
    view = await parts.zones.view(zone_id)
    decision = Decision(
        view.organization_id, view.id, parts.clock(), request_id_of(request), event="revocation"
    )
    try:
        client = await require_client(parts, view, request, form)
        decision.identify(client)
        token = form.values.get("token")
        if token is None:
            raise InvalidRequest("`token` is missing")
        await revoke(parts, view, client, token, decision.at, decision)
    except OAuthError as refusal:
        raise await parts.decisions.refused(decision, refusal, address=address_of(request)) from None
    parts.decisions.record(decision)
    return text("", headers=NO_STORE)
