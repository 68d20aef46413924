"""The OAuth 2.1 and OpenID Connect endpoints of every zone."""

from typing import Any

from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api.oauth import (
    account,
    authorize,
    backchannel_logout,
    client_registration,
    connect,
    consent,
    discovery,
    introspection,
    login_pages,
    logout,
    password_pages,
    pushed_authorization_requests,
    registration_pages,
    revocation,
    revocation_list,
    token,
    upstream_callback,
    userinfo,
)
from runtime.api.oauth.errors import oauth_error_response
from runtime.domain.errors import OAuthError

_ENDPOINTS = (
    discovery,
    token,
    authorize,
    upstream_callback,
    login_pages,
    password_pages,
    registration_pages,
    consent,
    connect,
    client_registration,
    userinfo,
    logout,
    backchannel_logout,
    account,
    introspection,
    revocation,
    revocation_list,
    pushed_authorization_requests,
)


def bind(app: Sanic[Any, Any]) -> None:
    """Serve every endpoint that stands under a zone's issuer."""
    for endpoint in _ENDPOINTS:
        endpoint.bind(app)

    @app.exception(OAuthError)
    async def refuse(_request: Request, refusal: OAuthError) -> HTTPResponse:
        return oauth_error_response(refusal)
