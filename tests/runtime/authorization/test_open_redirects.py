"""Open redirects: no address in a link or a form makes the zone redirect the browser elsewhere."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from sanic import Sanic
from tests.support.oauth_site import CALLBACK, PASSWORD, Answer, Browser, Client, Page, Site

STORAGE = ("embedded", "nodes")
BYE = "https://app.example/bye"
NAMES = (
    *("redirect_uri", "return_to", "next", "continue", "url", "uri", "target", "dest", "back", "RelayState"),
    *("post_logout_redirect_uri", "redirect", "redirect_url", "request_uri", "target_link_uri", "error_uri"),
)
EVIL = ("https://evil.example/", "//evil.example/", "/\\evil.example/", "https:evil.example")


def put_in(where: str) -> dict[str, str]:
    return dict.fromkeys(NAMES, where)


@pytest.fixture(scope="module")
def client(site: Site) -> Client:
    """An application that asks its users, and may be answered when they sign out."""
    zone = site.zone()
    site.user(zone)
    addresses = {"redirect_uris": [CALLBACK], "post_logout_redirect_uris": [BYE]}
    return site.app(zone, consent="required", protocols={"oauth2": addresses})


def pages_of(site: Site) -> Iterator[tuple[str, str]]:
    """Method and path of everything that a zone serves, as the router has it."""
    (app,) = [
        each for each in Sanic._app_registry.values() if getattr(each.ctx, "services", None) is site.services
    ]
    for route in app.router.routes:
        if route.path.startswith("z/<name:str>/"):
            for method in sorted(set(route.methods) & {"GET", "POST"}):
                yield method, route.path.removeprefix("z/<name:str>")


def assert_stays(client: Client, response: httpx.Response) -> None:
    """It leads nowhere, or to a page of the zone's own."""
    location = response.headers.get("location", client.issuer)
    assert location.startswith(("/", client.issuer)), location
    assert urlsplit(location).hostname in (None, "127.0.0.1"), location
    assert "\\" not in location
    assert not location.startswith("//")
    assert "refresh" not in response.headers


@pytest.mark.threat("6j")
@pytest.mark.parametrize("evil", EVIL)
def test_no_address_of_the_zone_leads_away(site: Site, client: Client, evil: str) -> None:
    """Every address that a zone serves, asked for with all of them, by nobody and by somebody signed in."""
    served = list(pages_of(site))
    assert {path for _, path in served} >= {
        *("/oauth/authorize", "/oauth/sign-in", "/oauth/consent", "/oauth/callback", "/openid/logout"),
        *("/openid/logout/callback", "/oauth/sign-out", "/oauth/signed-out", "/oauth/sign-up", "/account"),
    }
    someone = Browser()
    client.sign_in(someone)
    for browser in (Browser(), someone):
        for method, path in served:
            address = f"{client.issuer}{path}"
            named = {"client_id": client.app.client_id, "response_type": "code", "state": "s"}
            sent: dict[str, Any] = {"data": named | put_in(evil)} if method == "POST" else {}
            for query in ({}, put_in(evil), named | put_in(evil)):
                if query or sent:
                    assert_stays(client, browser.http.request(method, address, params=query, **sent))


@pytest.mark.threat("6j")
@pytest.mark.parametrize("evil", EVIL)
def test_forms_end_where_the_request_said(site: Site, client: Client, evil: str) -> None:
    """Sign-in, consent, account and sign-out with all of them in the form and in its address."""
    browser, more = Browser(), put_in(evil)

    def send(page: Page | Answer, **values: str) -> Page | Answer:
        assert isinstance(page, Page)
        return browser._follow(
            browser.http.post(
                page.action,
                params={**dict(httpx.URL(page.action).params), **more},
                data={**page.fields, **more, **values},
                headers={"Sec-Fetch-Site": "same-origin"},
            )
        )

    question = send(browser.open(client.url(prompt="consent")), email="ada@acme.example", password=PASSWORD)
    assert isinstance(question, Page), "the question comes from the zone"
    answer = send(question, decision="allow")
    assert isinstance(answer, Answer)
    assert answer.location.startswith(f"{CALLBACK}?")
    assert "evil" not in answer.location

    account = browser.open(f"{client.issuer}/account")
    assert isinstance(account, Page)
    after = send(account, application=client.app.id)
    assert isinstance(after, Page)
    assert str(after.response.url).startswith(client.issuer)

    leaving = {"post_logout_redirect_uri": BYE, "client_id": client.app.client_id}
    left = send(browser.open(str(httpx.URL(f"{client.issuer}/openid/logout", params=leaving))))
    assert left == Answer(BYE)
