"""An outside provider that grants whatever it likes, and the way of a user through a connect link to it."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from tests.support.scene import Scene
from tests.support.scripted_provider import Received, Scripted, scripted_provider

from runtime.domain.kinds.role import User
from runtime.services.authority import browser_sessions
from runtime.services.authority.browser_sessions import Authentication, Browser
from runtime.services.authorization.next_step import NextStep
from runtime.services.authorization.requests import Parameters
from runtime.services.connect import flow, upstream
from runtime.services.connect.outcomes import Connected
from runtime.services.connect.requests import ConnectRequest

Meanwhile = Callable[[], Awaitable[None]]


@dataclass
class UpstreamAccounts:
    """A running provider.

    Attributes:
        grants: the scopes of the next tokens, whatever was requested.
        newest: the access token that was issued last.
        refreshed: that of the last refresh.
        while_redeemed: is called before a code is answered.
    """

    url: str
    grants: frozenset[str] = frozenset()
    newest: str = ""
    refreshed: str = ""
    while_redeemed: Callable[[], None] = lambda: None

    @property
    def settings(self) -> dict[str, object]:
        """The members of a provider of the zone that is this one."""
        oauth2 = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
        }
        members = {"identifier": self.url, "name": "Tracker", "client_id": "zone", "client_secret": "secret"}
        return {**members, "protocols": {"oauth2": oauth2}}

    def answer(self, received: Received) -> Scripted:
        """New tokens, for a code or a refresh token."""
        is_code = received.members["grant_type"] == "authorization_code"
        if is_code:
            self.while_redeemed()
        self.newest = f"at-{secrets.token_hex(8)}"
        self.refreshed = self.refreshed if is_code else self.newest
        tokens = {"access_token": self.newest, "refresh_token": f"rt-{secrets.token_hex(8)}"}
        scope = " ".join(sorted(self.grants))
        return Scripted(tokens | {"token_type": "Bearer", "expires_in": 36_000, "scope": scope})


@contextmanager
def upstream_accounts() -> Iterator[UpstreamAccounts]:
    """Run a provider on a free port."""
    with scripted_provider() as server:
        made = UpstreamAccounts(server.url)
        server.script = made.answer
        yield made


async def connect(
    scene: Scene,
    user: User,
    link: str,
    provider: UpstreamAccounts,
    *,
    allowed: bool,
    while_away: Meanwhile,
    while_redeemed: Meanwhile,
) -> frozenset[str] | None:
    """A user opens a link in a new browser, and decides; the scopes that the page has said.

    None where there was nothing left to decide.

    Args:
        while_away, while_redeemed: what happens while the user is at the provider, and while the provider
            is asked for the tokens.
    Raises: ServiceError as the pages do.
    """
    services = scene.services
    zone = await services.zones.get(scene.zone.id)
    async with services.database.transaction() as conn:
        how = Authentication(at=services.clock())
        _, cookie = await browser_sessions.open_session(
            conn, services, zone, user, how, started_by="Portal", previous_cookie=None
        )
    browser = Browser(session=cookie, pre_login=None, address="192.0.2.1")
    request = ConnectRequest(link=dict(parse_qsl(urlsplit(link).query))["link"])
    prompt = await flow.open_link(services, zone, request, browser)
    if isinstance(prompt, Connected):
        return None
    ((asked),) = prompt.consent.resources
    outcome = await flow.decide(
        services, zone, request, browser, allowed=allowed, credential="", shown=prompt.digest
    )
    if isinstance(outcome, NextStep):
        state = dict(parse_qsl(urlsplit(outcome.location).query))["state"]
        await while_away()
        loop = asyncio.get_running_loop()
        provider.while_redeemed = lambda: asyncio.run_coroutine_threadsafe(
            _awaited(while_redeemed), loop
        ).result(30)
        zone = await services.zones.get(scene.zone.id)
        parameters = Parameters([("state", state), ("code", "code")])
        try:
            outcome = await upstream.handle_callback(services, zone, parameters, browser)
        finally:
            provider.while_redeemed = lambda: None
    assert isinstance(outcome, Connected), outcome
    return frozenset(asked.scopes)


async def _awaited(work: Meanwhile) -> None:
    await work()
