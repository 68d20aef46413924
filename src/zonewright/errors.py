"""Errors of requests, tokens and exchanges. Each error of a request has its HTTP status.

ZonewrightError
  RequestRefused                 what a resource server answers with a challenge (RFC 6750 section 3)
    MissingToken        401      no access token came with the request
    RequestMalformed    400      `invalid_request`
    TokenRefused        401      `invalid_token`
    DpopRefused         401      `invalid_dpop_proof` (RFC 9449 section 7.1)
    ScopeRequired       403      `insufficient_scope`
  ZoneUnreachable       503      the zone does not answer, so the token cannot be verified
    ZoneMisconfigured   503      what answers is not the zone that is configured: repeating does not help
  ExchangeRefused                the token endpoint's answer (RFC 6749 section 5.2)
    UserAuthorizationRequired    the user has to visit `error_uri` first
"""

from collections.abc import Iterable
from typing import ClassVar


class ZonewrightError(Exception):
    """Every error of this package."""


class RequestRefused(ZonewrightError):
    """A request is answered with `status` and a challenge. The text is the reason, without any secret."""

    status: ClassVar[int] = 401
    error: ClassVar[str | None] = None


class MissingToken(RequestRefused):
    """The request has no access token. Its challenge names no error. Spec: RFC 6750 section 3.1."""


class RequestMalformed(RequestRefused):
    """The request has more than one `Authorization` header. Spec: RFC 6750 section 3.1."""

    status = 400
    error = "invalid_request"


class TokenRefused(RequestRefused):
    """The access token is malformed, expired, revoked, or was not issued for this resource."""

    error = "invalid_token"


class DpopRefused(RequestRefused):
    """The DPoP proof is missing, was used before, or is about another request. Spec: RFC 9449 section 7.1."""

    error = "invalid_dpop_proof"


class ScopeRequired(RequestRefused):
    """The token is valid, and lacks scopes that the request needs.

    Attributes:
        scopes: all that were required together, in their order; the challenge adds those of every request.
    """

    status = 403
    error = "insufficient_scope"

    def __init__(self, scopes: Iterable[str]) -> None:
        self.scopes = tuple(scopes)
        super().__init__(f"the request needs the scopes `{' '.join(self.scopes)}`")


class ZoneUnreachable(ZonewrightError):
    """The zone cannot be reached, or its answer cannot be used: whether a token is valid is not known.

    Attributes:
        retry_after_seconds: when to retry, if the zone has sent `Retry-After`.
    """

    status: ClassVar[int] = 503

    def __init__(self, message: str, *, retry_after_seconds: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class ZoneMisconfigured(ZoneUnreachable):
    """What the configured issuer leads to is not that zone: somebody has to change the configuration.

    The metadata has another issuer, or an address answers 404, a redirect or no JSON. The text says what was
    asked, what came and what to do. Callers of the resource server can do nothing about it, so they get 503.
    """


class ExchangeRefused(ZonewrightError):
    """The token endpoint refuses.

    Attributes:
        error: the code, `invalid_target` for one.
        reason: `policy_denied`, `user_authorization_required`, or None.
        request_id: of the refused request, by which administrators find its decision record: it belongs into
            the log. None where the answer has none.
    """

    def __init__(
        self, error: str, description: str, *, reason: str | None = None, request_id: str | None = None
    ) -> None:
        super().__init__(f"{error}: {description}")
        self.error, self.description, self.reason = error, description, reason
        self.request_id = request_id


class UserAuthorizationRequired(ExchangeRefused):
    """The user has not let the application use the resource, or not with these scopes.

    Attributes:
        error_uri: send the user there, then repeat the exchange.
    """

    def __init__(
        self,
        description: str,
        error_uri: str,
        *,
        error: str = "access_denied",
        request_id: str | None = None,
    ) -> None:
        super().__init__(error, description, reason="user_authorization_required", request_id=request_id)
        self.error_uri = error_uri
