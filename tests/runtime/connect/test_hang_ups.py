"""A browser that hangs up does not choose what of its request happens."""

import socket
import struct
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.runtime.connect.conftest import Account
from tests.support.account_provider import AccountProvider
from tests.support.waiting import wait_until

from runtime.services.container import Services


class Provider:
    """The one that issues tokens, and waits for its caller to go first."""

    def __init__(self) -> None:
        self.leave: list[socket.socket] = []


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Provider:
    found, issue = Provider(), AccountProvider._token

    def slowly(provider: AccountProvider, received: Any) -> Any:
        made = issue(provider, received)
        for connection in found.leave:
            connection.close()
        return made

    monkeypatch.setattr(AccountProvider, "_token", slowly)
    return found


def send(url: str, cookies: str) -> socket.socket:
    """A request on a connection that is reset when it is closed."""
    parts = urlsplit(url)
    connection = socket.create_connection((parts.hostname or "", parts.port or 80))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    head = f"GET {parts.path}?{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\nCookie: {cookies}\r\n\r\n"
    connection.sendall(head.encode())
    return connection


@pytest.mark.parametrize("hangs_up", [False, True], ids=["waits", "hangs up"])
def test_tokens_that_a_provider_has_issued_are_kept(
    account: Account, provider: Provider, hangs_up: bool
) -> None:
    """Whether or not the browser waits for the answer, the account is connected, and that is recorded."""
    back = account.callback(account.desk.page(account.link(account.desk.sign_in(account.agent))))
    cookies = "; ".join(f"{each.name}={each.value}" for each in account.desk.browser.http.cookies.jar)
    connection = send(back, cookies)
    provider.leave += [connection] * hangs_up

    wait_until(lambda: account.rows("vault_tokens"))
    wait_until(lambda: outcomes(account) == ["connected"])
    assert len(account.tracker.issued) == 1
    connection.close()


def outcomes(account: Account) -> list[str]:
    """What is recorded of connections that were made."""

    async def flushed(services: Services) -> None:
        await services.decisions.flush()

    account.desk.site.server.call(flushed)
    rows = account.desk.rows("token_events")
    return [each["outcome"] for each in rows if each["event"] == "connect" and each["outcome"] == "connected"]
