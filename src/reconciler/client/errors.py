"""Errors of the API client.

ApiError
  NotReached      no answer, or none that can be read
  Rejected        an error answer
    Conflicting   412: the base revision is stale
"""

from collections.abc import Mapping, Sequence


class ApiError(Exception):
    """The server did not do what was asked."""


class NotReached(ApiError):
    """No answer came, or it was cut off, or it is not an answer of this API."""


class Rejected(ApiError):
    """The server answered with an error.

    Attributes:
        details: `{code, field?, message}` each; a `field` may begin with `operations[index]`.
    """

    def __init__(
        self, status: int, code: str, message: str, details: Sequence[Mapping[str, object]] = ()
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.details = status, code, message, tuple(details)

    @property
    def about_body(self) -> bool:
        """Tell whether it is what was sent that is refused, and not who sent it, or when."""
        return self.status in (400, 404, 409, 412, 422) or bool(self.details)


class Conflicting(Rejected):
    """Something the changeset touches was changed after its base revision; `details` say what and who."""


def rejection(status: int, body: object) -> Rejected:
    """The error that an answer's body describes."""
    known = body if isinstance(body, dict) else {}
    code = str(known.get("code") or known.get("error") or "error")
    message = str(known.get("message") or known.get("error_description") or f"the server answered {status}")
    details = known.get("details")
    listed = [each for each in details if isinstance(each, dict)] if isinstance(details, list) else []
    return (Conflicting if status == 412 else Rejected)(status, code, message, listed)
