"""Turns errors into HTTP responses. An unexpected exception is logged and answered with a bare 500.

Spec: `conventions.error_body` of the management API table.
"""

from datetime import UTC, datetime
from typing import Any

import orjson
from sanic import Sanic
from sanic.exceptions import MethodNotAllowed, NotFound, SanicException
from sanic.request import Request
from sanic.response import HTTPResponse, json

from runtime.api.oauth.dpop_headers import presented_of
from runtime.api.oauth.errors import NO_STORE, oauth_error_response, told_away
from runtime.api.oauth.zone_routes import is_of_a_zone
from runtime.api.resource_metadata import document_for
from runtime.api.shared.paths import path_of
from runtime.api.shared.request_ids import request_id_of
from runtime.api.shared.request_metrics import RefusalResponse
from runtime.domain.errors import (
    Conflict,
    Forbidden,
    InsufficientScope,
    InvalidToken,
    ManagementError,
    OAuthError,
    Problem,
    RateLimited,
    Unauthorized,
    Unavailable,
    UseDpopNonce,
)
from runtime.domain.kinds.values import rfc3339
from runtime.domain.oauth import assertions, resource_metadata
from runtime.logs import log, stranger_notes

_RETRY_AFTER_SECONDS = "2"
# What Sanic itself refuses, in the service's words: status -> (code, message).
_BY_STATUS = {
    400: ("bad_request", "the request cannot be read"),
    404: ("not_found", "there is nothing at this address"),
    405: ("bad_request", "this method is not supported at this address"),
    408: ("bad_request", "the request took too long to arrive"),
    413: ("bad_request", "the body is too large"),
    414: ("bad_request", "the address is too long"),
    417: ("bad_request", "the expectation cannot be met"),
    431: ("bad_request", "the headers are too large"),
    503: ("service_unavailable", "please try again shortly"),
}
_IN_OAUTH = {404: "not_found", 500: "server_error", 503: "temporarily_unavailable"}


def bind(app: Sanic[Any, Any]) -> None:
    """Answer every failure that no endpoint has answered itself."""
    app.error_handler.add(Exception, answer_failure)


def answer_failure(request: Request, failure: Exception) -> HTTPResponse:
    """The answer to whatever escaped a handler."""
    if isinstance(failure, ManagementError):
        return refused(request, failure)
    if isinstance(failure, OAuthError):
        return oauth_error_response(failure)
    if isinstance(failure, SanicException):
        return _sanic(request, failure)
    log.error("request failed", request_id=request_id_of(request), path=path_of(request), exc_info=failure)
    return error_response(request, 500, "internal_error", "something went wrong here")


def refused(request: Request, refusal: ManagementError) -> HTTPResponse:
    """The answer to a request that the management API refuses."""
    if isinstance(refusal, Unavailable):
        told_away(request, refusal)
    else:
        _log_refusal(request, refusal)
    response = error_response(
        request, refusal.status, refusal.code, refusal.detail, problems=refusal.problems
    )
    if isinstance(refusal, Conflict):
        response.headers["x-should-retry"] = "false"
    elif isinstance(refusal, Forbidden) and refusal.scope is not None:
        response.headers["WWW-Authenticate"] = resource_metadata.challenge(
            "Bearer", _metadata_of(request), error=InsufficientScope.code, scope=refusal.scope
        )
    elif isinstance(refusal, Unauthorized):
        response.headers["WWW-Authenticate"] = _challenge(request, refusal)
        if refusal.nonce is not None:
            response.headers["DPoP-Nonce"] = refusal.nonce
    elif isinstance(refusal, RateLimited | Unavailable):
        response.headers["Retry-After"] = _RETRY_AFTER_SECONDS
    return response


def _log_refusal(request: Request, refusal: ManagementError) -> None:
    """Tell who operates the service of a refusal; of a sort that anybody can bring about, now and then."""
    reason = f"{refusal.code}: {refusal.internal or refusal.detail}"
    facts = {"path": path_of(request), "method": request.method, "request_id": request_id_of(request)}
    if isinstance(refusal, Unauthorized):
        stranger_notes.note("request refused", reason=reason, **facts)
    else:
        log.info("request refused", reason=reason, **facts)


def _challenge(request: Request, refusal: Unauthorized) -> str:
    """What was wrong with the credential of a request, if it has one. Spec: RFC 6750 section 3.1."""
    where = _metadata_of(request)
    if refusal.nonce is not None:
        bearer = resource_metadata.challenge("Bearer", where)
        return f'DPoP error="{UseDpopNonce.code}", {bearer}'
    presented = presented_of(request, request.path)
    if presented is None:
        return resource_metadata.challenge("Bearer", where)
    return resource_metadata.challenge(
        "DPoP" if presented.is_bound else "Bearer",
        where,
        error=InvalidToken.code,
        error_description=refusal.detail,
        algs=" ".join(assertions.ALGORITHMS) if presented.is_bound else "",
    )


def _metadata_of(request: Request) -> str:
    return document_for(request.app.ctx.settings.public_url, request.path)


def error_body(
    request: Request, status: int, code: str, message: str, problems: tuple[Problem, ...] = ()
) -> dict[str, Any]:
    """The JSON object that tells of a refusal."""
    body: dict[str, Any] = {"message": message, "code": code, "status": status}
    if problems:
        body["details"] = [
            {"code": problem.code, "message": problem.message}
            | ({"field": problem.field} if problem.field else {})
            for problem in problems
        ]
    return body | {
        "path": path_of(request),
        "request_id": request_id_of(request),
        "timestamp": rfc3339(datetime.now(UTC)),
    }


def error_response(
    request: Request, status: int, code: str, message: str, *, problems: tuple[Problem, ...] = ()
) -> HTTPResponse:
    """A refusal as an answer."""
    body = orjson.dumps(error_body(request, status, code, message, problems))
    headers = {"Cache-Control": "no-store"}
    return RefusalResponse(body, status=status, headers=headers, content_type="application/json", code=code)


def _sanic(request: Request, failure: SanicException) -> HTTPResponse:
    status = failure.status_code or 500
    code, message = _BY_STATUS.get(status, ("internal_error", "something went wrong here"))
    if status >= 500 and status not in _BY_STATUS:
        log.error("request failed", request_id=request_id_of(request), exc_info=failure)
    if is_of_a_zone(request):  # its clients read OAuth's members. Spec: RFC 6749 section 5.2
        told = {"error": _IN_OAUTH.get(status, "invalid_request"), "error_description": message}
        response: HTTPResponse = json(told, status=status, headers=NO_STORE)
    else:
        response = error_response(request, status, code, message)
    for name, value in (failure.headers or {}).items():
        response.headers[name] = value
    if isinstance(failure, MethodNotAllowed):
        response.headers["Allow"] = ", ".join(_allowed(request))
    return response


def _allowed(request: Request) -> list[str]:
    """The methods that are served at the address of a request. Spec: RFC 9110 section 15.5.6.

    Asked of the router one by one: what it tells of itself is incomplete for addresses with parameters.
    """
    allowed = []
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        try:
            request.app.router.get(request.path, method, request.headers.getone("host", ""))
        except (MethodNotAllowed, NotFound):
            continue
        allowed.append(method)
    return allowed
