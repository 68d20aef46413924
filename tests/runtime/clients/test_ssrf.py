"""Server-side request forgery: addresses from administrators and clients never reach internal hosts."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

import pytest
from tests.runtime.login.federation import federated
from tests.support.factories import company_of
from tests.support.oauth_site import CALLBACK, Answer, Browser, Page, Site
from tests.support.server import serve


@dataclass
class Target:
    """A socket inside the network, and who has connected to it."""

    port: int
    seen: list[bytes] = field(default_factory=list)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Ways to write its address."""
        hosts = ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0x7f000001", "2130706433")
        return tuple(f"https://{host}:{self.port}" for host in hosts)


@contextmanager
def target() -> Iterator[Target]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = Target(listener.getsockname()[1])

        def listen() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    made.seen.append(connection.recv(64))

        Thread(target=listen, daemon=True).start()
        yield made
        listener.shutdown(socket.SHUT_RDWR)


@contextmanager
def guarded(folder: Path, *, allowed: bool) -> Iterator[Site]:
    with serve(folder, allow_private_addresses=allowed) as server:
        yield Site(server, company_of(server))


@pytest.mark.threat("7c", "7f", "7i", "7j", "7k", "7x")
@pytest.mark.parametrize("allowed", [True, False])
def test_a_provider_is_not_asked_inside(tmp_path: Path, allowed: bool) -> None:
    """A sign-in ends where it began; only where that is allowed is the target connected to."""
    with target() as inside, guarded(tmp_path, allowed=allowed) as site:
        clients = [site.app(federated(site, address)) for address in inside.addresses]
        heard = [Browser().open(client.url()) for client in clients]
        errors = [each.values["error"] for each in heard if isinstance(each, Answer)]
        assert errors == ["temporarily_unavailable"] * len(clients)
    assert bool(inside.seen) is allowed


@pytest.mark.threat("7d", "7f", "7i", "7j", "7k", "7x")
@pytest.mark.parametrize("allowed", [True, False])
def test_nobody_inside_is_told_of_a_logout(tmp_path: Path, allowed: bool) -> None:
    """The session ends all the same; the address hears nothing, but where that is allowed."""
    with target() as inside, guarded(tmp_path, allowed=allowed) as site:
        zone = site.zone()
        site.user(zone)
        for number, address in enumerate(inside.addresses):
            told = {"redirect_uris": [CALLBACK], "backchannel_logout_uri": f"{address}/out"}
            client, browser = site.app(zone, f"told-{number}", protocols={"oauth2": told}), Browser()
            tokens = client.sign_in(browser)
            page = browser.open(f"{client.issuer}/openid/logout")
            assert isinstance(page, Page)
            browser.send(page)
            assert client.userinfo(tokens["access_token"]).status_code == 401
        site.run(site.services.outbox.deliver_due())
    assert bool(inside.seen) is allowed
