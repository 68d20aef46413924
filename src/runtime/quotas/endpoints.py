"""The endpoints that need no token: what a request to each stores, and what limits that.

`{issuer}` stands for a zone's address. The rest is the service's own. What is not here takes a token: then
the caller is known, and every change leaves a record in the audit trail.
"""

from dataclasses import dataclass

_REFUSAL = "a row for a refused request"
_MEMORY = "nothing; answered from memory"
_SECRETS = ("guess", "refusals")
_RECORDS = ("recorded-refusals-address", "recorded-refusals")
_SIGN_INS = ("authorize", "authorize-client", "authorize-zone")
_PUSHES = ("push", "push-client", "push-zone")


@dataclass(frozen=True, slots=True)
class PublicEndpoint:
    """An address with its methods.

    Attributes:
        leaves: what a request may leave behind, or make the service do.
        limited: names of the limits on that.
    """

    methods: tuple[str, ...]
    path: str
    leaves: str
    limited: tuple[str, ...] = ()


def _get(path: str, leaves: str, *limited: str) -> PublicEndpoint:
    return PublicEndpoint(("GET",), path, leaves, limited)


def _post(path: str, leaves: str, *limited: str) -> PublicEndpoint:
    return PublicEndpoint(("POST",), path, leaves, limited)


ENDPOINTS: tuple[PublicEndpoint, ...] = (
    PublicEndpoint(
        ("GET", "POST"),
        "{issuer}/oauth/authorize",
        "a pending sign-in or pushed request; a row for what was decided; the metadata document of a new"
        " client is fetched and stored",
        (*_SIGN_INS, *_PUSHES, *_RECORDS, "codes", "documents", "new-clients"),
    ),
    _post(
        "{issuer}/oauth/token",
        "a row for a refused request; the `jti` of an assertion or proof; a client's keys are fetched",
        *_SECRETS,
        *_RECORDS,
        "proofs",
        "assertions",
        "documents",
    ),
    _post(
        "{issuer}/oauth/revoke",
        "a row for a refused request, or for a token that is unknown; the `jti` of an assertion",
        *_SECRETS,
        *_RECORDS,
        "assertions",
    ),
    _post(
        "{issuer}/oauth/introspect",
        "a row for a token that is not active; the `jti` of a used assertion",
        *_SECRETS,
        *_RECORDS,
        "assertions",
    ),
    _post(
        "{issuer}/oauth/par",
        "a pushed request; a row for a refused one; the `jti` of an assertion or proof",
        *_SECRETS,
        *_RECORDS,
        *_PUSHES,
        "push-back-end",
        "proofs",
        "assertions",
    ),
    _post(
        "{issuer}/oauth/register", "a client; a row", "register", "register-zone", "new-clients", *_RECORDS
    ),
    _get(
        "{issuer}/oauth/callback",
        "the result of a sign-in or a connection that the browser started; a row for it",
        *_SIGN_INS,
        "forms-sent",
        *_RECORDS,
    ),
    _get("{issuer}/oauth/sign-in", _REFUSAL, *_RECORDS),
    _post(
        "{issuer}/oauth/sign-in",
        "the used form token; a counted attempt; a password is hashed; a session; a row for it",
        *_RECORDS,
        "forms-sent",
        "passwords",
        "passwords-zone",
        "tries",
    ),
    _get("{issuer}/oauth/sign-up", _REFUSAL, *_RECORDS),
    _post(
        "{issuer}/oauth/sign-up",
        "the used form token; a password is hashed; a user and a session; a row for them",
        *_RECORDS,
        "forms-sent",
        "passwords",
        "passwords-zone",
        "tries",
        "sign-ups",
    ),
    _get("{issuer}/oauth/forgot-password", _REFUSAL, *_RECORDS),
    _post(
        "{issuer}/oauth/forgot-password",
        "the used form token; a mail",
        *_RECORDS,
        "forms-sent",
        "password-resets",
        "password-resets-to-one",
        "password-resets-zone",
    ),
    _get("{issuer}/oauth/reset-password", _REFUSAL, *_RECORDS),
    _post(
        "{issuer}/oauth/reset-password",
        "the used form token; a password is hashed; a row for it, for each session that ends, and a mail",
        *_RECORDS,
        "forms-sent",
        "passwords",
        "passwords-zone",
        "tries",
    ),
    _get("{issuer}/oauth/consent", _REFUSAL, *_RECORDS),
    _post(
        "{issuer}/oauth/consent",
        "the used form token; a consent and a code; a row for them",
        *_RECORDS,
        "forms-sent",
        "codes",
    ),
    _get(
        "{issuer}/oauth/connect",
        "a pending sign-in, without a session; a row for a refused request",
        *_SIGN_INS,
        *_RECORDS,
    ),
    _post(
        "{issuer}/oauth/connect",
        "the used form token and link; a consent, a stored key, or a connection under way; a row for a"
        " refused request",
        *_RECORDS,
        "forms-sent",
        *_SIGN_INS,
    ),
    _get(
        "{issuer}/account",
        "a pending sign-in, without a session; a row for a refused request",
        *_SIGN_INS,
        *_RECORDS,
    ),
    _post(
        "{issuer}/account",
        "the used form token; a pending sign-in, without a session; a row for a refused request",
        *_RECORDS,
        "forms-sent",
        *_SIGN_INS,
    ),
    PublicEndpoint(
        ("GET", "POST"),
        "{issuer}/openid/logout",
        "an existing session ends; a row for a refused request",
        _RECORDS,
    ),
    _get("{issuer}/openid/logout/callback", _REFUSAL, *_RECORDS),
    _get("{issuer}/oauth/sign-out", "an existing session ends; a row for a refused request", *_RECORDS),
    _post(
        "{issuer}/oauth/sign-out",
        "the used form token; the session ends; a row for a refused request",
        *_RECORDS,
        "forms-sent",
    ),
    _get("{issuer}/oauth/signed-out", _REFUSAL, *_RECORDS),
    _get("{issuer}/oauth/style.css", _MEMORY),
    PublicEndpoint(
        ("GET", "POST"),
        "{issuer}/openid/userinfo",
        "the `jti` of a used DPoP proof; a row for a refused request",
        ("proofs", *_RECORDS),
    ),
    _post("{issuer}/openid/backchannel", "the end of sessions named in the provider's logout token"),
    _get("{issuer}/.well-known/oauth-authorization-server", _MEMORY),
    _get("{issuer}/.well-known/openid-configuration", _MEMORY),
    _get("{issuer}/.well-known/oauth-protected-resource", _MEMORY),
    _get("{issuer}/.well-known/jwks.json", _MEMORY),
    _get(
        "{issuer}/.well-known/revocations",
        "nothing; four database queries and 24 signatures a second, besides a first reading",
    ),
    _get("/.well-known/oauth-protected-resource", _MEMORY),
    _get(
        "/.well-known/oauth-protected-resource/organizations/{organization_id}", "nothing; one database query"
    ),
    _post("/service-account-token", "a row for a token that is issued", *_SECRETS),
    _get("/invitations/{token}", "nothing; one database query", "invitation-looks"),
    _post("/invitations/{token}/accept", "a user or membership", "invitation-looks"),
    _get("/openapi.json", _MEMORY),
    _get("/docs", _MEMORY),
    _get("/docs/docs.css", _MEMORY),
    _get("/healthz", _MEMORY),
    _get("/readyz", "nothing; the database and Redis are checked"),
    _get("/metrics", _MEMORY),
)
