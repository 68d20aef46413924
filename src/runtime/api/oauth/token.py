"""The token endpoint: form in, authenticated client, one grant, JSON out."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api.oauth import grants
from runtime.api.oauth.addresses import bind_zone_route
from runtime.api.oauth.clients import GUESSING, refuse_query
from runtime.api.oauth.errors import NO_STORE, answering_oauth, request_id_of
from runtime.api.oauth.forms import Form, read_form
from runtime.api.oauth.proofs import offered_nonce, proof_of
from runtime.api.shared.headers import header_of
from runtime.api.shared.senders import address_of
from runtime.domain.errors import InvalidRequest, OAuthError, TemporarilyUnavailable, UnsupportedGrantType
from runtime.domain.oauth.exchange import GRANT_TYPE as TOKEN_EXCHANGE
from runtime.services import possession
from runtime.services.clients import authenticate_client
from runtime.services.decisions import Decision
from runtime.services.exchange.trip import StaleView
from runtime.services.parties import Client
from runtime.services.parts import Parts
from runtime.services.zones import ZoneView


@dataclass(frozen=True, slots=True)
class TokenContext:
    """A token request whose client has been authenticated.

    Attributes:
        form: every parameter once; `resource` and `audience` stand apart because they may be repeated.
        now: the one present of the whole request.
        jkt: thumbprint of the key that the sender has proved to have; None when no proof came.
        decision: what the record will say; a grant fills in whom and what it found.
    """

    parts: Parts
    view: ZoneView
    client: Client
    form: Mapping[str, str]
    resources: tuple[str, ...]
    audiences: tuple[str, ...]
    now: datetime
    request_id: str
    decision: Decision
    jkt: str | None = None


Grant = Callable[[TokenContext], Awaitable[dict[str, Any]]]


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the token endpoint of every zone."""
    bind_zone_route(app, token, "/oauth/token", methods=("POST",), cors=True)


@answering_oauth
async def token(request: Request, zone_id: str) -> HTTPResponse:
    """Answer a token request. Spec: zone interface, sections 3 to 6."""
    refuse_query(request)
    parts: Parts = request.app.ctx.parts
    proof = proof_of(request)
    answer = await respond(
        parts,
        zone_id,
        read_form(request.body, request.headers.get("content-type")),
        authorization=header_of(request, "authorization"),
        address=address_of(request),
        request_id=request_id_of(request),
        proof=proof,
    )
    headers = NO_STORE
    if proof is not None:
        headers = {**NO_STORE, **offered_nonce(request, parts.zones.held(zone_id))}
    return HTTPResponse(orjson.dumps(answer), headers=headers, content_type="application/json")


async def respond(
    parts: Parts,
    zone_id: str,
    form: Form,
    *,
    authorization: str | None,
    address: str,
    request_id: str,
    proof: str | None = None,
) -> dict[str, Any]:
    """The members of the answer to a token request.

    An exchange begins on the view of the zone at hand, and learns in its one trip whether that view still
    stands. When it does not, nothing that was concluded from it counts, a refusal included.

    Raises: OAuthError, after the refusal has been recorded; NotFound for an unknown zone.
    """
    held = parts.zones.held(zone_id) if _may_begin_at_hand(form, proof) else None
    view = held or await parts.zones.view(zone_id)
    decision = Decision(view.organization_id, view.id, parts.clock(), request_id)
    try:
        answer = await _granted(parts, view, form, decision, authorization, address, proof)
    except (StaleView, OAuthError) as failure:
        fresh = view if held is None else await parts.zones.view(zone_id)
        if fresh is not view:
            return await respond(
                parts, zone_id, form, authorization=authorization, address=address, request_id=request_id
            )
        refusal = failure if isinstance(failure, OAuthError) else _unsettled()
        decision.refuse(refusal)
        parts.decisions.record(decision)
        raise refusal from None
    decision.issue()
    parts.decisions.record(decision)
    return answer


def _may_begin_at_hand(form: Form, proof: str | None) -> bool:
    """Tell whether a request may be worked on twice: an exchange, and nothing in it that works once."""
    is_exchange = form.values.get("grant_type") == TOKEN_EXCHANGE
    return is_exchange and proof is None and "client_assertion" not in form.values


async def _granted(
    parts: Parts,
    view: ZoneView,
    form: Form,
    decision: Decision,
    authorization: str | None,
    address: str,
    proof: str | None,
) -> dict[str, Any]:
    grant_type = form.values.get("grant_type")
    if grant_type is None:
        raise InvalidRequest("`grant_type` is required")
    decision.event = grants.EVENTS.get(grant_type, "unknown_grant_type")
    decision.step = 3
    client = await authenticate_client(
        parts, view, form.values, authorization=authorization, address=address, guessing=GUESSING
    )
    decision.application_id, decision.user_agent_id = client.party.application_id, client.party.user_agent_id
    grant: Grant | None = grants.find(grant_type)
    if grant is None:
        raise UnsupportedGrantType("this grant type is not served here")
    jkt = None
    if proof is not None:
        uri = str(view.zone.protocols.oauth2.token_endpoint)
        jkt = await possession.prove(parts, view, proof, method="POST", uri=uri, now=decision.at)
    return await grant(
        TokenContext(
            parts=parts,
            view=view,
            client=client,
            form=form.values,
            resources=form.resources,
            audiences=form.audiences,
            now=decision.at,
            request_id=decision.request_id,
            decision=decision,
            jkt=jkt,
        )
    )


def _unsettled() -> OAuthError:
    return TemporarilyUnavailable(
        "please try again shortly", internal="the published epoch is ahead of the database"
    )
