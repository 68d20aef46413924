"""The words of decision records: what a request was about, and what it came to."""

from enum import StrEnum


class DecisionEvent(StrEnum):
    """The endpoint, the grant type, or what has ended."""

    TOKEN = "token"  # a token request whose grant type is not known
    UNKNOWN_GRANT_TYPE = "unknown_grant_type"
    AUTHORIZATION_CODE = "authorization_code"
    REFRESH_TOKEN = "refresh_token"
    CLIENT_CREDENTIALS = "client_credentials"
    TOKEN_EXCHANGE = "token_exchange"
    JWT_BEARER = "jwt_bearer"
    ORGANIZATION_TOKEN = "organization-token"
    SERVICE_ACCOUNT_TOKEN = "service-account-token"
    # Endpoints for clients.
    PUSHED_AUTHORIZATION_REQUEST = "par"
    INTROSPECTION = "introspection"
    REVOCATION = "revocation"
    REGISTRATION = "registration"
    USERINFO = "userinfo"
    # Pages, each by the last part of its address.
    AUTHORIZE = "authorize"
    SIGN_IN = "sign_in"
    SIGN_UP = "sign_up"
    CALLBACK = "callback"
    CONSENT = "consent"
    CONNECT = "connect"
    ACCOUNT = "account"
    FORGOT_PASSWORD = "forgot_password"
    RESET_PASSWORD = "reset_password"
    LOGOUT = "logout"
    SIGN_OUT_PAGE = "sign_out"
    SIGNED_OUT_PAGE = "signed_out"
    # What has ended without a token request.
    SIGN_OUT = "sign-out"
    PROVIDER_SIGN_OUT = "provider-sign-out"
    SESSION_END = "session-end"
    WITHDRAWAL = "withdrawal"
    PASSWORD_CHANGE = "password-change"
    CLIENT_FORGOTTEN = "client-forgotten"
    # What is neither: a credential in the vault, and the use of a client's credential.
    CREDENTIAL = "credential"
    AUTHENTICATION = "authentication"


class DecisionOutcome(StrEnum):
    """What a request came to."""

    ISSUED = "issued"
    SIGNED_IN = "signed_in"
    PASSWORD_CHANGED = "password_changed"
    CONNECTED = "connected"
    STORED = "stored"
    REGISTERED = "registered"
    PROVED = "proved"  # an application has proved itself, and has asked for no token
    REVOKED = "revoked"
    ENDED = "ended"
    IGNORED = "ignored"  # a revocation that ended nothing
    INACTIVE = "inactive"  # an introspection
    REFUSED = "refused"
