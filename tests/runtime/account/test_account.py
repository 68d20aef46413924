"""The account page: applications, grants and sessions of a user, and how the user ends them."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from sqlalchemy import select
from tests.support.oauth_site import (
    PASSWORD,
    Answer,
    Browser,
    Client,
    Page,
    Site,
    assert_page,
    chained,
)

from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE
from runtime.storage.sql.tables import METADATA

_tables = METADATA.tables


class Desk:
    """A zone with two applications that ask for one resource and one that asks nobody, and Ada's browser."""

    def __init__(self, site: Site, browser: Browser) -> None:
        self.site, self.browser = site, browser
        self.zone: Zone = site.zone()
        site.user(self.zone)
        self.files: Resource = site.run(
            site.company.resource(self.zone, "https://files.example", scopes=["read"])
        )
        asking: dict[str, Any] = {"consent": "required", "dependencies": [self.files]}
        self.agent = site.app(self.zone, "Agent", **asking)
        self.helper = site.app(self.zone, "Helper", **asking)
        self.portal = site.app(self.zone, "Portal", dependencies=[self.files])

    def agree(self, client: Client) -> dict[str, Any]:
        """Sign in and say yes; the tokens."""
        place = self.browser.open(client.url(resources=[self.files.identifier]))
        if isinstance(place, Page) and place.action.endswith("/oauth/consent"):
            place = self.browser.send(place, decision="allow")
        answer = place if isinstance(place, Answer) else self.browser.sign_in(place)
        tokens: dict[str, Any] = client.redeem(answer.code).json()
        return tokens

    def exchanges(self, client: Client, tokens: dict[str, Any]) -> Any:
        """What a further exchange of the access token is answered with: None when it succeeds."""
        answer = client.token(
            grant_type=GRANT_TYPE,
            subject_token=tokens["access_token"],
            subject_token_type=ACCESS_TOKEN,
            resource=self.files.identifier,
        ).json()
        return answer.get("error")

    def page(self, browser: Browser | None = None) -> Page:
        """The account page, signed in."""
        page = (browser or self.browser).open(f"{self.agent.issuer}/account")
        assert isinstance(page, Page)
        return page

    def press(self, **button: str) -> Page:
        """Press a button on the page."""
        page = self.browser.send(self.page(), **button)
        assert isinstance(page, Page)
        assert_page(page.response, 200)
        return page

    def rows(self, table: str, *columns: str) -> list[Any]:
        """What the zone has in a table."""

        async def read() -> list[Any]:
            async with self.site.services.database.reading() as conn:
                found = await conn.execute(
                    select(*(_tables[table].c[name] for name in columns)).where(
                        _tables[table].c.zone_id == self.zone.id
                    )
                )
                return [tuple(row) for row in found]

        return self.site.run(read())


class Agreed(Desk):
    """The desk after Ada has let all three applications in; each of them exchanges its token."""

    def __init__(self, site: Site, browser: Browser) -> None:
        super().__init__(site, browser)
        self.agents = self.agree(self.agent)
        self.helpers = self.agree(self.helper)
        self.portals = self.agree(self.portal)
        assert not [
            (client, tokens)
            for client, tokens in (
                (self.agent, self.agents),
                (self.helper, self.helpers),
                (self.portal, self.portals),
            )
            if self.exchanges(client, tokens) is not None
        ]

    def withdraw(self, *clients: Client) -> Page:
        """Take back what applications have; the page after the last."""
        pages = [self.press(application=client.app.id) for client in clients]
        return pages[-1]


@pytest.fixture(scope="module")
def one_removed(site: Site) -> Iterator[Agreed]:
    """What is left after the agent was removed; the tests look, and change nothing."""
    desk = Agreed(site, Browser())
    desk.withdraw(desk.agent)
    yield desk
    desk.browser.http.close()


@pytest.fixture(scope="module")
def all_removed(site: Site) -> Iterator[Agreed]:
    """What is left after all three were removed."""
    desk = Agreed(site, Browser())
    desk.withdraw(desk.agent, desk.helper, desk.portal)
    yield desk
    desk.browser.http.close()


def test_the_page_lists_each_application_until_it_is_removed(site: Site, browser: Browser) -> None:
    """With scopes and the redirect's host; then the page says who lost access, and offers it no more."""
    agreed = Agreed(site, browser)
    text = agreed.page().text
    assert all(name in text for name in ("Agent", "Helper", "Portal", "read", "app.example"))

    page = agreed.withdraw(agreed.agent)

    assert "no longer has access" in page.text
    assert "access of Agent" not in page.text


def test_an_application_that_was_removed_loses_its_tokens(one_removed: Agreed) -> None:
    """Neither its access token nor its refresh token is good for anything."""
    assert one_removed.exchanges(one_removed.agent, one_removed.agents) == "invalid_grant"
    assert one_removed.agent.refresh(one_removed.agents["refresh_token"]).json()["error"] == "invalid_grant"


def test_an_application_that_was_removed_has_to_ask_again(one_removed: Agreed) -> None:
    """Its consents are gone: the next sign-in comes to the consent page."""
    asked = one_removed.browser.open(one_removed.agent.url())

    assert isinstance(asked, Page)
    assert asked.action.endswith("/oauth/consent")


def test_removing_one_application_leaves_what_another_was_granted(one_removed: Agreed) -> None:
    """The grant that both use stays, and the other goes on."""
    assert one_removed.exchanges(one_removed.helper, one_removed.helpers) is None
    assert len(one_removed.rows("delegated_grants", "id")) == 1


def test_a_grant_ends_with_the_last_application_it_was_for(site: Site, browser: Browser) -> None:
    """No consent and no grant is left; what was never asked for, and never refused, goes on."""
    agreed = Agreed(site, browser)

    agreed.withdraw(agreed.agent, agreed.helper)

    assert agreed.rows("consents", "id") == agreed.rows("delegated_grants", "id") == []
    assert agreed.exchanges(agreed.portal, agreed.portals) is None  # nobody said no to it


def test_an_application_that_asks_nobody_can_be_removed(all_removed: Agreed) -> None:
    """Its token ends as the others do, and the page has nobody left to list."""
    assert all_removed.exchanges(all_removed.portal, all_removed.portals) == "invalid_grant"
    assert "No application acts for you" in all_removed.page().text


def test_each_removal_is_recorded_once(all_removed: Agreed) -> None:
    """One `withdrawal` for each application, in the record of token requests."""
    recorded = all_removed.rows("token_events", "event", "application_id")
    assert {
        recorded.count(("withdrawal", client.app.id))
        for client in (all_removed.agent, all_removed.helper, all_removed.portal)
    } == {1}


def test_a_resource_taken_back_stops_everybody(site: Site, browser: Browser) -> None:
    """Until the user agrees again, whoever asks."""
    desk = Desk(site, browser)
    agents, portals = desk.agree(desk.agent), desk.agree(desk.portal)
    ((grant_id,),) = desk.rows("delegated_grants", "id")

    desk.press(grant=grant_id)

    assert desk.exchanges(desk.agent, agents) == desk.exchanges(desk.portal, portals) == "access_denied"
    assert desk.rows("delegated_grants", "status") == [("revoked",)]
    assert ("withdrawal", "ended", desk.files.id) in desk.rows(
        "token_events", "event", "outcome", "resource_id"
    )
    assert "What may be used" not in desk.page().text
    assert desk.exchanges(desk.portal, desk.agree(desk.portal)) is None


def test_sessions_elsewhere_can_be_ended(site: Site, browser: Browser) -> None:
    """With every token below them; this one goes on."""
    desk = Desk(site, browser)
    desk.browser = other = Browser()
    elsewhere = desk.agree(desk.agent)
    desk.browser = browser
    here = desk.agree(desk.agent)
    page = desk.page()
    assert (page.text.count("This browser"), page.text.count("Another browser")) == (1, 1)
    ended = next(
        id_
        for id_, parent in desk.rows("sessions", "id", "parent_id")
        if parent is None and f'value="{id_}"' in page.response.text
    )

    page = desk.press(session=ended)

    assert "The session has ended" in page.text
    assert "Another browser" not in page.text
    assert desk.exchanges(desk.agent, elsewhere) == "invalid_grant"
    assert desk.exchanges(desk.agent, here) is None
    assert isinstance(other.open(desk.agent.url()), Page)


@pytest.mark.threat("23g")
def test_only_the_users_own_page_changes_anything(site: Site, browser: Browser) -> None:
    """Not a form without its token, with another session's, from another site, sent twice; nor for others."""
    desk = Desk(site, browser)
    tokens = desk.agree(desk.agent)
    sessions = [id_ for (id_,) in desk.rows("sessions", "id")]
    site.user(desk.zone, "mallory@acme.example")
    attacker = Browser()
    attacker.sign_in(attacker.open(desk.agent.url()), "mallory@acme.example")
    theirs, page = desk.page(attacker), desk.page()
    ((grant_id,),) = desk.rows("delegated_grants", "id")
    remove = {"application": desk.agent.app.id}

    for token in ("", "made-up", theirs.fields["form_token"]):
        assert_page(browser.post(page, form_token=token, **remove), 403)
    assert_page(browser.post(page, headers={"Origin": "https://evil.example"}, **remove), 403)
    assert {
        attacker.post(desk.page(attacker), **theft).status_code
        for theft in (remove, {"grant": grant_id}, *({"session": each} for each in sessions))
    } == {303}
    assert desk.exchanges(desk.agent, tokens) is None
    assert len(desk.rows("delegated_grants", "id")) == 1

    assert browser.post(page, **remove).status_code == 303
    assert_page(browser.post(page, **remove), 403)
    assert desk.exchanges(desk.agent, tokens) == "invalid_grant"


def test_who_is_not_signed_in_signs_in_first(site: Site, browser: Browser) -> None:
    """With a password here, or at the zone's provider; who says no there stays outside."""
    zone = site.zone()
    site.user(zone)
    page = browser.open(f"{zone.protocols.oauth2.issuer}/account")
    assert isinstance(page, Page)
    assert f"to see your account at {zone.name}" in page.text
    page = browser.send(page, email="ada@acme.example", password=PASSWORD)
    assert isinstance(page, Page)
    assert "You are signed in as ada@acme.example" in page.text

    chain = chained(site)
    product = str(chain.product.protocols.oauth2.issuer)
    page = browser.open(f"{product}/account")
    assert isinstance(page, Page)
    assert page.action.startswith(str(chain.home.protocols.oauth2.issuer))
    page = browser.send(page, email="ada@acme.example", password=PASSWORD)
    assert isinstance(page, Page)
    assert str(page.response.url) == f"{product}/account"
    assert "You are signed in as ada@acme.example" in page.text

    stranger = Browser()
    away = parse_qs(urlsplit(stranger.http.get(f"{product}/account").headers["location"]).query)
    heard = {"error": "access_denied", "state": away["state"][0], "iss": chain.home.protocols.oauth2.issuer}
    refused = stranger.http.get(f"{product}/oauth/callback", params=heard)
    assert_page(refused, 400)
