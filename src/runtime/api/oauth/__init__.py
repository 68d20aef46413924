"""The OAuth 2.1 and OpenID Connect endpoints of every zone."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api.oauth import discovery, token
from runtime.api.oauth.errors import oauth_error_response
from runtime.domain.errors import OAuthError

_ENDPOINTS = (
    "authorize",
    "callback",
    "sign_in_pages",
    "sign_up_pages",
    "consent",
    "register",
    "userinfo",
    "logout",
    "backchannel",
    "account",
    "introspect",
    "revoke",
    "revocations",
    "par",
)


def bind(app: Sanic[Any, Any]) -> None:
    """Serve every endpoint that stands under a zone's issuer."""
    discovery.bind(app)
    token.bind(app)
    for name in _ENDPOINTS:
        if find_spec(f"{__name__}.{name}"):
            import_module(f"{__name__}.{name}").bind(app)

    @app.exception(OAuthError)
    async def refuse(_request: Request, refusal: OAuthError) -> HTTPResponse:
        return oauth_error_response(refusal)
