"""Request ids: ours on every answer and log line, the caller's echoed."""

import re
from typing import Any
from uuid import UUID

from sanic import Sanic
from sanic.request import Request

from runtime.domain.errors import ValidationFailed
from runtime.domain.identifiers import new_id

CLIENT_HEADER = "X-Client-Request-ID"
HEADER = "X-Request-ID"
_MAX_CHARS = 255
_PLAIN = re.compile(r"[\x20-\x7e]+\Z")


def bind(app: Sanic[Any, Any]) -> None:
    """Number requests as they come, and tell the number with the answer."""
    app.register_middleware(_number, "request", priority=100)
    app.register_middleware(_tell, "response")


def _number(request: Any) -> None:
    request.ctx.request_id = new_id()


def _tell(request: Any, response: Any) -> None:
    response.headers[HEADER] = request_id_of(request)
    given = request.headers.get(CLIENT_HEADER)
    if given and len(given) <= _MAX_CHARS and _PLAIN.match(given):
        response.headers[CLIENT_HEADER] = given


def request_id_of(request: Request) -> str:
    """The id of a request, also of one that failed before it was numbered."""
    if not hasattr(request.ctx, "request_id"):
        request.ctx.request_id = new_id()
    return str(request.ctx.request_id)


def check_client_request_id(request: Request, *, uuid: bool) -> None:
    """Check the id that the caller gave the request.

    Args:
        uuid: whether it must be one, as on organization paths.
    Raises: ValidationFailed.
    """
    given = request.headers.get(CLIENT_HEADER)
    if given is None:
        return
    if len(given) > _MAX_CHARS or not _PLAIN.match(given):
        raise ValidationFailed.of(CLIENT_HEADER, f"must be 1 to {_MAX_CHARS} printable characters")
    if uuid and not _is_uuid(given):
        raise ValidationFailed.of(CLIENT_HEADER, "must be a UUID")


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False
