"""An issue tracker of another company: an OAuth provider, and an API that accepts its live access tokens.

It is the outside service that users connect in the examples, and knows nothing of zones. A program runs it as
`Tracker`; by itself it is `python examples/tracker.py --client-secret SECRET --redirect-uri URI`.

  GET  /authorize   a page that asks the account's owner to allow access (RFC 6749 section 4.1.1)
  POST /authorize   their decision
  POST /token       codes with PKCE (RFC 7636), and refresh tokens, each of which is good for one use
  POST /revoke      RFC 7009: the token and everything that was issued with it
  GET  /api/issues  the API, for a bearer token (RFC 6750)
  GET  /requests    how many requests each endpoint has had
"""

import argparse
import base64
import hashlib
import html
import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

SCOPES = frozenset({"issues.read", "issues.write"})
ISSUES = ({"id": 1, "title": "The calendar shows the wrong week"}, {"id": 2, "title": "Invite Grace"})
CODE_SECONDS = 60

_PAGE = """<!doctype html>
<html lang="en">
<title>Issue tracker</title>
<h1>Issue tracker</h1>
<p>{client} asks for access to the issues of <b>{account}</b>: {scope}</p>
<form method="post" action="/authorize">
{fields}
<button name="decision" value="allow">Allow</button>
<button name="decision" value="deny">Deny</button>
</form>
</html>
"""


class Refused(Exception):
    """A request is answered with an OAuth error."""

    def __init__(self, error: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.error, self.description, self.status = error, description, status


@dataclass
class Grant:
    """What an account's owner has allowed a client. It ends when one of its tokens is revoked or used twice.

    Attributes:
        refresh_token: the one that is good for the next refresh.
        access_tokens: each with the time, in seconds since the epoch, at which it expires.
    """

    account: str
    scope: str
    refresh_token: str = ""
    used_refresh_tokens: set[str] = field(default_factory=set)
    access_tokens: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Code:
    """An authorization code that was not redeemed yet."""

    grant: Grant
    redirect_uri: str
    code_challenge: str
    expires_at: float


@dataclass
class Tracker:
    """The provider and its API.

    Attributes:
        redirect_uris: where codes are sent; compared character by character.
        expires_in: lifetime of access tokens, in seconds.
        account: who is signed in to the tracker in every browser.
        requests: how many requests each endpoint has had; refreshes are counted as `refresh_token`.
    """

    client_id: str = "zonewright"
    client_secret: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    redirect_uris: tuple[str, ...] = ()
    expires_in: int = 3600
    account: str = "ada@tracker.example"
    requests: Counter[str] = field(default_factory=Counter)
    port: int = 0

    def __post_init__(self) -> None:
        self._codes: dict[str, Code] = {}
        self._grants: list[Grant] = []
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """The base address."""
        return f"http://127.0.0.1:{self.port}"

    def bind(self) -> None:
        """Listen, on a free port unless one was named."""
        tracker = self

        class Handler(_Handler):
            provider = tracker

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_port

    def start(self) -> None:
        """Listen and answer in threads of this process."""
        self.bind()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def serve_forever(self) -> None:
        """Answer until `stop`. Raises RuntimeError before `bind`."""
        if self._server is None:
            raise RuntimeError("the tracker does not listen yet")
        self._server.serve_forever(poll_interval=0.05)

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def page(self, query: Mapping[str, str]) -> str:
        """The authorization page. Raises Refused for a request that cannot be sent back to its client."""
        self._check_client_and_redirect_uri(query)
        fields = "\n".join(
            f'<input type="hidden" name="{html.escape(name)}" value="{html.escape(value)}">'
            for name, value in query.items()
        )
        return _PAGE.format(
            client=html.escape(self.client_id),
            account=html.escape(self.account),
            scope=html.escape(query.get("scope", "")),
            fields=fields,
        )

    def decide(self, form: Mapping[str, str]) -> str:
        """The address to which the browser goes with the answer. Raises Refused, as `page` does."""
        redirect_uri = self._check_client_and_redirect_uri(form)
        answer = {"state": form.get("state", "")}
        scope = frozenset(form.get("scope", "").split())
        if form.get("decision") != "allow":
            answer["error"] = "access_denied"
        elif form.get("response_type") != "code" or form.get("code_challenge_method") != "S256":
            answer |= {"error": "invalid_request", "error_description": "code with PKCE (S256) is required"}
        elif not scope or not scope <= SCOPES:
            answer["error"] = "invalid_scope"
        else:
            code = secrets.token_urlsafe(24)
            grant = Grant(self.account, " ".join(sorted(scope)))
            expires_at = time.time() + CODE_SECONDS
            with self._lock:
                self._codes[code] = Code(grant, redirect_uri, form.get("code_challenge", ""), expires_at)
            answer["code"] = code
        return f"{redirect_uri}{'&' if '?' in redirect_uri else '?'}{urlencode(answer)}"

    def token(self, form: Mapping[str, str]) -> dict[str, object]:
        """The answer of the token endpoint to an authenticated client. Raises Refused."""
        grant_type = form.get("grant_type", "")
        with self._lock:
            if grant_type == "authorization_code":
                return self._redeem(form)
            if grant_type == "refresh_token":
                self.requests["refresh_token"] += 1
                return self._refresh(form)
        raise Refused("unsupported_grant_type", "authorization_code and refresh_token are supported")

    def revoke(self, token: str) -> None:
        """End the grant that a token belongs to; an unknown token is no error."""
        with self._lock:
            for grant in self._grants:
                if token == grant.refresh_token or token in grant.access_tokens:
                    self._end(grant)

    def grant_of(self, access_token: str) -> Grant | None:
        """The grant of a live access token."""
        with self._lock:
            found = (each for each in self._grants if each.access_tokens.get(access_token, 0) > time.time())
            return next(found, None)

    def check_credentials(self, client_id: str, client_secret: str) -> None:
        """Authenticate the client. Raises Refused."""
        if client_id != self.client_id or not secrets.compare_digest(client_secret, self.client_secret):
            raise Refused("invalid_client", "wrong client id or secret", 401)

    def _check_client_and_redirect_uri(self, values: Mapping[str, str]) -> str:
        if values.get("client_id") != self.client_id:
            raise Refused("invalid_request", "unknown client")
        redirect_uri = values.get("redirect_uri", "")
        if redirect_uri not in self.redirect_uris:
            raise Refused("invalid_request", "the redirect URI is not registered")
        return redirect_uri

    def _redeem(self, form: Mapping[str, str]) -> dict[str, object]:
        code = self._codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if code is None or code.expires_at <= time.time():
            raise Refused("invalid_grant", "unknown or expired code")
        if code.redirect_uri != form.get("redirect_uri") or code.code_challenge != challenge:
            raise Refused("invalid_grant", "the code was issued for another redirect URI or verifier")
        self._grants.append(code.grant)
        return self._issue(code.grant)

    def _refresh(self, form: Mapping[str, str]) -> dict[str, object]:
        token = form.get("refresh_token", "")
        for grant in self._grants:
            if token and token in grant.used_refresh_tokens:
                self._end(grant)
                raise Refused("invalid_grant", "the refresh token was used before: the grant has ended")
            if token and token == grant.refresh_token:
                grant.used_refresh_tokens.add(token)
                return self._issue(grant)
        raise Refused("invalid_grant", "unknown refresh token")

    def _issue(self, grant: Grant) -> dict[str, object]:
        access_token, grant.refresh_token = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        grant.access_tokens[access_token] = time.time() + self.expires_in
        return {
            "access_token": access_token,
            "token_type": "Bearer",
            "expires_in": self.expires_in,
            "refresh_token": grant.refresh_token,
            "scope": grant.scope,
        }

    @staticmethod
    def _end(grant: Grant) -> None:
        grant.refresh_token = ""
        grant.access_tokens.clear()


class _Handler(BaseHTTPRequestHandler):
    """One request. Spec: RFC 6749 sections 4.1 and 5.2, RFC 6750 section 3."""

    protocol_version = "HTTP/1.1"
    provider: Tracker

    def do_GET(self) -> None:
        self._answer({"/authorize": self._page, "/api/issues": self._issues, "/requests": self._requests})

    def do_POST(self) -> None:
        self._answer({"/authorize": self._decide, "/token": self._token, "/revoke": self._revoke})

    def _answer(self, endpoints: Mapping[str, Callable[[Mapping[str, str]], None]]) -> None:
        where = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        endpoint = endpoints.get(where.path)
        if endpoint is None:
            return self._send(404, {"error": "not_found"})
        self.provider.requests[where.path] += 1
        try:
            endpoint(dict(parse_qsl(where.query if self.command == "GET" else body, keep_blank_values=True)))
        except Refused as refused:
            members = {"error": refused.error, "error_description": refused.description}
            self._send(refused.status, members)

    def _page(self, query: Mapping[str, str]) -> None:
        self._send(200, self.provider.page(query))

    def _decide(self, form: Mapping[str, str]) -> None:
        self._send(303, "", location=self.provider.decide(form))

    def _token(self, form: Mapping[str, str]) -> None:
        self._authenticate(form)
        self._send(200, self.provider.token(form))

    def _revoke(self, form: Mapping[str, str]) -> None:
        self._authenticate(form)
        self.provider.revoke(form.get("token", ""))
        self._send(200, "")

    def _issues(self, _query: Mapping[str, str]) -> None:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        grant = self.provider.grant_of(token) if scheme.lower() == "bearer" else None
        if grant is None:
            challenge = 'Bearer error="invalid_token"'
            self._send(401, {"error": "invalid_token"}, www_authenticate=challenge)
        elif "issues.read" not in grant.scope.split():
            challenge = 'Bearer error="insufficient_scope", scope="issues.read"'
            self._send(403, {"error": "insufficient_scope"}, www_authenticate=challenge)
        else:
            self._send(200, {"account": grant.account, "issues": ISSUES})

    def _requests(self, _query: Mapping[str, str]) -> None:
        self._send(200, dict(self.provider.requests))

    def _authenticate(self, form: Mapping[str, str]) -> None:
        scheme, _, value = self.headers.get("Authorization", "").partition(" ")
        client_id, client_secret = form.get("client_id", ""), form.get("client_secret", "")
        if scheme == "Basic":
            pair = base64.b64decode(value).decode().partition(":")
            client_id, client_secret = unquote_plus(pair[0]), unquote_plus(pair[2])
        self.provider.check_credentials(client_id, client_secret)

    def _send(self, status: int, body: str | Mapping[str, object], **headers: str) -> None:
        is_page = isinstance(body, str)
        sent = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8" if is_page else "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.send_header("Cache-Control", "no-store")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_arguments: object) -> None:
        """Print nothing for each request."""


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--port", type=int, default=0, help="by default a free one")
    parser.add_argument("--client-id", default="zonewright")
    parser.add_argument("--client-secret", required=True)
    parser.add_argument("--redirect-uri", action="append", default=[], help="may be repeated")
    parser.add_argument("--expires-in", type=int, default=3600, help="seconds that access tokens live")
    given = parser.parse_args()
    tracker = Tracker(
        client_id=given.client_id,
        client_secret=given.client_secret,
        redirect_uris=tuple(given.redirect_uri),
        expires_in=given.expires_in,
        port=given.port,
    )
    tracker.bind()
    print(tracker.url, flush=True)
    tracker.serve_forever()


if __name__ == "__main__":
    main()
