"""A provider over real HTTP that rotates refresh tokens, and revokes all of them when one is used twice."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.scripted_provider import Received, Scripted, ScriptedProvider, scripted_provider
from tests.support.waiting import let_pass

INVALID_GRANT = Scripted({"error": "invalid_grant"}, 400)


@dataclass
class RotatingProvider:
    """What the provider knows of one account.

    Attributes:
        current: the refresh token that works; None once one was used twice.
        expires_in: of the access tokens that it issues.
        answer: what every refresh is answered with, in place of tokens.
        revocation: what every revocation is answered with, in place of success.
        delay_seconds: before each answer to a refresh, after the token was rotated.
        refreshes: how many requests for new tokens came.
        asked: is set when one came.
        revoked: the tokens that were revoked, in order.
    """

    current: str | None = "rt-0"
    expires_in: int = 3600
    answer: Scripted | None = None
    revocation: Scripted | None = None
    delay_seconds: float = 0.0
    refreshes: int = 0
    asked: threading.Event = field(default_factory=threading.Event)
    revoked: list[str] = field(default_factory=list)
    server: ScriptedProvider = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def settings(self) -> dict[str, object]:
        """The members of a provider of the zone that is this one."""
        return self.settings_without("")

    def settings_without(self, endpoint: str) -> dict[str, object]:
        """The same, with an endpoint left out."""
        oauth2 = {
            "issuer": self.server.url,
            "authorization_endpoint": f"{self.server.url}/authorize",
            "token_endpoint": f"{self.server.url}/token",
            "revocation_endpoint": f"{self.server.url}/revoke",
        }
        oauth2.pop(endpoint, None)
        return {"client_secret": "zone-secret", "protocols": {"oauth2": oauth2}}

    def script(self, received: Received) -> Scripted:
        """The answer to a request."""
        if received.path == "/revoke":
            self.revoked.append(received.members["token"])
            return self.revocation or Scripted()
        with self._lock:
            self.refreshes += 1
            self.asked.set()
            answer = self.answer or self._rotated(received.members.get("refresh_token"))
        let_pass(self.delay_seconds)
        return answer

    def _rotated(self, given: str | None) -> Scripted:
        if given is None or given != self.current:
            self.current = None
            return INVALID_GRANT
        self.current = f"rt-{self.refreshes}"
        tokens = {"access_token": f"at-{self.refreshes}", "token_type": "Bearer"}
        return Scripted(tokens | {"refresh_token": self.current, "expires_in": self.expires_in})


@contextmanager
def rotating_provider() -> Iterator[RotatingProvider]:
    """Run one on a free port."""
    provider = RotatingProvider()
    with scripted_provider(provider.script) as server:
        provider.server = server
        yield provider
