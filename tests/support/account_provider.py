"""An outside OAuth provider with accounts, over real HTTP: it checks PKCE and its redirect URI."""

import base64
import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from tests.support.scripted_provider import Received, Scripted, ScriptedProvider, scripted_provider


@dataclass
class AccountProvider:
    """A running provider.

    Attributes:
        grants: the scopes that the next person grants; None for those that are requested.
        answers_with: parameters of the next answers beside `code` and `state`, or in their place.
        token_answer: status and body of the token endpoint's next answers; None for tokens.
        issued: the access tokens, in order.
        renewing: the refresh tokens, likewise.
    """

    url: str
    server: ScriptedProvider
    grants: str | None = None
    answers_with: dict[str, str] = field(default_factory=dict)
    token_answer: tuple[int, Any] | None = None
    issued: list[str] = field(default_factory=list)
    renewing: list[str] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """The members of a provider that is configured by hand."""
        addresses = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
        }
        return {
            "identifier": self.url,
            "name": "Tracker",
            "client_id": "zone",
            "client_secret": "of the zone",
            "protocols": {"oauth2": addresses},
        }

    @property
    def asked(self) -> list[dict[str, str]]:
        """The parameters of the authorization requests, in order."""
        return [dict(each.query) for each in self.server.at("/authorize")]

    @property
    def redeemed(self) -> list[dict[str, str]]:
        """The members of the token requests, in order."""
        return [each.members for each in self.server.at("/token")]

    def answer(self, received: Received) -> Scripted:
        """What a request is answered with."""
        if received.path == "/authorize":
            return self._authorize(dict(received.query))
        return self._token(received) if received.path == "/token" else Scripted(status=404)

    def _authorize(self, asked: dict[str, str]) -> Scripted:
        code = secrets.token_hex(8)
        self.codes[code] = asked
        answer = {"code": code, "state": asked["state"], **self.answers_with}
        if "error" in answer:
            del answer["code"]
        address = asked["redirect_uri"]
        joint = "&" if "?" in address else "?"
        return Scripted(status=302, headers={"location": f"{address}{joint}{urlencode(answer)}"})

    def _token(self, received: Received) -> Scripted:
        if self.token_answer is not None:
            status, body = self.token_answer
            return Scripted(body, status)
        sent = received.members
        asked = self.codes.pop(sent["code"], None)
        if asked is None or asked["redirect_uri"] != sent["redirect_uri"] or not _has_verifier(asked, sent):
            return Scripted({"error": "invalid_grant"}, 400)
        token = f"at-{secrets.token_hex(8)}"
        self.issued.append(token)
        self.renewing.append(f"rt-{secrets.token_hex(8)}")
        scope = asked.get("scope", "") if self.grants is None else self.grants
        return Scripted(
            {
                "access_token": token,
                "refresh_token": self.renewing[-1],
                "token_type": "bearer",
                "expires_in": 1800,
                "scope": scope,
            }
        )


def _has_verifier(asked: dict[str, str], sent: dict[str, str]) -> bool:
    """Tell whether a redemption has the verifier of its challenge. Spec: RFC 7636 section 4.6."""
    if "code_challenge" not in asked:
        return "code_verifier" not in sent
    digest = hashlib.sha256(sent.get("code_verifier", "").encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == asked["code_challenge"]


@contextmanager
def account_provider() -> Iterator[AccountProvider]:
    """Run a provider on a free port."""
    with scripted_provider() as server:
        made = AccountProvider(server.url, server)
        server.script = made.answer
        yield made
