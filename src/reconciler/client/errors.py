"""Errors of the API client.

ApiError
  NotReached      no answer, or an unreadable one
  Rejected        an error answer
    Conflicting   412: the base revision is stale
"""

from collections.abc import Mapping, Sequence


class ApiError(Exception):
    """A request to the management API failed."""


class NotReached(ApiError):
    """No answer came, or it was cut off, or it is not an answer of this API."""


class Rejected(ApiError):
    """The server answered with an error.

    Attributes:
        details: `{code, field?, message}` each; a `field` may start with `operations[index]`.
    """

    def __init__(
        self, status: int, code: str, message: str, details: Sequence[Mapping[str, object]] = ()
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.details = status, code, message, tuple(details)

    @property
    def about_body(self) -> bool:
        """Tell whether the content of the request is refused, rather than the caller or the moment."""
        return self.status in (400, 404, 409, 412, 422) or bool(self.details)


class Conflicting(Rejected):
    """An object of the changeset was changed after its base revision; `details` name it and the writer."""


def rejection(status: int, body: object) -> Rejected:
    """The error that an answer's body describes."""
    known = body if isinstance(body, dict) else {}
    code = str(known.get("code") or known.get("error") or "error")
    message = str(known.get("message") or known.get("error_description") or f"the server answered {status}")
    details = known.get("details")
    listed = [each for each in details if isinstance(each, dict)] if isinstance(details, list) else []
    return (Conflicting if status == 412 else Rejected)(status, code, message, listed)
