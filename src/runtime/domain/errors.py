"""Every error response of the service, as one tree of exceptions: class, HTTP status and error code.

    ServiceError
      ManagementError                  body: {message, code, status, ...}
        ValidationFailed       400     validation_error
        BundleInvalid          400     bundle_invalid
        BadRequest             400     bad_request
        Unauthorized           401     unauthorized
        Forbidden              403     forbidden
        NotFound               404     not_found
        NotAcceptable          406     bad_request
        Conflict               409     conflict
          NameRetired          409     conflict
        PreconditionFailed     412     precondition_failed
        TooLarge               413     bad_request
        UnsupportedMedia       415     bad_request
        RateLimited            429     rate_limit_exceeded
        Unavailable            503     service_unavailable
      OAuthError                       body: {error, error_description, ...}
        InvalidRequest         400     invalid_request
          FormTooLarge         413     invalid_request
        InvalidClient          401     invalid_client
        InvalidDpopProof       400     invalid_dpop_proof
          UseDpopNonce         400     use_dpop_nonce
        InvalidGrant           400     invalid_grant
        UnauthorizedClient     400     unauthorized_client
        UnsupportedGrantType   400     unsupported_grant_type
        UnsupportedTokenType   400     unsupported_token_type
        InvalidScope           400     invalid_scope
        InvalidTarget          400     invalid_target
        AccessDenied           400     access_denied
          InsufficientAuthorization 400  insufficient_authorization  (where a zone is switched to it)
        InvalidToken           401     invalid_token          (bearer APIs, RFC 6750)
          ProofRefused         401     invalid_dpop_proof     (bearer APIs, RFC 9449 section 7.1)
            NonceRequired      401     use_dpop_nonce         (bearer APIs, RFC 9449 section 9)
          TokenMissing         401     invalid_token          (the challenge names no error)
          TokenSentTwice       400     invalid_request        (bearer APIs, RFC 6750 section 2)
        InsufficientScope      403     insufficient_scope     (bearer APIs, RFC 6750)
        LoginRequired          400     login_required         (redirects only, OpenID Connect Core 3.1.2.6)
        ConsentRequired        400     consent_required       (redirects only)
        UnmetAuthenticationRequirements 400 unmet_authentication_requirements (redirects only, RFC 9470)
        UnsupportedResponseType 400    unsupported_response_type      (redirects only)
        RequestNotSupported    400     request_not_supported          (redirects only)
        RequestUriNotSupported 400     request_uri_not_supported      (redirects only)
        RegistrationNotSupported 400   registration_not_supported     (redirects only)
        InvalidRedirectUri     400     invalid_redirect_uri           (registration, RFC 7591)
        InvalidClientMetadata  400     invalid_client_metadata        (registration)
          MetadataTooLarge     413     invalid_client_metadata        (registration)
        InvalidSoftwareStatement 400   invalid_software_statement     (registration)
        RegistrationClosed     403     access_denied                  (registration)
        TemporarilyUnavailable 503     temporarily_unavailable
          UpstreamUnavailable  503     temporarily_unavailable  (in decision records `provider_unavailable`)
        TooManyRequests        429     temporarily_unavailable  (in decision records `too_many_requests`)
        ServerError            500     server_error
          ProviderFailed       500     server_error     (in decision records `provider_failed`)
          CodeRefused          500     server_error     (in decision records `provider_failed`)
      PageError                        an HTML error page; never a redirect
        BadLink                400     bad_link
        WrongUser              403     wrong_user
        ForgedForm             403     forged_form
        SignInRefused          403     sign_in_refused
        AccountRefused         403     account_refused
        ProviderUnavailable    503     provider_unavailable
        ConnectionFailed       502     provider_failed
        TooManyTries           429     too_many_tries
        SignInUnavailable      503     sign_in_unavailable

The API layer turns them into HTTP responses; any other exception is a bug and is answered 500.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


class ServiceError(Exception):
    """An error that is reported to the caller.

    Attributes:
        code: stable and documented; clients and tests match on it.
        status: the HTTP status.
        detail: the text that the response has.
        internal: for the log alone.
        recorded_as: its code in decision records, where that is another one.
    """

    code: ClassVar[str]
    status: ClassVar[int]
    recorded_as: ClassVar[str | None] = None

    def __init__(self, detail: str, *, internal: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.internal = internal


def codes() -> frozenset[str]:
    """The code of every error, as callers are told it and as decision records have it."""
    found, classes = set[str](), [ServiceError]
    while classes:
        each = classes.pop()
        classes += each.__subclasses__()
        found |= {code for code in (each.__dict__.get("code"), each.recorded_as) if code}
    return frozenset(found)


@dataclass(frozen=True)
class Problem:
    """One problem with a request: `field` is a dotted path into the body, or the name of a parameter."""

    code: str
    message: str
    field: str | None = None


class ManagementError(ServiceError):
    """An error of the management API. Spec: `conventions.error_body` of the management API table."""

    def __init__(self, detail: str, *, problems: Sequence[Problem] = (), internal: str = "") -> None:
        super().__init__(detail, internal=internal)
        self.problems = tuple(problems)


class ValidationFailed(ManagementError):
    """The request is well formed, but the value of a member or parameter is not acceptable."""

    code, status = "validation_error", 400

    @classmethod
    def of(cls, field: str, message: str) -> "ValidationFailed":
        """The error for one member, which the message and `details` name."""
        return cls(f"`{field}`: {message}", problems=[Problem("validation_error", message, field)])


class BundleInvalid(ManagementError):
    """The content of a policy bundle is not acceptable."""

    code, status = "bundle_invalid", 400


class BadRequest(ManagementError):
    """The request is malformed."""

    code, status = "bad_request", 400


class Unauthorized(ManagementError):
    """No credential, or an invalid one.

    Attributes:
        nonce: the nonce to use in the DPoP proof, for the `DPoP-Nonce` header; None where none is required.
    """

    code, status = "unauthorized", 401

    def __init__(self, detail: str, *, internal: str = "", nonce: str | None = None) -> None:
        super().__init__(detail, internal=internal)
        self.nonce = nonce


class Forbidden(ManagementError):
    """The caller may see the object but may not perform the operation.

    Attributes:
        scope: the scope that the caller's token lacks, for the challenge; None for other causes.
    """

    code, status = "forbidden", 403

    def __init__(
        self,
        detail: str,
        *,
        problems: Sequence[Problem] = (),
        internal: str = "",
        scope: str | None = None,
    ) -> None:
        super().__init__(detail, problems=problems, internal=internal)
        self.scope = scope


class NotFound(ManagementError):
    """The object does not exist, or the caller may not see it; the responses are the same."""

    code, status = "not_found", 404


class NotAcceptable(ManagementError):
    """None of the media types in `Accept` is available."""

    code, status = "bad_request", 406


class Conflict(ManagementError):
    """A unique value is taken, or the state of the entity does not allow the change."""

    code, status = "conflict", 409


class NameRetired(Conflict):
    """The name belonged to an object that was deleted or renamed; names are never reused."""


class PreconditionFailed(ManagementError):
    """The entity has changed since the ETag or revision that the caller sent."""

    code, status = "precondition_failed", 412


class TooLarge(ManagementError):
    """The body is larger than this operation allows."""

    code, status = "bad_request", 413


class UnsupportedMedia(ManagementError):
    """The media type of the body is not supported by this operation."""

    code, status = "bad_request", 415


class RateLimited(ManagementError):
    """Too many requests; the caller should slow down."""

    code, status = "rate_limit_exceeded", 429


class Unavailable(ManagementError):
    """A dependency, such as the database or Redis, does not respond."""

    code, status = "service_unavailable", 503


# Characters that an `error_description` must not contain. Spec: RFC 6749 appendix A.8.
_FORBIDDEN = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")


class OAuthError(ServiceError):
    """An OAuth error response; characters that `error_description` must not contain become `?`.

    Attributes:
        application_id: the application that the request names, which has not proved that it comes from it;
            for decision records alone.
    Spec: RFC 6749 section 5.2.
    """

    application_id: str | None = None

    def __init__(self, detail: str, *, internal: str = "", **members: Any) -> None:
        super().__init__(_FORBIDDEN.sub("?", detail), internal=internal)
        self.members = members  # extension members of the body: error_uri, reason, ...


class InvalidRequest(OAuthError):
    """A parameter is missing, malformed, or sent twice."""

    code, status = "invalid_request", 400


class FormTooLarge(InvalidRequest):
    """The form is larger than this endpoint allows."""

    status = 413


class InvalidClient(OAuthError):
    """Client authentication failed. `basic`: the client used HTTP Basic, so the response has a challenge."""

    code, status = "invalid_client", 401

    def __init__(
        self,
        detail: str = "client authentication failed",
        *,
        internal: str = "",
        basic: bool = False,
        application_id: str | None = None,
    ):
        super().__init__(detail, internal=internal)
        self.basic = basic
        self.application_id = application_id


class InvalidDpopProof(OAuthError):
    """The DPoP proof is not valid for this request. Spec: RFC 9449 section 5."""

    code, status = "invalid_dpop_proof", 400


class UseDpopNonce(InvalidDpopProof):
    """The proof is in order but for the nonce that the zone wants in it. Spec: RFC 9449 section 8.

    Attributes:
        nonce: the one to use now, which the answer's `DPoP-Nonce` header tells.
    """

    code = "use_dpop_nonce"

    def __init__(self, detail: str, *, nonce: str) -> None:
        super().__init__(detail)
        self.nonce = nonce


class InvalidGrant(OAuthError):
    """The code, refresh token or subject token is not valid for this client; one text for every cause."""

    code, status = "invalid_grant", 400


class UnauthorizedClient(OAuthError):
    """The client is registered but may not use this grant type."""

    code, status = "unauthorized_client", 400


class UnsupportedGrantType(OAuthError):
    """The grant type is not supported."""

    code, status = "unsupported_grant_type", 400


class UnsupportedTokenType(OAuthError):
    """Tokens of this type cannot be revoked. Spec: RFC 7009 section 2.2.1."""

    code, status = "unsupported_token_type", 400


class InvalidScope(OAuthError):
    """A scope is unknown, malformed, or beyond what may be granted."""

    code, status = "invalid_scope", 400


class InvalidTarget(OAuthError):
    """The application may not have a token for that resource. Spec: RFC 8693 section 2.2.2."""

    code, status = "invalid_target", 400


class AccessDenied(OAuthError):
    """The user or a policy denied the request; `reason` says which."""

    code, status = "access_denied", 400


class InsufficientAuthorization(AccessDenied):
    """The user has not authorized the application yet: the code that first-party applications expect.

    Spec: the draft on first-party applications; zone interface, section 5.
    """

    code = "insufficient_authorization"


class InvalidToken(OAuthError):
    """The bearer token is not valid here. Spec: RFC 6750 section 3.1.

    Attributes:
        scheme: the authentication scheme of the request, `Bearer` or `DPoP`; the challenge repeats it.
    """

    code, status = "invalid_token", 401
    scheme: str = "Bearer"


class ProofRefused(InvalidToken):
    """The DPoP proof that came with the access token is not valid. Spec: RFC 9449 section 7.1."""

    code = "invalid_dpop_proof"


class NonceRequired(ProofRefused):
    """The proof is in order but for the nonce that the zone wants in it. Spec: RFC 9449 section 9.

    Attributes:
        nonce: the one to use now, which the answer's `DPoP-Nonce` header tells.
    """

    code = "use_dpop_nonce"

    def __init__(self, detail: str, *, nonce: str) -> None:
        super().__init__(detail)
        self.nonce = nonce


class TokenMissing(InvalidToken):
    """No bearer token was sent; the challenge has no error code. Spec: RFC 6750 section 3.1."""


class TokenSentTwice(InvalidToken):
    """The request has more than one access token. Spec: RFC 6750 section 2."""

    code, status = "invalid_request", 400


class InsufficientScope(OAuthError):
    """The bearer token lacks a scope. Spec: RFC 6750 section 3.1."""

    code, status = "insufficient_scope", 403


class LoginRequired(OAuthError):
    """`prompt=none`, and there is no session."""

    code, status = "login_required", 400


class ConsentRequired(OAuthError):
    """`prompt=none`, and the user has not consented yet."""

    code, status = "consent_required", 400


class UnmetAuthenticationRequirements(OAuthError):
    """The sign-in cannot satisfy, or did not satisfy, `acr_values` or `max_age`. Spec: RFC 9470 section 5."""

    code, status = "unmet_authentication_requirements", 400


class UnsupportedResponseType(OAuthError):
    """Only the authorization code flow is supported."""

    code, status = "unsupported_response_type", 400


class RequestNotSupported(OAuthError):
    """Request objects (`request`) are not supported. Spec: OpenID Connect Core section 3.1.2.6."""

    code, status = "request_not_supported", 400


class RequestUriNotSupported(OAuthError):
    """`request_uri` is supported for pushed requests only. Spec: OpenID Connect Core section 3.1.2.6."""

    code, status = "request_uri_not_supported", 400


class RegistrationNotSupported(OAuthError):
    """The `registration` parameter is not supported. Spec: OpenID Connect Core section 3.1.2.6."""

    code, status = "registration_not_supported", 400


class InvalidRedirectUri(OAuthError):
    """A redirect URI is not allowed for clients of this type. Spec: RFC 7591 section 3.2.2."""

    code, status = "invalid_redirect_uri", 400


class InvalidClientMetadata(OAuthError):
    """A member of a client's metadata is not acceptable. Spec: RFC 7591 section 3.2.2."""

    code, status = "invalid_client_metadata", 400


class MetadataTooLarge(InvalidClientMetadata):
    """The client metadata is larger than this endpoint allows."""

    status = 413


class InvalidSoftwareStatement(OAuthError):
    """Software statements are not supported. Spec: RFC 7591 section 3.2.2."""

    code, status = "invalid_software_statement", 400


class RegistrationClosed(OAuthError):
    """Dynamic client registration is disabled in the zone."""

    code, status = "access_denied", 403


class TemporarilyUnavailable(OAuthError):
    """A dependency, such as the database or Redis, is unavailable; the API layer adds Retry-After."""

    code, status = "temporarily_unavailable", 503


class UpstreamUnavailable(TemporarilyUnavailable):
    """An outside provider does not answer now; it is worth asking again.

    The zone's administrators see the reason.

    Attributes:
        retry_after_seconds: for the Retry-After header.
    """

    recorded_as = "provider_unavailable"

    def __init__(self, detail: str, *, retry_after_seconds: int = 5, internal: str = "") -> None:
        super().__init__(detail, internal=internal)
        self.retry_after_seconds = retry_after_seconds


class TooManyRequests(OAuthError):
    """A rate limit was exceeded.

    Attributes:
        retry_after_seconds: for the Retry-After header.
    """

    code, status = "temporarily_unavailable", 429
    recorded_as = "too_many_requests"

    def __init__(
        self,
        detail: str,
        *,
        retry_after_seconds: int,
        internal: str = "",
        application_id: str | None = None,
    ) -> None:
        super().__init__(detail, internal=internal)
        self.retry_after_seconds = retry_after_seconds
        self.application_id = application_id


class ServerError(OAuthError):
    """An internal error, as an OAuth error response."""

    code, status = "server_error", 500


class ProviderFailed(ServerError):
    """An outside provider refuses or is misconfigured. The zone's administrators see the reason."""

    recorded_as = "provider_failed"


class CodeRefused(ServerError):
    """An outside provider refuses an authorization code, whoever sent it. Recorded as any failure of its."""

    recorded_as = ProviderFailed.recorded_as


class PageError(ServiceError):
    """An error shown on a page: there is no redirect URI that it could be sent to."""


class BadLink(PageError):
    """Unknown client, unregistered redirect URI, or a sign-in that another browser started."""

    code, status = "bad_link", 400


class WrongUser(PageError):
    """The link was made for another user than the one who is signed in."""

    code, status = "wrong_user", 403


class ForgedForm(PageError):
    """The form's token is missing, belongs to another page, or was used already."""

    code, status = "forged_form", 403


class SignInRefused(PageError):
    """The user may not sign in: disabled, not invited, or not allowed to register."""

    code, status = "sign_in_refused", 403


class PolicyDenied(PageError):
    """A policy does not let the application have what its user is asked to authorize."""

    code, status = "policy_denied", 403


class ConsentDenied(PageError):
    """The user has answered an application's request with no."""

    code, status = AccessDenied.code, 400


class AccountNotConnected(PageError):
    """The user or the provider has not granted what an account was to be connected for."""

    code, status = AccessDenied.code, 400


class AccountRefused(PageError):
    """An account at a provider cannot be connected: it is another user's, or the answer is another's."""

    code, status = "account_refused", 403


class ProviderUnavailable(PageError):
    """The provider that a user wants to connect is unreachable, or not configured for it."""

    code, status = "provider_unavailable", 503


class ConnectionFailed(PageError):
    """An account was not connected: the provider refuses, most likely because of its configuration."""

    code, status = ProviderFailed.recorded_as, 502


class TooManyTries(PageError):
    """Too many failed sign-ins for the account, or too many sign-ins from the address."""

    code, status = "too_many_tries", 429

    def __init__(self, detail: str, *, retry_after_seconds: int, internal: str = "") -> None:
        super().__init__(detail, internal=internal)
        self.retry_after_seconds = retry_after_seconds


class SignInUnavailable(PageError):
    """The identity provider, or a dependency of this service, is unavailable."""

    code, status = "sign_in_unavailable", 503
