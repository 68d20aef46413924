"""The words of decision records: what a request was about, and what it came to."""

from collections.abc import Iterable
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
    ORGANIZATION_TOKEN = "organization_token"
    SERVICE_ACCOUNT_TOKEN = "service_account_token"
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
    SIGN_OUT = "user_sign_out"
    PROVIDER_SIGN_OUT = "provider_sign_out"
    SESSION_END = "session_end"
    WITHDRAWAL = "withdrawal"
    PASSWORD_CHANGE = "password_change"
    CLIENT_FORGOTTEN = "client_forgotten"
    # What is neither: a credential in the vault, and the use of a client's credential.
    CREDENTIAL = "credential"
    AUTHENTICATION = "authentication"


# Names of events in records of earlier releases, and of processes that are not upgraded yet.
FORMER_EVENTS = {
    "organization-token": DecisionEvent.ORGANIZATION_TOKEN,
    "service-account-token": DecisionEvent.SERVICE_ACCOUNT_TOKEN,
    "sign-out": DecisionEvent.SIGN_OUT,
    "provider-sign-out": DecisionEvent.PROVIDER_SIGN_OUT,
    "session-end": DecisionEvent.SESSION_END,
    "password-change": DecisionEvent.PASSWORD_CHANGE,
    "client-forgotten": DecisionEvent.CLIENT_FORGOTTEN,
}


def event_named(name: str) -> str:
    """The name that an event has now."""
    return FORMER_EVENTS.get(name, name)


def stored_names(events: Iterable[str]) -> tuple[str, ...]:
    """The names that records of these events may have."""
    wanted = set(events)
    return (*sorted(wanted), *(former for former, event in FORMER_EVENTS.items() if event in wanted))


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
