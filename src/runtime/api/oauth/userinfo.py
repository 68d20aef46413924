"""The userinfo endpoint. Spec: OpenID Connect Core section 5.3; RFC 6750."""

from typing import Any

import orjson
from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api.oauth.addresses import bind_zone_route
from runtime.api.oauth.bearer import require_bearer
from runtime.api.oauth.errors import NO_STORE, answering_oauth
from runtime.api.oauth.proofs import offered_nonce
from runtime.domain.errors import InvalidToken
from runtime.services.authority import consents
from runtime.services.authorization.requests import SIGN_IN_SCOPES
from runtime.services.issuing.responses import person_claims
from runtime.services.parts import Parts
from runtime.storage.sql import sessions


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the userinfo endpoint of every zone."""
    bind_zone_route(app, userinfo, "/openid/userinfo", methods=("GET", "POST"), cors=True)


@answering_oauth
async def userinfo(request: Request, zone_id: str) -> HTTPResponse:
    """What the token's scopes let the application know of the user. The token travels in the header alone."""
    parts: Parts = request.app.ctx.parts
    view = await parts.zones.view(zone_id)
    address = str(view.zone.protocols.openid.userinfo_endpoint)
    bearer = await require_bearer(parts, view, request, audience=view.issuer, scope="openid", uri=address)
    told = bearer.subject.scopes & SIGN_IN_SCOPES
    if not await consents.covers_sign_in(parts, view, bearer.client, bearer.root.user.user, told):
        raise InvalidToken("the user does not let the application know this any more")
    async with parts.database.querying() as conn:
        session = await sessions.find(conn, bearer.root.session.id, zone_id=view.id)
    user = bearer.root.user.user
    profile = session.session_data if session else {}
    claims = {"sub": user.identifier, **person_claims(user, profile, bearer.subject.scopes)}
    headers = {**NO_STORE, **offered_nonce(request, view)}
    return HTTPResponse(orjson.dumps(claims), headers=headers, content_type="application/json")
