"""Ten OAuth providers as their public documentation describes them, each a script for `scripted_provider`.

A double is strict about what it is sent: client authentication, format and headers that are not as documented
are answered like a wrong secret, and proofs like a wrong code. Sources: `examples/providers/*.yaml`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tests.support.scripted_provider import Received, Script, Scripted

from runtime.adapters.upstream_oauth.token_response import UpstreamTokens
from runtime.domain.oauth.pkce import challenge_of

SECRET = "s3cret"
REDIRECT_URI = "https://tools.example/oauth/connect/callback"
CODE, VERIFIER = "code-1", "v" * 43
OLD, NEW = "rt-1", "rt-2"

# Errors of RFC 6749 section 5.2, with the texts and members that providers add.
INVALID_GRANT = Scripted(
    {"error": "invalid_grant", "error_description": "Token has been expired or revoked."}, 400
)
_NOTHING = Scripted(b"")
INVALID_CLIENT = Scripted({"error": "invalid_client", "error_description": "no"}, 401)


@dataclass(frozen=True)
class Documented:
    """What a provider's documentation says.

    Attributes:
        authorize, token, revoke: host and path of its endpoints.
        asks: parameters of the authorization request beyond those of the standard, scopes included.
        requested: the scopes that are asked for.
        first, refreshed: bodies that answer a code and a refresh token.
        expected, expected_refreshed: the tokens that these come to.
        old_token: what answers an unknown token at the revocation endpoint.
    """

    authorize: str
    token: str
    requested: frozenset[str]
    asks: Mapping[str, str]
    first: Mapping[str, Any]
    expected: UpstreamTokens
    refreshed: Mapping[str, Any]
    expected_refreshed: UpstreamTokens
    pkce: bool = True
    revoke: str | None = None
    revoked: Scripted = _NOTHING
    old_token: Scripted = _NOTHING
    authentication: Literal["post", "basic"] = "post"
    media_type: str = "application/x-www-form-urlencoded"
    headers: Mapping[str, str] = field(default_factory=dict)
    bad_code: Scripted = INVALID_GRANT
    bad_refresh_token: Scripted = INVALID_GRANT
    wrong_client: Scripted = INVALID_CLIENT
    metadata: Mapping[str, Any] | None = None

    def script(self, url: str, client_id: str) -> Script:
        """What the provider answers, at `url/HOST/PATH` for each of its addresses."""

        def answer(received: Received) -> Scripted:
            place = received.path.removeprefix("/")
            if received.method == "GET" and place.endswith("/.well-known/openid-configuration"):
                return self._published(url)
            if place not in (self.token, self.revoke) or received.method != "POST":
                return Scripted({"error": "not_found"}, 404)
            if not self._is_client(received, client_id):
                return self.wrong_client
            if place == self.revoke:
                return self.revoked if received.members["token"] == OLD else self.old_token
            return self._tokens(received.members)

        return answer

    def _published(self, url: str) -> Scripted:
        if self.metadata is None:
            return Scripted({"error": "not_found"}, 404)
        return Scripted(
            {
                name: f"{url}/{value.removeprefix('https://')}"
                if isinstance(value, str) and value.startswith("https://")
                else value
                for name, value in self.metadata.items()
            }
        )

    def _is_client(self, received: Received, client_id: str) -> bool:
        if received.headers["content-type"] != self.media_type:
            return False
        if any(received.headers.get(name) != value for name, value in self.headers.items()):
            return False
        if self.authentication == "basic":
            return received.basic == (client_id, SECRET)
        sent = received.members
        given = (sent.get("client_id"), sent.get("client_secret"))
        return given == (client_id, SECRET) and "authorization" not in received.headers

    def _tokens(self, sent: Mapping[str, str]) -> Scripted:
        if sent["grant_type"] == "refresh_token":
            return Scripted(self.refreshed) if sent["refresh_token"] == OLD else self.bad_refresh_token
        proofs = {"redirect_uri": REDIRECT_URI, "code": CODE}
        if self.pkce:
            proofs["code_verifier"] = VERIFIER
        is_proved = {name: sent.get(name) for name in (*proofs, "code_verifier")} == {
            "code_verifier": None,
            **proofs,
        }
        return Scripted(self.first) if is_proved else self.bad_code


def tokens(
    scopes: frozenset[str] | set[str],
    expires_in: int | None,
    refresh_token: str | None = OLD,
    *,
    named: bool = True,
    refresh_token_expires_in: int | None = None,
    id_token: str | None = None,
) -> UpstreamTokens:
    """The tokens of a first answer."""
    has_refresh_token = refresh_token is not None
    return UpstreamTokens(
        "at-1",
        expires_in,
        refresh_token,
        has_refresh_token,
        refresh_token_expires_in,
        frozenset(scopes),
        named,
        id_token,
    )


def again(first: UpstreamTokens, *, rotates: bool, **changes: Any) -> UpstreamTokens:
    """The tokens of a refresh: with a new refresh token, or with the old one kept."""
    kept = (
        {"refresh_token": NEW, "is_refresh_token_new": True} if rotates else {"is_refresh_token_new": False}
    )
    return replace(first, access_token="at-2", id_token=None, **{**kept, **changes})


def _standard(rotates: bool, **members: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Bodies of the first answer and of a refresh, as RFC 6749 has them."""
    first = {"access_token": "at-1", "refresh_token": OLD, **members}
    refreshed = {"access_token": "at-2", **({"refresh_token": NEW} if rotates else {}), **members}
    return first, refreshed


def _google() -> Documented:
    scope = "https://www.googleapis.com/auth/calendar.readonly"
    first, refreshed = _standard(False, expires_in=3599, scope=scope, token_type="Bearer")
    expected = tokens({scope}, 3599)
    return Documented(
        authorize="accounts.google.com/o/oauth2/v2/auth",
        token="oauth2.googleapis.com/token",
        revoke="oauth2.googleapis.com/revoke",
        old_token=Scripted({"error": "invalid_token", "error_description": "Token expired or revoked"}, 400),
        requested=frozenset({scope}),
        asks={"scope": scope, "access_type": "offline", "prompt": "consent"},
        first=first,
        expected=expected,
        refreshed=refreshed,
        expected_refreshed=again(expected, rotates=False),
        metadata={
            "issuer": "https://accounts.google.com",
            "authorization_endpoint": "https://accounts.google.com/o/oauth2/v2/auth",
            "token_endpoint": "https://oauth2.googleapis.com/token",
            "revocation_endpoint": "https://oauth2.googleapis.com/revoke",
            "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
            "code_challenge_methods_supported": ["plain", "S256"],
        },
    )


def _microsoft() -> Documented:
    named = "Mail.Read User.Read"
    first, refreshed = _standard(True, token_type="Bearer", scope=named, expires_in=3736, ext_expires_in=3736)
    first["id_token"] = "e30.e30.c2ln"
    # `offline_access` is never among them, though the refresh token is what it asks for.
    expected = tokens({"Mail.Read", "User.Read", "offline_access"}, 3736, id_token="e30.e30.c2ln")
    dead = {
        "error": "invalid_grant",
        "error_description": "AADSTS700082: The refresh token has expired due to inactivity.",
        "error_codes": [700082],
        "timestamp": "2026-11-22 12:00:00Z",
    }
    return Documented(
        authorize="login.microsoftonline.com/common/oauth2/v2.0/authorize",
        token="login.microsoftonline.com/common/oauth2/v2.0/token",
        requested=frozenset({"Mail.Read", "offline_access"}),
        asks={"scope": "Mail.Read offline_access"},
        first=first,
        expected=expected,
        refreshed=refreshed,
        expected_refreshed=again(expected, rotates=True),
        bad_code=Scripted(dead, 400),
        bad_refresh_token=Scripted(dead, 400),
        # For all tenants the issuer has a placeholder, so what is published is never the configured issuer's.
        metadata={
            "issuer": "https://login.microsoftonline.com/{tenantid}/v2.0",
            "token_endpoint": "https://login.microsoftonline.com/common/oauth2/v2.0/token",
        },
    )


def _github() -> Documented:
    first = {
        "access_token": "at-1",
        "expires_in": "28800",
        "refresh_token": OLD,
        "refresh_token_expires_in": "15811200",
        "scope": "repo,gist",
        "token_type": "bearer",
    }
    expected = tokens({"repo", "gist"}, 28800, refresh_token_expires_in=15811200)

    def error(code: str) -> Scripted:
        return Scripted({"error": code, "error_description": "no", "error_uri": "https://docs.github.com"})

    return Documented(
        authorize="github.com/login/oauth/authorize",
        token="github.com/login/oauth/access_token",
        requested=frozenset({"repo", "gist"}),
        asks={"scope": "gist repo"},
        first=first,
        expected=expected,
        refreshed={**first, "access_token": "at-2", "refresh_token": NEW},
        expected_refreshed=again(expected, rotates=True),
        headers={"accept": "application/json"},
        bad_code=error("bad_verification_code"),
        bad_refresh_token=error("bad_refresh_token"),
        wrong_client=error("incorrect_client_credentials"),
    )


def _github_oauth_app() -> Documented:
    """Its tokens last until they are revoked, and none is refreshed."""
    first = {"access_token": "at-1", "scope": "repo,gist", "token_type": "bearer"}
    return replace(_github(), first=first, expected=tokens({"repo", "gist"}, None, None))


def _github_app() -> Documented:
    """It has permissions in place of scopes."""
    app = _github()
    expected = replace(app.expected, scopes=frozenset())
    return replace(
        app,
        requested=frozenset(),
        asks={},
        first={**app.first, "scope": ""},
        expected=expected,
        refreshed={**app.refreshed, "scope": ""},
        expected_refreshed=again(expected, rotates=True),
    )


def _slack() -> Documented:
    user = {
        "id": "U1",
        "scope": "chat:write,users:read",
        "access_token": "at-1",
        "token_type": "user",
        "expires_in": 43200,
        "refresh_token": OLD,
    }
    expected = tokens({"chat:write", "users:read"}, 43200)

    def error(code: str) -> Scripted:
        return Scripted({"ok": False, "error": code})

    bot = {"access_token": "bot-token", "token_type": "bot", "refresh_token": "bot-rt", "scope": "commands"}
    return Documented(
        authorize="slack.com/oauth/v2/authorize",
        token="slack.com/api/oauth.v2.access",
        revoke="slack.com/api/auth.revoke",
        revoked=Scripted({"ok": True, "revoked": True}),
        old_token=error("token_revoked"),
        requested=frozenset({"chat:write", "users:read"}),
        asks={"user_scope": "chat:write,users:read"},
        first={"ok": True, "app_id": "A1", "team": {"id": "T1"}, **bot, "authed_user": user},
        expected=expected,
        refreshed={
            "ok": True,
            "access_token": "at-2",
            "token_type": "user",
            "refresh_token": NEW,
            "expires_in": 43200,
        },
        expected_refreshed=again(expected, rotates=True, has_named_scopes=False),
        pkce=False,
        bad_code=error("invalid_code"),
        bad_refresh_token=error("invalid_refresh_token"),
        wrong_client=error("bad_client_secret"),
    )


def _slack_without_rotation() -> Documented:
    """Tokens last until they are revoked, the application's own beside the user's too."""
    slack = _slack()
    user = {
        name: value
        for name, value in slack.first["authed_user"].items()
        if name not in ("expires_in", "refresh_token")
    }
    first = {name: value for name, value in slack.first.items() if name != "refresh_token"}
    return replace(
        slack,
        first={**first, "authed_user": user},
        expected=tokens({"chat:write", "users:read"}, None, None),
    )


def _atlassian() -> Documented:
    first, refreshed = _standard(
        True, expires_in=3600, scope="offline_access read:jira-work", token_type="Bearer"
    )
    expected = tokens({"offline_access", "read:jira-work"}, 3600)
    dead = Scripted({"error": "invalid_grant", "error_description": "Unknown or invalid refresh token."}, 403)
    return Documented(
        authorize="auth.atlassian.com/authorize",
        token="auth.atlassian.com/oauth/token",
        requested=frozenset({"offline_access", "read:jira-work"}),
        asks={
            "scope": "offline_access read:jira-work",
            "audience": "api.atlassian.com",
            "prompt": "consent",
        },
        first=first,
        expected=expected,
        refreshed=refreshed,
        expected_refreshed=again(expected, rotates=True),
        pkce=False,
        media_type="application/json",
        bad_refresh_token=dead,
        wrong_client=Scripted({"error": "access_denied", "error_description": "Unauthorized"}, 401),
    )


def _salesforce() -> Documented:
    first, refreshed = _standard(
        False,
        signature="c2ln",
        scope="api refresh_token",
        instance_url="https://acme.my.salesforce.com",
        id="https://login.salesforce.com/id/00D/005",
        token_type="Bearer",
        issued_at="1795348800000",
    )
    expected = tokens({"api", "refresh_token"}, 900)
    return Documented(
        authorize="login.salesforce.com/services/oauth2/authorize",
        token="login.salesforce.com/services/oauth2/token",
        revoke="login.salesforce.com/services/oauth2/revoke",
        old_token=Scripted({"error": "invalid_token"}, 400),
        requested=frozenset({"api", "refresh_token"}),
        asks={"scope": "api refresh_token"},
        first=first,
        expected=expected,
        refreshed=refreshed,
        expected_refreshed=again(expected, rotates=False),
        wrong_client=Scripted({"error": "invalid_client", "error_description": "no"}, 400),
    )


def _notion() -> Documented:
    first, refreshed = _standard(
        True,
        token_type="bearer",
        bot_id="3c90c3cc-0d44-4b50-8888-8dd25736052a",
        workspace_id="3c90c3cc-0d44-4b50-8888-8dd25736052a",
        owner={"type": "user", "user": {"object": "user", "id": "u1"}},
        duplicated_template_id=None,
    )
    expected = tokens(set(), None, named=False)

    def error(code: str, status: int) -> Scripted:
        return Scripted({"object": "error", "status": status, "code": code, "message": "no"}, status)

    return Documented(
        authorize="api.notion.com/v1/oauth/authorize",
        token="api.notion.com/v1/oauth/token",
        revoke="api.notion.com/v1/oauth/revoke",
        revoked=Scripted({"request_id": "r1"}),
        old_token=error("invalid_grant", 400),
        requested=frozenset(),
        asks={"owner": "user"},
        first=first,
        expected=expected,
        refreshed=refreshed,
        expected_refreshed=again(expected, rotates=True),
        pkce=False,
        authentication="basic",
        media_type="application/json",
        headers={"notion-version": "2026-03-11"},
        bad_code=error("invalid_grant", 400),
        bad_refresh_token=error("invalid_grant", 400),
        wrong_client=error("unauthorized_client", 401),
    )


def _linear() -> Documented:
    first, refreshed = _standard(True, token_type="Bearer", expires_in=86399, scope="read write")
    expected = tokens({"read", "write"}, 86399)
    return Documented(
        authorize="linear.app/oauth/authorize",
        token="api.linear.app/oauth/token",
        revoke="api.linear.app/oauth/revoke",
        old_token=Scripted({"error": "invalid_token"}, 400),
        requested=frozenset({"read", "write"}),
        asks={"scope": "read,write", "actor": "user"},
        first=first,
        expected=expected,
        refreshed=refreshed,
        expected_refreshed=again(expected, rotates=True),
    )


def _hubspot() -> Documented:
    scopes = ["crm.objects.contacts.read", "oauth"]
    first = {
        "token_type": "bearer",
        "refresh_token": OLD,
        "hub_id": 62515,
        "scopes": scopes,
        "access_token": "at-1",
        "expires_in": 1800,
    }
    expected = tokens(set(scopes), 1800)

    def error(status: str, message: str) -> Scripted:
        return Scripted({"status": status, "message": message, "correlationId": "c1"}, 400)

    return Documented(
        authorize="app.hubspot.com/oauth/authorize",
        token="api.hubapi.com/oauth/2026-03/token",
        revoke="api.hubapi.com/oauth/2026-03/token/revoke",
        revoked=Scripted(b"", 204),
        old_token=error("BAD_REFRESH_TOKEN", "missing or invalid refresh token"),
        requested=frozenset(scopes),
        asks={"scope": "crm.objects.contacts.read oauth"},
        first=first,
        expected=expected,
        # The same refresh token comes again.
        refreshed={**first, "access_token": "at-2"},
        expected_refreshed=again(expected, rotates=False),
        pkce=False,
        bad_code=error("BAD_AUTH_CODE", "missing or unknown auth code"),
        bad_refresh_token=error("BAD_REFRESH_TOKEN", "missing or invalid refresh token"),
        wrong_client=error("BAD_CLIENT_SECRET", "missing or invalid client secret"),
    )


def _zoom() -> Documented:
    first, refreshed = _standard(
        True, token_type="bearer", expires_in=3599, scope="user:read:user", api_url="https://api.zoom.us"
    )
    expected = tokens({"user:read:user"}, 3599)
    dead = Scripted({"reason": "Invalid Token!", "error": "invalid_grant"}, 400)
    return Documented(
        authorize="zoom.us/oauth/authorize",
        token="zoom.us/oauth/token",
        revoke="zoom.us/oauth/revoke",
        revoked=Scripted({"status": "success"}),
        old_token=dead,
        requested=frozenset(),
        asks={},
        first=first,
        expected=expected,
        refreshed=refreshed,
        expected_refreshed=again(expected, rotates=True),
        authentication="basic",
        bad_code=dead,
        bad_refresh_token=dead,
        wrong_client=Scripted(
            {"reason": "Invalid client_id or client_secret", "error": "invalid_client"}, 401
        ),
    )


DOCUMENTED = {
    "google": _google(),
    "microsoft": _microsoft(),
    "github": _github(),
    "slack": _slack(),
    "atlassian": _atlassian(),
    "salesforce": _salesforce(),
    "notion": _notion(),
    "linear": _linear(),
    "hubspot": _hubspot(),
    "zoom": _zoom(),
}
# What a provider answers to another kind of application; the preset is that of the first word.
VARIANTS = {
    "github OAuth app": _github_oauth_app(),
    "github App": _github_app(),
    "slack without token rotation": _slack_without_rotation(),
}
CHALLENGE = {"code_challenge": challenge_of(VERIFIER), "code_challenge_method": "S256"}
