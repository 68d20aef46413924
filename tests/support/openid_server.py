"""An OpenID provider that says whatever a test wants it to, in its own name or in another's."""

import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import time
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from runtime.adapters.keys.signing import SigningKey


@dataclass
class OpenIDServer:
    """A running provider.

    Attributes:
        issuer: in whose name it speaks; its own address unless a test says otherwise.
        says: the claims of whoever signs in next; nobody is asked for anything.
        tells: the answer of its userinfo endpoint, which it has while there is one.
        publishes: more members of its metadata.
        token_answer: status and body of the token endpoint's next answers; None for tokens.
        asked: the parameters of each authorization request.
    """

    url: str
    issuer: str
    key: SigningKey = field(default_factory=lambda: SigningKey.generate("RS256"))
    says: dict[str, Any] = field(default_factory=dict)
    tells: dict[str, Any] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    publishes: dict[str, Any] = field(default_factory=dict)
    token_answer: tuple[int, Any] | None = None
    asked: list[dict[str, str]] = field(default_factory=list)

    @property
    def addresses(self) -> dict[str, str]:
        """What is written down by hand to have people sign in here, whoever the issuer is."""
        return {
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
        }

    def vouch(self, audience: str, **claims: Any) -> str:
        """An assertion about somebody, for a zone. Spec: RFC 7523 section 3."""
        now = int(time())
        lasting = {"iat": now, "exp": now + 120, "jti": secrets.token_hex(8)}
        return self.key.sign({"iss": self.issuer, "aud": audience, **lasting, **claims}, typ="JWT")

    def _authorize(self, asked: dict[str, str]) -> str:
        self.asked.append(asked)
        code = secrets.token_hex(8)
        self.codes[code] = {**asked, "said": json.dumps(self.says)}
        answer = {"code": code, "state": asked["state"]}
        return f"{asked['redirect_uri']}?{urlencode(answer)}"

    def _token(self, form: dict[str, str]) -> dict[str, Any]:
        asked, now = self.codes.pop(form["code"]), int(time())
        said = {"iss": self.issuer, "aud": asked["client_id"], "nonce": asked["nonce"]}
        said |= {"iat": now, "exp": now + 120, "auth_time": now}
        token = self.key.sign({**said, **json.loads(asked["said"])}, typ="JWT")
        return {"access_token": secrets.token_hex(8), "token_type": "Bearer", "id_token": token}

    def _document(self, path: str) -> dict[str, Any] | None:
        if path == "/.well-known/openid-configuration":
            more = {"userinfo_endpoint": f"{self.url}/userinfo"} if self.tells else {}
            return {"issuer": self.issuer, **self.addresses, **more, **self.publishes}
        if path == "/userinfo":
            return self.tells or None
        return {"keys": [self.key.public_jwk]} if path == "/keys" else None


@contextmanager
def openid_server(issuer: str | None = None) -> Iterator[OpenIDServer]:
    """Run a provider on a free port, in its own name or in that of an issuer."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            where = urlsplit(self.path)
            if where.path == "/authorize":
                self.send_response(302)
                self.send_header("Location", made._authorize(dict(parse_qsl(where.query))))
                self.send_header("Content-Length", "0")
                self.end_headers()
            else:
                self._answer(made._document(where.path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            status, document = made.token_answer or (200, None)
            self._answer(document if made.token_answer else made._token(dict(parse_qsl(body))), status)

        def _answer(self, document: dict[str, Any] | None, status: int = 200) -> None:
            body = json.dumps(document or {}).encode()
            self.send_response(404 if document is None else status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        made = OpenIDServer(url, issuer or url)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join(5)
