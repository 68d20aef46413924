"""The errors of the service: one tree of exceptions with code, status and message.

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
        TooManyRequests        429     temporarily_unavailable
        ServerError            500     server_error
      PageError                        a page for the person at the browser; never a redirect
        BadLink                400     bad_link
        ForgedForm             403     forged_form
        SignInRefused          403     sign_in_refused
        TooManyTries           429     too_many_tries
        SignInUnavailable      503     sign_in_unavailable

The edge turns one of these into HTTP once; whatever else escapes is a bug and answers 500.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


class ServiceError(Exception):
    """A refusal the caller is told about."""

    code: ClassVar[str]
    status: ClassVar[int]

    def __init__(self, detail: str, *, internal: str = "") -> None:  # internal is for the log alone
        super().__init__(detail)
        self.detail = detail
        self.internal = internal


@dataclass(frozen=True)
class Problem:
    """One of several things wrong with a request: `field` is a dotted path into the body or a query name."""

    code: str
    message: str
    field: str | None = None


class ManagementError(ServiceError):
    """A refusal of the management API. Spec: `conventions.error_body` of the management API table."""

    def __init__(self, detail: str, *, problems: Sequence[Problem] = (), internal: str = "") -> None:
        super().__init__(detail, internal=internal)
        self.problems = tuple(problems)


class ValidationFailed(ManagementError):
    """The request is well formed but a member of it is not acceptable."""

    code, status = "validation_error", 400

    @classmethod
    def of(cls, field: str, message: str) -> "ValidationFailed":
        """The refusal of one member, named in the message and in `details`."""
        return cls(f"`{field}`: {message}", problems=[Problem("validation_error", message, field)])


class BundleInvalid(ManagementError):
    """The content of a policy bundle is not acceptable."""

    code, status = "bundle_invalid", 400


class BadRequest(ManagementError):
    """The request cannot be read at all."""

    code, status = "bad_request", 400


class Unauthorized(ManagementError):
    """No credential, or one that is not valid.

    Attributes:
        nonce: what the proof that came with it lacked, and the answer's `DPoP-Nonce` header tells.
    """

    code, status = "unauthorized", 401

    def __init__(self, detail: str, *, internal: str = "", nonce: str | None = None) -> None:
        super().__init__(detail, internal=internal)
        self.nonce = nonce


class Forbidden(ManagementError):
    """The caller may see this but not do that.

    Attributes:
        scope: what the caller's token lacks, where that is it; the answer's challenge tells.
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
    """There is no such thing, or the caller may not see it: the two look alike."""

    code, status = "not_found", 404


class NotAcceptable(ManagementError):
    """The answer exists in none of the media types that the caller takes."""

    code, status = "bad_request", 406


class Conflict(ManagementError):
    """A unique value is taken, or the state of the entity forbids the change."""

    code, status = "conflict", 409


class NameRetired(Conflict):
    """The name was somebody else's, who is gone or is called otherwise now; it is not given again."""


class PreconditionFailed(ManagementError):
    """What the caller based its change on has changed since."""

    code, status = "precondition_failed", 412


class TooLarge(ManagementError):
    """The body is larger than this operation reads."""

    code, status = "bad_request", 413


class UnsupportedMedia(ManagementError):
    """The body is in a media type that this operation does not read."""

    code, status = "bad_request", 415


class RateLimited(ManagementError):
    """Too many requests; the caller should slow down."""

    code, status = "rate_limit_exceeded", 429


class Unavailable(ManagementError):
    """Something this service depends on does not answer."""

    code, status = "service_unavailable", 503


# What an `error_description` may not hold. Spec: RFC 6749 appendix A.8.
_NOT_TOLD = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")


class OAuthError(ServiceError):
    """A refusal of a zone's OAuth endpoints; what it repeats of a request is told as far as it may be.

    Spec: RFC 6749 section 5.2.
    """

    def __init__(self, detail: str, *, internal: str = "", **members: Any) -> None:
        super().__init__(_NOT_TOLD.sub("?", detail), internal=internal)
        self.members = members  # extension members of the body: error_uri, reason, ...


class InvalidRequest(OAuthError):
    """A parameter is missing, malformed, or sent twice."""

    code, status = "invalid_request", 400


class FormTooLarge(InvalidRequest):
    """The body is larger than any request to this endpoint needs to be."""

    status = 413


class InvalidClient(OAuthError):
    """Client authentication failed. `basic`: HTTP Basic was tried, which asks for a challenge."""

    code, status = "invalid_client", 401

    def __init__(
        self, detail: str = "client authentication failed", *, internal: str = "", basic: bool = False
    ):
        super().__init__(detail, internal=internal)
        self.basic = basic


class InvalidDpopProof(OAuthError):
    """The proof of possession is not valid for this request. Spec: RFC 9449 section 5."""

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
    """The code, refresh token or subject token is not valid for this client. One text for every cause."""

    code, status = "invalid_grant", 400


class UnauthorizedClient(OAuthError):
    """The client is known but may not use this grant type."""

    code, status = "unauthorized_client", 400


class UnsupportedGrantType(OAuthError):
    """No such grant type here."""

    code, status = "unsupported_grant_type", 400


class UnsupportedTokenType(OAuthError):
    """Tokens of that sort cannot be revoked. Spec: RFC 7009 section 2.2.1."""

    code, status = "unsupported_token_type", 400


class InvalidScope(OAuthError):
    """A scope is unknown, malformed, or beyond what may be granted."""

    code, status = "invalid_scope", 400


class InvalidTarget(OAuthError):
    """The application may not have a token for that resource. Spec: RFC 8693 section 2.2.2."""

    code, status = "invalid_target", 400


class AccessDenied(OAuthError):
    """The user or the policy says no; `reason` tells which."""

    code, status = "access_denied", 400


class InsufficientAuthorization(AccessDenied):
    """The user has not authorized the application yet, in the words that some clients wait for.

    Spec: the draft on first-party applications; zone interface, section 5.
    """

    code = "insufficient_authorization"


class InvalidToken(OAuthError):
    """The bearer token is not valid here. Spec: RFC 6750 section 3.1.

    Attributes:
        scheme: what it was presented under, which the challenge repeats: `Bearer` or `DPoP`.
    """

    code, status = "invalid_token", 401
    scheme: str = "Bearer"


class ProofRefused(InvalidToken):
    """The token may be valid, but the proof that it is the sender's is not. Spec: RFC 9449 section 7.1."""

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
    """No bearer token was sent: challenged without an error code, as somebody who just does not know yet."""


class TokenSentTwice(InvalidToken):
    """A token in the header and one elsewhere: nobody can say which counts. Spec: RFC 6750 section 2."""

    code, status = "invalid_request", 400


class InsufficientScope(OAuthError):
    """The bearer token lacks a scope. Spec: RFC 6750 section 3.1."""

    code, status = "insufficient_scope", 403


class LoginRequired(OAuthError):
    """`prompt=none` and nobody is signed in."""

    code, status = "login_required", 400


class ConsentRequired(OAuthError):
    """`prompt=none` and the user has not consented yet."""

    code, status = "consent_required", 400


class UnmetAuthenticationRequirements(OAuthError):
    """The sign-in cannot reach, or did not reach, what was asked for. Spec: RFC 9470 section 5."""

    code, status = "unmet_authentication_requirements", 400


class UnsupportedResponseType(OAuthError):
    """Only the authorization code flow is spoken here."""

    code, status = "unsupported_response_type", 400


class RequestNotSupported(OAuthError):
    """Authorization requests come as plain parameters. Spec: OpenID Connect Core section 3.1.2.6."""

    code, status = "request_not_supported", 400


class RequestUriNotSupported(OAuthError):
    """The only addresses of requests are those of pushed ones. Spec: OpenID Connect Core section 3.1.2.6."""

    code, status = "request_uri_not_supported", 400


class RegistrationNotSupported(OAuthError):
    """Clients do not register by an authorization request. Spec: OpenID Connect Core section 3.1.2.6."""

    code, status = "registration_not_supported", 400


class InvalidRedirectUri(OAuthError):
    """A redirect URI that no client of that type may have. Spec: RFC 7591 section 3.2.2."""

    code, status = "invalid_redirect_uri", 400


class InvalidClientMetadata(OAuthError):
    """A member of a client's metadata is not acceptable. Spec: RFC 7591 section 3.2.2."""

    code, status = "invalid_client_metadata", 400


class MetadataTooLarge(InvalidClientMetadata):
    """The body is larger than any client's metadata needs to be."""

    status = 413


class InvalidSoftwareStatement(OAuthError):
    """A statement about the client that nobody here can check. Spec: RFC 7591 section 3.2.2."""

    code, status = "invalid_software_statement", 400


class RegistrationClosed(OAuthError):
    """The zone takes no registrations: an administrator adds its clients."""

    code, status = "access_denied", 403


class TemporarilyUnavailable(OAuthError):
    """Something the answer needs is away for now; the edge adds Retry-After."""

    code, status = "temporarily_unavailable", 503


class TooManyRequests(OAuthError):
    """This client, or whoever claims to be it, should slow down; the edge adds Retry-After."""

    code, status = "temporarily_unavailable", 429

    def __init__(self, detail: str, *, retry_after_seconds: int, internal: str = "") -> None:
        super().__init__(detail, internal=internal)
        self.retry_after_seconds = retry_after_seconds


class ServerError(OAuthError):
    """A bug, told in OAuth's words."""

    code, status = "server_error", 500


class PageError(ServiceError):
    """A refusal told to the person at the browser, because nobody can be answered by redirect."""


class BadLink(PageError):
    """Unknown client, a redirect URI that is not registered, or a sign-in that is not this browser's."""

    code, status = "bad_link", 400


class ForgedForm(PageError):
    """A form that this page did not hand out, or that was sent already."""

    code, status = "forged_form", 403


class SignInRefused(PageError):
    """The person is known, or could be, and may not sign in."""

    code, status = "sign_in_refused", 403


class TooManyTries(PageError):
    """Too many failed sign-ins for this account, or too many begun, from this address."""

    code, status = "too_many_tries", 429

    def __init__(self, detail: str, *, retry_after_seconds: int, internal: str = "") -> None:
        super().__init__(detail, internal=internal)
        self.retry_after_seconds = retry_after_seconds


class SignInUnavailable(PageError):
    """The identity provider, or this service, cannot sign anybody in right now."""

    code, status = "sign_in_unavailable", 503
