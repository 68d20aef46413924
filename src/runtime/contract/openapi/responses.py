"""The response headers and the error responses of the OpenAPI document."""

from typing import Any

from runtime.contract.openapi.shapes import reference

Headers = dict[str, dict[str, Any]]

# What a refusal of each status says: to readers, and in an example.
REFUSALS: dict[int, tuple[str, str, str]] = {
    400: (
        "The request is not acceptable; `details` name what is wrong",
        "validation_error",
        "`name` is required",
    ),
    401: ("No credential, or an invalid one", "unauthorized", "the bearer credential is not valid"),
    403: (
        "The caller may see the object but not perform this operation",
        "forbidden",
        "the role `org_viewer` may not do that",
    ),
    404: (
        "The object does not exist, or the caller may not see it",
        "not_found",
        "there is no such thing here",
    ),
    406: ("None of the media types in `Accept` is available", "bad_request", "ask for another media type"),
    409: (
        "A unique value is taken, or the object's state does not allow the change; do not retry",
        "conflict",
        "`identifier` is taken",
    ),
    412: (
        "The object has changed since the ETag in `If-Match`",
        "precondition_failed",
        'it has changed since: the present ETag is "7"',
    ),
    413: (
        "The body is too large, or the URL with the headers",
        "bad_request",
        "the body has more than 1048576 bytes",
    ),
    415: ("The media type of the body is not supported", "bad_request", "send another media type"),
    429: ("Too many requests", "rate_limit_exceeded", "too many requests"),
    500: ("Internal error", "internal_error", "something went wrong here"),
    503: (
        "The database, Redis or another dependency does not respond",
        "service_unavailable",
        "please try again shortly",
    ),
}
NOT_MODIFIED = "The object has not changed since the ETag in `If-None-Match`"

_HEADERS: Headers = {
    "X-Request-ID": {
        "description": "The id under which the service logged and recorded the request.",
        "required": True,
        "schema": {"type": "string", "minLength": 1},
    },
    "X-Client-Request-ID": {
        "description": "The caller's own id of the request, as it was sent.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    },
    "ETag": {
        "description": "What `If-Match` and `If-None-Match` compare with.",
        "required": True,
        "schema": {"type": "string", "minLength": 3},
    },
    "X-Should-Retry": {
        "description": "Always `false`: the same request would be refused again.",
        "required": True,
        "schema": {"type": "string", "const": "false"},
    },
    "WWW-Authenticate": {
        "description": "How to authenticate.",
        "schema": {"type": "string", "minLength": 1},
    },
    "Retry-After": {
        "description": "Seconds to wait before the request is sent again.",
        "schema": {"type": "string", "pattern": "^[0-9]+$"},
    },
    "Idempotent-Replay": {
        "description": "`true` when the changeset was applied before: this is the stored response.",
        "schema": {"type": "string", "const": "true"},
    },
}
# The headers of refusals, besides those of every answer.
_TELLING = {401: "WWW-Authenticate", 409: "X-Should-Retry", 429: "Retry-After", 503: "Retry-After"}


def answer_headers(*names: str) -> dict[str, Any]:
    """The headers of an answer: those that every answer has, and these."""
    return {name: reference(name, "headers") for name in ("X-Request-ID", "X-Client-Request-ID", *names)}


def headers() -> Headers:
    """The headers of answers, by name."""
    return _HEADERS


def refusal_name(status: int, *, oauth: bool) -> str:
    """What the response component of a status is called."""
    return "NotModified" if status == 304 else f"{'OAuthError' if oauth else 'Error'}{status}"


def refusal(status: int, *, oauth: bool) -> dict[str, Any]:
    """The response component of a status, with an example."""
    if status == 304:
        return {"description": NOT_MODIFIED, "headers": answer_headers("ETag")}
    about, code, message = REFUSALS[status]
    example = _oauth_example(status) if oauth else _example(status, code, message)
    content = {
        "schema": reference("OAuthError" if oauth else "Error"),
        "examples": {example.get("error", code): {"value": example}},
    }
    more = [_TELLING[status]] if status in _TELLING else []
    return {
        "description": about,
        "headers": answer_headers(*more),
        "content": {"application/json": content},
    }


def _example(status: int, code: str, message: str) -> dict[str, Any]:
    details = [{"code": code, "message": "is required", "field": "name"}]
    return {
        "message": message,
        "code": code,
        "status": status,
        **({"details": details} if status == 400 else {}),
        "path": "/zones",
        "request_id": "h6m2x0d4q8w1c5z9k3r7t0v2y4",
        "timestamp": "2026-11-21T08:00:00Z",
    }


def _oauth_example(status: int) -> dict[str, Any]:
    told = {
        400: ("invalid_request", "`grant_type` is required"),
        401: ("invalid_client", "client authentication failed"),
        413: ("invalid_request", "the body is too large"),
        429: ("temporarily_unavailable", "too many requests"),
        500: ("server_error", "something went wrong here"),
        503: ("temporarily_unavailable", "please try again shortly"),
    }[status]
    return {"error": told[0], "error_description": told[1]}
