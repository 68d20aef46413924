"""Users store a key for a resource of the vault on the account page, and take it back there."""

from typing import Any

import pytest
from tests.support.oauth_site import PASSWORD, Answer, Browser, Client, Page, Site, assert_page
from tests.support.oauth_site import claims as claims_of

from runtime.domain.kinds import PROVIDER, RESOURCE
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE
from runtime.storage.sql import entities

KEY = "sk-of-ada-7Hq"


class Desk:
    """An agent that asks for consent, a tool server behind it, and a resource of the vault behind both."""

    def __init__(self, site: Site, browser: Browser) -> None:
        self.site, self.browser = site, browser
        self.zone: Zone = site.zone()
        site.user(self.zone)
        vault = site.run(self._vault())
        self.tickets: Resource = self._resource("https://tickets.example", credential_provider_id=vault.id)
        self.server = site.app(self.zone, "Server", dependencies=[self.tickets])
        self.tools = self._resource("https://tools.example", application_id=self.server.app.id)
        self.agent = site.app(self.zone, "Agent", consent="required", dependencies=[self.tools, self.tickets])

    def _resource(self, identifier: str, **body: Any) -> Resource:
        made: Resource = self.site.run(
            self.site.company.resource(self.zone, identifier, scopes=["use"], **body)
        )
        return made

    async def _vault(self) -> Provider:
        async with self.site.services.database.reading() as conn:
            found = await entities.find_by(
                conn, PROVIDER, "type", "service-vault", within={"zone_id": self.zone.id}
            )
        assert isinstance(found, Provider)
        return found

    def sign_in(self, resource: Resource) -> dict[str, Any]:
        """Sign in to the agent for a resource and say yes; the tokens."""
        place = self.browser.open(self.agent.url(resources=[resource.identifier]))
        if isinstance(place, Page) and place.action.endswith("/oauth/consent"):
            place = self.browser.send(place, decision="allow")
        answer = place if isinstance(place, Answer) else self.browser.sign_in(place)
        redeemed = self.agent.redeem(answer.code)
        assert redeemed.status_code == 200, redeemed.text
        tokens: dict[str, Any] = redeemed.json()
        return tokens

    def exchange(self, client: Client, token: str, resource: Resource) -> dict[str, Any]:
        answer: dict[str, Any] = client.token(
            grant_type=GRANT_TYPE,
            subject_token=token,
            subject_token_type=ACCESS_TOKEN,
            resource=resource.identifier,
        ).json()
        return answer

    def page(self) -> Page:
        page = self.browser.open(f"{self.agent.issuer}/account")
        assert isinstance(page, Page)
        assert_page(page.response, 200)
        return page

    def store(self, credential: str = KEY) -> Page:
        page = self.browser.send(self.page(), store=self.tickets.id, credential=credential)
        assert isinstance(page, Page)
        return page


@pytest.fixture
def desk(site: Site, browser: Browser) -> Desk:
    return Desk(site, browser)


def test_a_key_is_stored_on_the_page_and_never_shown_again(desk: Desk) -> None:
    """The page says that there is one, and since when."""
    tokens = desk.sign_in(desk.tickets)
    assert "no key is stored" in desk.page().text

    page = desk.store()

    assert_page(page.response, 200)
    assert "The key is stored." in page.text
    assert "with the key that you have stored" in page.text
    assert KEY not in page.response.text
    assert "no key is stored" not in page.text
    assert desk.exchange(desk.agent, tokens["access_token"], desk.tickets)["access_token"] == KEY


def test_signing_in_for_the_resource_gives_a_token_to_exchange(desk: Desk) -> None:
    """The access token is for the zone: only an exchange hands out what is in the vault."""
    tokens = desk.sign_in(desk.tickets)

    assert claims_of(tokens["access_token"])["aud"] == desk.agent.issuer


def test_a_tool_server_two_hops_away_gets_the_key(desk: Desk) -> None:
    """The page offers what the chain behind the user's application can reach, and the chain uses it."""
    tokens = desk.sign_in(desk.tools)
    assert desk.tickets.identifier in desk.page().text
    first = desk.exchange(desk.agent, tokens["access_token"], desk.tools)
    refused = desk.exchange(desk.server, first["access_token"], desk.tickets)
    assert refused["reason"] == "user_authorization_required"

    desk.store()

    assert desk.exchange(desk.server, first["access_token"], desk.tickets)["access_token"] == KEY


def test_what_no_application_of_the_user_can_reach_is_not_named(desk: Desk) -> None:
    """The page is no list of what the zone has."""
    nobody = desk.site.app(desk.zone, "Portal")
    place = desk.browser.open(nobody.url())
    assert isinstance(desk.browser.sign_in(place), Answer)

    page = desk.page()

    assert desk.tickets.identifier not in page.text
    assert "Your keys" not in page.text


def test_a_key_is_taken_back_on_the_page(desk: Desk) -> None:
    """The very next exchange is refused, and asks for the user."""
    tokens = desk.sign_in(desk.tickets)
    (grant_id,) = _grant_ids(desk.store())

    page = desk.browser.send(desk.page(), grant=grant_id)

    assert isinstance(page, Page)
    assert "no key is stored" in page.text
    answer = desk.exchange(desk.agent, tokens["access_token"], desk.tickets)
    assert (answer["error"], answer["reason"]) == ("access_denied", "user_authorization_required")


def test_a_withdrawn_key_does_not_make_every_sign_in_ask_again(desk: Desk) -> None:
    """The user's consent to the application stands by itself: one answer is enough, until a key is stored."""
    desk.sign_in(desk.tickets)
    (grant_id,) = _grant_ids(desk.store())
    desk.browser.send(desk.page(), grant=grant_id)
    desk.sign_in(desk.tickets)

    again = desk.browser.open(desk.agent.url(resources=[desk.tickets.identifier], prompt="none"))

    assert isinstance(again, Answer)
    assert "error" not in again.values


def test_an_application_that_lost_access_leaves_the_key(desk: Desk) -> None:
    """The consent goes; the key is the user's, and other applications may go on using it."""
    desk.sign_in(desk.tickets)
    desk.store()

    page = desk.browser.send(desk.page(), application=desk.agent.app.id)

    assert isinstance(page, Page)
    assert "with the key that you have stored" in page.text


@pytest.mark.parametrize("credential", ["", "two\nlines"])
def test_what_is_no_key_is_refused_on_a_page(desk: Desk, credential: str) -> None:
    """With the reason, and nothing is stored."""
    desk.sign_in(desk.tickets)

    page = desk.store(credential)

    assert_page(page.response, 400)
    assert "The key" in page.text
    assert "no key is stored" in desk.page().text


@pytest.mark.threat("45j")
def test_a_key_for_the_former_address_is_not_stored(desk: Desk) -> None:
    """The page named another address than the key would be sent to; on the page of today it is stored."""
    desk.sign_in(desk.tickets)
    form, company = desk.page(), desk.site.company
    moved = {"identifier": "https://moved.example"}
    desk.site.run(company.update(RESOURCE, desk.zone.id, desk.tickets.id, **moved))

    told = desk.browser.send(form, store=desk.tickets.id, credential=KEY)

    assert isinstance(told, Page)
    assert_page(told.response, 400)
    assert "no key is stored" in desk.page().text
    assert "The key is stored." in desk.store().text


def test_a_form_of_another_site_stores_nothing(desk: Desk) -> None:
    """Nobody else's page can put a key of theirs in place of the user's."""
    desk.sign_in(desk.tickets)
    response = desk.browser.post(
        desk.page(),
        headers={"Origin": "https://evil.example"},
        store=desk.tickets.id,
        credential="sk-of-mallory",
    )

    assert response.status_code == 403
    assert "no key is stored" in desk.page().text


def _grant_ids(page: Page) -> list[str]:
    """The grants that the page has a button for, and that are of a stored key."""
    buttons = page.response.text.split('name="grant" value="')[1:]
    return [each.partition('"')[0] for each in buttons if "with the key that you have stored" in each]


FORM_REFUSED = "This form was not accepted"


@pytest.mark.parametrize(
    ("credential", "status"), [("clé", 400), ("x" * 2_000_000, 413)], ids=["characters", "size"]
)
def test_a_form_that_is_refused_is_no_broken_link(desk: Desk, credential: str, status: int) -> None:
    """The heading is about the form that was sent; that of a link is about the link."""
    desk.sign_in(desk.tickets)

    refused = desk.browser.send(desk.page(), store=desk.tickets.id, credential=credential)

    assert isinstance(refused, Page)
    assert_page(refused.response, status)
    assert FORM_REFUSED in refused.text
    link = desk.browser.open(f"{desk.agent.issuer}/oauth/connect?link=none")
    assert isinstance(link, Page)
    assert "This link does not work" in link.text


def test_a_consent_form_that_is_refused_is_no_broken_link(desk: Desk) -> None:
    """A page of another flow, with the same heading."""
    question = desk.browser.send(
        desk.browser.open(desk.agent.url(resources=[desk.tickets.identifier])),
        email="ada@acme.example",
        password=PASSWORD,
    )
    assert isinstance(question, Page)

    refused = desk.browser.send(question, decision="perhaps")

    assert isinstance(refused, Page)
    assert_page(refused.response, 400)
    assert FORM_REFUSED in refused.text
