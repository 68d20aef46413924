"""Protects a Sanic application: metadata, tokens, challenges.

    protect(app, Verifier("https://zone.example", "https://api.example/notes", scopes=["notes.read"]))

Handlers find the verified token at `request.ctx.access_token`; `token.require("notes.write")` is answered
with the challenge that asks for the scope.
"""

from collections.abc import Collection
from typing import Any

from sanic import HTTPResponse, Request, Sanic
from sanic.response import json, text

from zonewright.errors import RequestRefused, ZoneUnreachable
from zonewright.verifier import Verifier


def protect(app: Sanic[Any, Any], verifier: Verifier, *, public: Collection[str] = ()) -> None:
    """Require a token of every request.

    Args:
        public: paths that need no token, a health check for one.
    """
    free = frozenset(public) | {verifier.metadata_path}

    @app.get(verifier.metadata_path, name="protected_resource_metadata")
    async def _metadata(_request: Request) -> HTTPResponse:
        headers = {"Access-Control-Allow-Origin": "*", "Cache-Control": "max-age=300"}
        return json(dict(verifier.metadata), headers=headers)

    @app.on_request
    async def _authenticate(request: Request) -> None:
        is_preflight = request.method == "OPTIONS" and "access-control-request-method" in request.headers
        if request.path in free or is_preflight:
            return
        given = request.headers.getall("authorization", [])
        token = await verifier.authenticate(
            given,
            method=request.method,
            url=verifier.origin + request.path,
            proofs=request.headers.getall("dpop", []),
        )
        token.require(*verifier.scopes)
        request.ctx.access_token = token

    @app.exception(RequestRefused)
    async def _refuse(_request: Request, refused: RequestRefused) -> HTTPResponse:
        headers = {"WWW-Authenticate": verifier.challenge(refused), "Cache-Control": "no-store"}
        return _empty(refused.status, headers)

    @app.exception(ZoneUnreachable)
    async def _unreachable(_request: Request, failure: ZoneUnreachable) -> HTTPResponse:
        headers = {"Retry-After": str(failure.retry_after_seconds or 5), "Cache-Control": "no-store"}
        return _empty(failure.status, headers)


def _empty(status: int, headers: dict[str, str]) -> HTTPResponse:
    """No body. Sanic's own `empty` has no media type, and sends it as `content-type: None`."""
    return text("", status=status, headers=headers)
