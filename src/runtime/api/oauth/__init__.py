"""The OAuth 2.1 and OpenID Connect endpoints of every zone."""

from typing import Any

from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api.oauth import (
    account,
    authorize,
    backchannel,
    callback,
    consent,
    discovery,
    introspect,
    logout,
    par,
    register,
    revocations,
    revoke,
    sign_in_pages,
    sign_up_pages,
    token,
    userinfo,
)
from runtime.api.oauth.errors import oauth_error_response
from runtime.domain.errors import OAuthError

_ENDPOINTS = (
    discovery,
    token,
    authorize,
    callback,
    sign_in_pages,
    sign_up_pages,
    consent,
    register,
    userinfo,
    logout,
    backchannel,
    account,
    introspect,
    revoke,
    revocations,
    par,
)


def bind(app: Sanic[Any, Any]) -> None:
    """Serve every endpoint that stands under a zone's issuer."""
    for endpoint in _ENDPOINTS:
        endpoint.bind(app)

    @app.exception(OAuthError)
    async def refuse(_request: Request, refusal: OAuthError) -> HTTPResponse:
        return oauth_error_response(refusal)
