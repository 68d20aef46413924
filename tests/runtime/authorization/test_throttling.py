"""Rate limits of the authorization endpoint, and the client's address behind a proxy."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl

import httpx
import pytest
from tests.runtime.authorization.pushed_requests import push
from tests.support.factories import company_of
from tests.support.oauth_site import Browser, Client, Site, assert_page
from tests.support.server import serve

from runtime.domain.errors import TooManyTries
from runtime.services import rate_limits
from runtime.services.login import throttling as login_limits

pytestmark = pytest.mark.usefixtures("one_window")

_MOST = 4


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server behind one proxy, where little is enough to be slowed down."""
    settings: dict[str, Any] = {"sign_ins_a_minute": _MOST, "proxies": 1}
    with serve(tmp_path_factory.mktemp("slow"), **settings) as server:
        yield Site(server, company_of(server))


def authorize(client: Client, sender: str, **changes: Any) -> httpx.Response:
    """The answer to somebody at that address who has no session."""
    return httpx.get(client.url(**changes), headers={"X-Forwarded-For": f"203.0.113.250, {sender}"})


def statuses(client: Client, sender: str, times: int, **changes: Any) -> list[int]:
    """What so many such requests are answered with."""
    return [authorize(client, sender, **changes).status_code for _ in range(times)]


def test_sign_ins_are_slowed_down(site: Site, browser: Browser) -> None:
    """By application and address, then by address; others, and who is signed in, go on."""
    zone, other = site.zone(), site.zone()
    site.user(zone)
    notes, mail, elsewhere = site.app(zone), site.app(zone, "mail"), site.app(other)

    assert statuses(notes, "198.51.100.1", 3) == [303, 303, 429]
    assert statuses(mail, "198.51.100.1", 3) == [303, 303, 429]
    refused = authorize(site.app(zone, "third"), "198.51.100.1")
    assert_page(refused, 429)
    assert 0 < int(refused.headers["retry-after"]) <= rate_limits.REGISTRATIONS.seconds + 1
    assert statuses(notes, "198.51.100.2", 1) + statuses(elsewhere, "198.51.100.1", 1) == [303, 303]
    assert statuses(notes, "2001:db8:1:2::1", 2) == [303, 303]
    assert statuses(notes, "2001:db8:1:2:3::", 1) + statuses(notes, "2001:db8:1:3::", 1) == [429, 303]

    browser.http.headers["X-Forwarded-For"] = "198.51.100.3"
    notes.sign_in(browser)
    assert all(
        browser.http.get(notes.url()).headers["location"].startswith(notes.redirect_uri)
        for _ in range(_MOST + 1)
    )


def test_requests_that_come_to_nothing_count(site: Site) -> None:
    """Whether a page says so or the application is told; by GET and by POST."""
    client, sender = site.app(site.zone()), "198.51.100.4"
    form = {"client_id": "nobody"}

    assert statuses(client, sender, 2, prompt="none") == [303, 303]
    assert statuses(client, sender, 1, client_id="nobody") == [400]
    posted = [
        httpx.post(
            f"{client.issuer}/oauth/authorize", data=form, headers={"X-Forwarded-For": sender}
        ).status_code
        for _ in range(2)
    ]
    assert posted == [400, 429]
    assert statuses(client, "198.51.100.5", 1) == [303]


@pytest.mark.threat("25i")
def test_who_posts_in_a_clients_name_takes_nothing_of_its_share(site: Site) -> None:
    """A form that names a client is no proof of being it: its sender is slowed down, not the client."""
    client, sender = site.app(site.zone(), "web"), {"X-Forwarded-For": "198.51.100.9"}
    address, _, query = client.url().partition("?")
    form = dict(parse_qsl(query))

    def post() -> httpx.Response:
        return httpx.post(address, data=form, headers=sender)

    first = post()
    assert first.status_code == 303
    assert "request_uri=" in first.headers["location"]
    answers = [post().status_code for _ in range(_MOST * 10)]
    assert (answers[0], answers[-1]) == (303, 429)
    assert push(client, headers=sender).status_code == 201


@pytest.mark.threat("25g")
def test_passwords_are_tried_for_many_accounts(site: Site) -> None:
    """A few tries for each of many accounts are many tries from one address, which waits; others do not."""
    zone = site.zone()

    def tried(address: str, times: int = 1) -> list[bool]:
        return [let_try(site, zone.id, f"user-{n}@acme.example", address) for n in range(times)]

    assert tried("198.51.100.10", _MOST + 1) == [True] * _MOST + [False]
    assert tried("198.51.100.11") == [True]


def let_try(site: Site, zone_id: str, account: str, address: str) -> bool:
    """Whether a password may be tried."""
    try:
        site.run(login_limits.check_password_rate(site.services, zone_id, account, address))
    except TooManyTries:
        return False
    return True


def test_pushed_requests_are_slowed_down(site: Site) -> None:
    """Public clients by address; a client with a secret has more, and has it for itself."""
    zone = site.zone()
    public, back_end = site.app(zone, "spa", public=True), site.app(zone, "web")

    def pushes(client: Client, times: int, sender: str = "198.51.100.6") -> list[httpx.Response]:
        return [push(client, headers={"X-Forwarded-For": sender}) for _ in range(times)]

    answers = pushes(public, 3)
    assert [each.status_code for each in answers] == [201, 201, 429]
    assert answers[-1].json()["error"] == "temporarily_unavailable"
    assert 0 < int(answers[-1].headers["retry-after"]) <= rate_limits.REGISTRATIONS.seconds + 1
    assert pushes(public, 1, "198.51.100.7")[0].status_code == 201
    assert {each.status_code for each in pushes(back_end, _MOST * 10)} == {201}
    assert pushes(back_end, 1, "198.51.100.8")[0].status_code == 429
