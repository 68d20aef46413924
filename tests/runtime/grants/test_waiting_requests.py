"""Requests that wait while their token could not be told from what was revoked are worked on anew then."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import httpx
import pytest
from tests.support.factories import App
from tests.support.jumping_clock import jumping
from tests.support.oauth_site import Browser, Client, Site, claims
from tests.support.waiting import takes_at_least

from runtime.domain.kinds import APPLICATION_CREDENTIAL
from runtime.services.clock import issued_until
from runtime.services.issuing import issue_time

STORAGE = ("embedded", "servers")

Ask = Callable[[Client], httpx.Response]


@pytest.fixture
def client(site: Site) -> Client:
    zone = site.zone()
    site.user(zone)
    return site.app(zone, "shop")


def rotated(site: Site, client: Client) -> Client:
    """The same client with a new secret; the one that it had was deleted just now."""
    app = client.app

    async def rotate() -> App:
        made = await site.company.credential(client.zone, app.application, client_id=app.client_id)
        await site.company.delete(APPLICATION_CREDENTIAL, client.zone.id, app.credential_id)
        return made

    return replace(client, app=site.run(rotate()))


@contextmanager
def meanwhile(site: Site, happens: Callable[[], Awaitable[None]]) -> Iterator[list[float]]:
    """What happens while a request waits, once; and how long each has waited."""
    waited = list[float]()
    with jumping(site.services) as clock:

        async def wait(seconds: float) -> None:
            if not waited:
                await happens()
            waited.append(seconds)
            clock.jump(seconds)

        issue_time.wait = wait
        yield waited


async def test_a_wait_is_never_too_short() -> None:
    """The event loop's timers are up to a millisecond early: all attempts of a request would be."""
    for seconds in (0.0002, 0.0006, 0.0014, 0.0103):
        await takes_at_least(seconds, issue_time.wait(seconds))


async def nothing() -> None:
    """Nothing happens."""


@pytest.fixture(params=["client_credentials", "refresh_token", "authorization_code"])
def ask(request: pytest.FixtureRequest, client: Client, browser: Browser) -> Ask:
    """A token request of that grant type."""
    if request.param == "client_credentials":
        return lambda by: by.token(grant_type="client_credentials")
    code = browser.sign_in(browser.open(client.url(scope="openid offline_access"))).code
    if request.param == "authorization_code":
        return lambda by: by.redeem(code)
    token = client.redeem(code).json()["refresh_token"]
    return lambda by: by.token(grant_type="refresh_token", refresh_token=token)


def test_whoever_still_has_a_secret_is_answered(site: Site, client: Client, ask: Ask) -> None:
    """With a token that is later than everything that was revoked with the former one."""
    revoked_at = site.services.clock()
    client = rotated(site, client)
    with meanwhile(site, nothing) as waited:
        answer = ask(client)

    assert answer.status_code == 200, answer.text
    assert len(waited) == 1
    assert claims(answer.json()["access_token"])["iat"] > issued_until(revoked_at)


def test_a_secret_that_is_deleted_meanwhile_is_worth_nothing(site: Site, client: Client, ask: Ask) -> None:
    """It was right when the request came; a token that is made now would be later than its revocation."""
    client = rotated(site, client)

    async def delete() -> None:
        await site.company.delete(APPLICATION_CREDENTIAL, client.zone.id, client.app.credential_id)

    with meanwhile(site, delete) as waited:
        answer = ask(client)

    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    assert len(waited) == 1
