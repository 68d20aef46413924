"""Recent and strong sign-ins: `max_age`, `prompt=login` and `acr_values`, alone and through a provider."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from oidc_provider_mock import User as MockUser
from tests.runtime.login.federation import Foreign, as_person, at_provider, federated, running
from tests.support.oauth_site import Answer, Browser, Client, Site, claims

from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE

ADA = {"email": "ada@acme.example", "email_verified": True}


@pytest.fixture(scope="module")
def foreign() -> Iterator[Foreign]:
    """A provider that knows Ada and says of her sign-in what a test wants it to."""
    with running(MockUser(sub="ada", claims=ADA)) as provider:
        yield provider


def says(foreign: Foreign, **said: Any) -> None:
    """What the provider's ID tokens say from now on."""
    assert httpx.put(f"{foreign.issuer}/users/ada", json={**ADA, **said}).status_code == 204


def go(browser: Browser, client: Client, **asked: str) -> tuple[list[dict[str, str]], dict[str, str]]:
    """Sign in, as often as it takes: what the provider was asked, and what the application hears."""
    response, trips = browser.http.get(client.url(**asked)), []
    while "/callback?" not in (location := response.headers["location"]) or location.startswith(
        client.issuer
    ):
        if location.startswith(client.issuer):
            response = browser.http.get(location)
            continue
        trips.append({name: values[0] for name, values in parse_qs(urlsplit(location).query).items()})
        page = browser.http.get(location)
        response = browser.http.get(as_person(browser, page, "ada"))
    return trips, Answer(location).values


def now(site: Site) -> int:
    return int(site.services.clock().timestamp())


@pytest.mark.standard("RFC 9470", "OpenID Connect Core")
class TestAge:
    """`max_age` and `prompt=login`, through a provider."""

    def test_a_provider_that_says_when(self, site: Site, browser: Browser, foreign: Foreign) -> None:
        """Its word goes into the tokens when it is recent enough, and is refused when it is not."""
        client = site.app(federated(site, foreign.issuer))
        recent = now(site) - 20
        says(foreign, auth_time=recent)

        trips, heard = go(browser, client, max_age="600", login_hint="ada")

        (asked,) = trips
        assert (asked["max_age"], asked["login_hint"]) == ("600", "ada")
        tokens = client.redeem(heard["code"]).json()
        assert claims(tokens["id_token"])["auth_time"] == recent
        assert claims(tokens["access_token"])["auth_time"] == recent
        assert go(browser, client, max_age="600")[0] == []  # the session will do

        says(foreign, auth_time=now(site) - 900)
        assert {
            go(Browser(), client, **asking)[1]["error"]
            for asking in ({"max_age": "600", "prompt": "login"}, {"max_age": "5"}, {"prompt": "login"})
        } == {"login_required"}

    def test_a_provider_that_does_not_say(self, site: Site, browser: Browser, foreign: Foreign) -> None:
        """It may have gone by an old session: it is asked again, for a sign-in that happens now."""
        client = site.app(federated(site, foreign.issuer))
        says(foreign, auth_time=None)
        trips, heard = go(browser, client)
        assert len(trips) == 1
        assert "auth_time" not in claims(client.redeem(heard["code"]).json()["id_token"])

        trips, heard = go(browser, client, max_age="600")

        assert [each.get("prompt") for each in trips] == [None, "login"]
        assert {each["max_age"] for each in trips} == {"600"}
        said = claims(client.redeem(heard["code"]).json()["id_token"])["auth_time"]
        assert now(site) - 60 <= said <= now(site)
        assert go(browser, client, max_age="600")[0] == []
        assert len(go(browser, client, prompt="login")[0]) == 1


@pytest.mark.standard("RFC 9470")
class TestStrength:
    """`acr_values`."""

    def test_what_the_provider_reached(self, site: Site, browser: Browser, foreign: Foreign) -> None:
        """One of the values has to come back; a session that has it needs no other sign-in."""
        client = site.app(federated(site, foreign.issuer))
        says(foreign, acr="silver")
        assert "code" in go(browser, client)[1]

        says(foreign, acr="gold")
        trips, heard = go(browser, client, acr_values="platinum gold")
        assert [each["acr_values"] for each in trips] == ["platinum gold"]
        assert claims(client.redeem(heard["code"]).json()["access_token"])["acr"] == "gold"
        assert go(browser, client, acr_values="gold")[0] == []

        _, heard = go(browser, client, acr_values="platinum")
        assert heard["error"] == "unmet_authentication_requirements"
        assert (heard["iss"], heard["state"]) == (client.issuer, client.state)

    def test_a_password_reaches_none(self, site: Site, browser: Browser) -> None:
        """So nobody is asked for it."""
        zone = site.zone()
        site.user(zone)
        client = site.app(zone)
        client.sign_in(browser)

        heard = [who.open(client.url(acr_values="gold")) for who in (browser, Browser())]
        errors = [each.values["error"] for each in heard if isinstance(each, Answer)]
        assert errors == ["unmet_authentication_requirements"] * 2
        assert isinstance(browser.open(client.url()), Answer)

    def test_an_exchange_keeps_what_the_sign_in_reached(
        self, site: Site, browser: Browser, foreign: Foreign
    ) -> None:
        """Not the moment of the exchange, and not what the user proves later for another application."""
        zone = federated(site, foreign.issuer)
        files = site.run(site.company.resource(zone, "https://files.example", scopes=["read"]))
        client = site.app(zone, dependencies=[files])
        first = now(site) - 300
        says(foreign, acr="silver", auth_time=first)
        subject = client.redeem(go(browser, client)[1]["code"]).json()["access_token"]
        says(foreign, acr="gold", auth_time=now(site))
        assert "code" in go(browser, client, acr_values="gold")[1]

        exchanged = client.token(
            grant_type=GRANT_TYPE,
            subject_token=subject,
            subject_token_type=ACCESS_TOKEN,
            resource=files.identifier,
        ).json()

        said = claims(exchanged["access_token"])
        assert (said["auth_time"], said["acr"]) == (first, "silver")


@pytest.mark.threat("21e", "22c", "22d")
def test_nobody_elses_callback_changes_who_is_signed_in(
    site: Site, browser: Browser, foreign: Foreign
) -> None:
    """The attacker's answer from the provider, opened in the browser of a user who is signed in."""
    zone = federated(site, foreign.issuer)
    client = site.app(zone)
    says(foreign)
    tokens = client.redeem(go(browser, client)[1]["code"]).json()
    before = dict(browser.http.cookies)
    attacker = Browser()
    back = as_person(attacker, at_provider(attacker, client), "mallory")

    assert browser.http.get(back).status_code == 400

    assert dict(browser.http.cookies) == before
    assert client.userinfo(tokens["access_token"]).json()["email"] == ADA["email"]
    own = as_person(browser, at_provider(browser, client, prompt="login"), "ada")
    assert isinstance(browser.open(own), Answer)
    assert dict(browser.http.cookies) != before
    assert browser.http.get(own).status_code == 400
