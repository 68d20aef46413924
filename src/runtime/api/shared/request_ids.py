"""Request ids: every answer and log line has ours; the caller's own is echoed.

Ours begin with the time, so that decision records are added at the end of their index.
"""

import re
from time import time_ns
from typing import Any
from uuid import UUID

from sanic.exceptions import ServerError
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api.shared import access_log
from runtime.api.shared.request_bodies import TimedRequest
from runtime.api.shared.request_metrics import observe
from runtime.domain.errors import ValidationFailed
from runtime.domain.identifiers import new_ordered_id

CLIENT_HEADER = "X-Client-Request-ID"
HEADER = "X-Request-ID"
_MAX_CHARS = 255
_PLAIN = re.compile(r"[\x20-\x7e]+\Z")


class NumberedRequest(TimedRequest):
    """A request that has an id of its own, which its answer tells: no header of the sender changes it.

    Sanic's middleware would do the same, and cost a tenth of a token exchange.
    """

    @property
    def id(self) -> str:
        """The id, made when it is first asked for."""
        if self._id is None:
            self._id = new_ordered_id(time_ns() // 1_000_000)
        return str(self._id)

    async def respond(
        self,
        response: Any = None,
        *,
        status: int = 200,
        headers: Any = None,
        content_type: str | None = None,
    ) -> Any:
        """Begin the answer, which every one does, refusals and streams included.

        Sanic's own asks for middleware besides, of which there is none. Raises ServerError for a second one.
        """
        stream: Any = self.stream
        if stream.response is not None:
            raise ServerError("a request has one answer")
        if response is None:
            response = HTTPResponse(status=status, headers=headers, content_type=content_type)
        stream.respond(response)
        self.responded = True
        response.headers[HEADER] = self.id
        told = self.headers.get(CLIENT_HEADER)
        if told and len(told) <= _MAX_CHARS and _PLAIN.match(told):
            response.headers[CLIENT_HEADER] = told
        observe(self, response, self.arrived_at)
        if self.app.ctx.settings.access_log != "off":
            access_log.write(self, response, self.arrived_at)
        return response


def request_id_of(request: Request) -> str:
    """The request's id, as the answer's header and the log have it."""
    return str(request.id)


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
