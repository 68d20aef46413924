"""Self-registered clients: an error is redirected to their site only with the user's consent."""

from typing import Any

import httpx
import pytest
from tests.support.oauth_site import (
    CALLBACK,
    PASSWORD,
    Answer,
    Browser,
    Client,
    Page,
    Site,
    assert_page,
    chained,
)

from runtime.domain.kinds.zone import Zone

STORAGE = ("embedded", "nodes")
EVIL = "https://evil.test/callback"
# Requests that are wrong, or that cannot be met without the user.
WRONG: tuple[dict[str, Any], ...] = (
    {"prompt": "none"},
    {"scope": "nothing"},
    {"code_challenge": None},
    {"response_type": "token"},
    {"resources": ["https://elsewhere.test"]},
)


@pytest.fixture(scope="module")
def zone(site: Site) -> Zone:
    """A zone with Ada, where clients register themselves."""
    made = site.zone("Acme people")
    site.user(made)
    return made


def registered(site: Site, zone: Zone, *redirect_uris: str, **metadata: Any) -> Client:
    """A client that has just registered itself, answered at the first of these."""
    body = {"client_name": "Notebook agent", "redirect_uris": redirect_uris} | metadata
    answer = httpx.post(f"{zone.protocols.oauth2.issuer}/oauth/register", json=body)
    assert answer.status_code == 201, answer.text
    return site.stranger(zone, answer.json()["client_id"], redirect_uris[0])


def heard(client: Client, response: httpx.Response) -> dict[str, str]:
    """What the client is told by redirect."""
    values = Answer(response.headers["location"]).values
    assert response.headers["location"].startswith(client.redirect_uri)
    assert (values["state"], values["iss"]) == (client.state, client.issuer)
    return values


def assert_asked_first(client: Client, response: httpx.Response) -> None:
    """A page, which names the site and lets people go there."""
    assert_page(response, 400)
    assert "Notebook agent" in response.text
    assert f'href="{client.redirect_uri}?error=' in response.text


@pytest.mark.threat("6g", "6h")
@pytest.mark.standard("RFC 9700")
def test_nobody_is_led_away(site: Site, zone: Zone, browser: Browser) -> None:
    """Neither a wrong request nor signing out leads to a registered site unasked.

    A program on one's own device is told as ever, and so is an application that somebody here manages; and a
    site that asks from a frame, where nobody sees a page of ours, or takes another page for one.
    """
    bye = "https://evil.test/bye"
    client = registered(site, zone, EVIL, post_logout_redirect_uris=[bye])
    tools = registered(site, zone, "http://localhost:8600/callback")
    managed = site.app(zone, "checked")
    for changes in WRONG:
        assert not [
            known for known in (tools, managed) if not heard(known, httpx.get(known.url(**changes)))["error"]
        ]
        for where in ({}, {"Sec-Fetch-Dest": "document"}):
            assert_asked_first(client, httpx.get(client.url(**changes), headers=where))
        assert heard(client, httpx.get(client.url(**changes), headers={"Sec-Fetch-Dest": "iframe"}))["error"]

    leaving = {"client_id": client.app.client_id, "post_logout_redirect_uri": bye}
    logout = f"{client.issuer}/openid/logout"
    tokens = client.sign_in(browser)
    assert {
        httpx.get(logout, params=leaving | hint).headers["location"]
        for hint in ({}, {"id_token_hint": tokens["id_token"]})
    } == {f"{client.issuer}/oauth/signed-out"}
    own = browser.http.get(logout, params=leaving | {"id_token_hint": tokens["id_token"]})
    assert own.headers["location"] == bye


@pytest.mark.threat("6h")
@pytest.mark.standard("OpenID Connect Core")
def test_who_has_agreed_to_it_is_sent_back(site: Site, zone: Zone, browser: Browser) -> None:
    """A user of the client, signed in, where they said yes to it being answered at that host; no one else.

    So a silent check works for whom the client knows: `prompt=none` is answered by redirect, each time.
    """
    client = registered(site, zone, EVIL, "https://other.test/callback")
    client.sign_in(browser)
    stranger = Browser()
    other = site.app(zone, "another")
    other.sign_in(stranger)  # the same user, who has not signed out: what counts is the user, not the browser
    assert "code" in heard(client, browser.http.get(client.url(prompt="none")))

    told = [heard(client, browser.http.get(client.url(**changes))) for changes in WRONG[1:]]
    told.append(heard(client, browser.http.get(client.url(prompt="none", scope="openid profile"))))
    told.append(heard(client, browser.http.get(client.url(prompt="none", max_age="0"))))
    told.append(heard(client, stranger.http.get(client.url(prompt="none", max_age="0"))))
    assert [each["error"] for each in told[-3:]] == ["consent_required", "login_required", "login_required"]
    assert all(each["error"] for each in told)

    site.user(zone, "grace@acme.example")
    graces = Browser()
    graces.sign_in(graces.open(other.url()), "grace@acme.example")
    for changes in WRONG:
        for unknown in (graces, Browser()):
            assert_asked_first(client, unknown.http.get(client.url(**changes)))
    client.redirect_uri = "https://other.test/callback"
    assert_asked_first(client, browser.http.get(client.url(prompt="none")))

    client.redirect_uri = EVIL
    account = browser.open(f"{client.issuer}/account")
    assert isinstance(account, Page)
    agents = f"{site.server.url}/zones/{zone.id}/user-agents"
    listed = httpx.get(agents, headers=site.server.headers, params={"limit": 100}).json()["items"]
    (client_ref,) = [each["id"] for each in listed if each["identifier"] == client.app.client_id]
    browser.send(account, application=client_ref)
    assert_asked_first(client, browser.http.get(client.url(prompt="none")))


@pytest.mark.threat("6i")
def test_a_sign_in_that_comes_to_nothing_leads_nowhere(site: Site, zone: Zone) -> None:
    """Refused after the password, because somebody else was meant; or by the provider, before any page."""
    site.user(zone, "mallory@acme.example")
    client, managed = registered(site, zone, EVIL), site.app(zone, "hinted")
    for asking in (managed, client):
        browser, attacker = Browser(), Browser()
        page = attacker.open(asking.url())
        if isinstance(page, Page):
            page = attacker.sign_in(page, "mallory@acme.example")
        hint = asking.redeem(page.code).json()["id_token"]
        page = browser.open(asking.url(id_token_hint=hint))
        assert isinstance(page, Page)
        place = browser.post(page, email="ada@acme.example", password=PASSWORD)
        if asking is managed:
            assert heard(asking, place)["error"] == "login_required"
        else:
            assert_asked_first(asking, place)
            assert browser.http.cookies  # signed in all the same

    chain = chained(site)
    unmet = {"acr_values": "gold"}
    managed = site.app(chain.product)
    place = Browser().open(managed.url(**unmet))
    assert isinstance(place, Answer)
    assert place.location.startswith(CALLBACK)
    place = Browser().open(registered(site, chain.product, EVIL).url(**unmet))
    assert isinstance(place, Page)
    assert_page(place.response, 400)
