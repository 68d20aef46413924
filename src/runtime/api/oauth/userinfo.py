"""The userinfo endpoint. Spec: OpenID Connect Core section 5.3; RFC 6750."""

from typing import Any

import orjson
from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api.oauth.bearer import require_bearer
from runtime.api.oauth.dpop_headers import offered_nonce
from runtime.api.oauth.errors import NO_STORE, answering_oauth
from runtime.api.oauth.zone_routes import bind_zone_route
from runtime.services.container import Services
from runtime.services.issuing.token_responses import person_claims


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the userinfo endpoint of every zone."""
    bind_zone_route(app, userinfo, "/openid/userinfo", methods=("GET", "POST"), cors=True)


@answering_oauth
async def userinfo(request: Request, zone_id: str) -> HTTPResponse:
    """What the token's scopes let the application know of the user. The token travels in the header alone."""
    services: Services = request.app.ctx.services
    zone = await services.zones.get(zone_id)
    address = str(zone.entity.protocols.openid.userinfo_endpoint)
    bearer = await require_bearer(services, zone, request, audience=zone.issuer, scope="openid", uri=address)
    user, profile = bearer.root.principal.user, bearer.root.session.session_data
    claims = {"sub": user.identifier, **person_claims(user, profile, bearer.subject.scopes)}
    headers = {**NO_STORE, **offered_nonce(request, zone)}
    return HTTPResponse(orjson.dumps(claims), headers=headers, content_type="application/json")
