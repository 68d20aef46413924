"""The `error_uri` of a refused exchange: whom it works for, how often, and what ends it."""

import asyncio
import re
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from sqlalchemy import select
from tests.runtime.connect.conftest import REQUIRED, Desk, Event, returning
from tests.support.oauth_site import CALLBACK, PASSWORD, Answer, Browser, Page, Site, assert_page, chained

from runtime.domain.errors import BadLink
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import (
    APPLICATION,
    APPLICATION_CREDENTIAL,
    DELEGATED_GRANT,
    RESOURCE,
    SESSION,
    USER,
    ZONE,
    Verb,
)
from runtime.services.authority import connect_links, sealed_links
from runtime.services.authority.connect_links import CONNECT_LINK_SECONDS
from runtime.services.connect import requests
from runtime.services.container import Services
from runtime.services.management.unit_of_work import unit_of_work
from runtime.services.management.zones import applications
from runtime.services.zone_settings import set_zone_setting
from runtime.storage.sql import entities
from runtime.storage.sql.tables import token_events


def test_a_user_who_says_yes_authorizes_the_application(desk: Desk) -> None:
    """The page names the application and what it wants; the same exchange succeeds afterwards."""
    token = desk.sign_in()
    page = desk.page(desk.link(token, desk.documents, scope="read"))
    assert "Allow Research Agent to act for you?" in page.text
    assert "https://documents.example" in page.text
    assert "read" in page.text
    assert "write" not in page.text

    done = desk.allow(page)

    assert isinstance(done, Page)
    assert_page(done.response, 200)
    assert "Research Agent may now use https://documents.example in your name." in done.text
    assert desk.exchange(token, desk.documents, scope="read")["scope"] == "read"


@pytest.mark.threat("45d")
def test_a_link_is_not_for_who_has_the_client_id_later(desk: Desk) -> None:
    """It names the application besides: what one was refused, another one with its client id is not given."""
    link = desk.link(desk.sign_in(), desk.documents)
    assert "Research Agent" in desk.page(link).text
    (text,) = parse_qs(urlsplit(link).query)["link"]

    async def of_a_former_application() -> str:
        services = desk.site.services
        zone = await services.zones.get(desk.zone.id)
        opened = connect_links.open_link(zone, text, services.clock())
        return sealed_links.seal_link(
            zone, "connect_links", opened.model_copy(update={"party_id": new_id(), "id": new_id()})
        )

    page = desk.page(link.replace(text, desk.site.run(of_a_former_application())), status=400)

    assert "Research Agent" not in page.text


def test_all_scopes_of_the_resource_are_asked_for_where_none_is_named(desk: Desk) -> None:
    """An exchange without `scope` means what the resource has."""
    token = desk.sign_in()

    desk.allow(desk.page(desk.link(token, desk.documents)))

    assert desk.exchange(token, desk.documents)["scope"] == "read write"


def test_a_consent_that_is_too_narrow_is_widened_by_the_link(desk: Desk) -> None:
    """The code is that of scopes beyond the consent; the page asks for what the exchange wanted."""
    token = desk.sign_in()
    desk.allow(desk.page(desk.link(token, desk.documents, scope="read")))
    assert desk.exchange(token, desk.documents, scope="read")["scope"] == "read"

    refused = desk.exchange(token, desk.documents, scope="read write")

    assert (refused["error"], refused["reason"]) == ("invalid_scope", REQUIRED)
    page = desk.page(refused["error_uri"])
    assert "write" in page.text
    desk.allow(page)
    assert desk.exchange(token, desk.documents, scope="read write")["scope"] == "read write"


def test_a_narrow_consent_without_a_word_to_the_link_stays_narrow(desk: Desk) -> None:
    """The user says no: what was consented to before still counts, and no more."""
    token = desk.sign_in()
    desk.allow(desk.page(desk.link(token, desk.documents, scope="read")))
    link = desk.exchange(token, desk.documents, scope="write")["error_uri"]

    desk.browser.send(desk.page(link), decision="deny")

    assert desk.exchange(token, desk.documents, scope="write")["error"] == "invalid_scope"
    assert desk.exchange(token, desk.documents)["scope"] == "read"


def test_a_scope_that_no_consent_brings_has_no_link(desk: Desk) -> None:
    """One that the resource does not have; one that a token for that resource itself lacks."""
    token = desk.sign_in()
    desk.allow(desk.page(desk.link(token, desk.documents, scope="read")))
    narrow = desk.exchange(token, desk.documents, scope="read")["access_token"]
    assert "error_uri" in desk.exchange(token, desk.documents, scope="read write")

    unknown = desk.exchange(token, desk.documents, scope="read nothing")
    renewed = desk.exchange(narrow, desk.documents, scope="read write")

    assert {
        (refused["error"], "error_uri" in refused, "reason" in refused) for refused in (unknown, renewed)
    } == {
        (
            "invalid_scope",
            False,
            False,
        )
    }


@pytest.mark.parametrize("scope", ["reed", "read reed"])
def test_nobody_is_asked_for_a_scope_that_the_resource_does_not_have(desk: Desk, scope: str) -> None:
    """Before the first consent as after it: a link for no scope would lead to a token for nothing."""
    token = desk.sign_in()
    assert desk.exchange(token, desk.documents, scope="read")["reason"] == REQUIRED

    refused = desk.exchange(token, desk.documents, scope=scope)

    assert (refused["error"], "error_uri" in refused, "reason" in refused) == ("invalid_scope", False, False)
    desk.allow(desk.page(desk.link(token, desk.documents, scope="read")))
    assert desk.exchange(token, desk.documents, scope="read")["scope"] == "read"


def test_a_user_who_says_no_authorizes_nothing(desk: Desk) -> None:
    """The next exchange is refused as before."""
    token = desk.sign_in()
    page = desk.page(desk.link(token, desk.documents))

    done = desk.browser.send(page, decision="deny")

    assert isinstance(done, Page)
    assert_page(done.response, 400)
    assert "You have not allowed this" in done.text
    assert "You did not let Research Agent use" in done.text
    assert desk.exchange(token, desk.documents)["reason"] == REQUIRED


def test_a_zone_can_choose_the_code_of_first_party_applications(desk: Desk) -> None:
    """`insufficient_authorization` comes with the same link."""
    value = "insufficient_authorization"
    desk.site.run(set_zone_setting(desk.site.services, desk.zone.id, "grant-missing-error", value))
    token = desk.sign_in()

    refused = desk.exchange(token, desk.documents)

    assert refused["error"] == "insufficient_authorization"
    assert isinstance(desk.allow(desk.page(refused["error_uri"])), Page)
    assert "access_token" in desk.exchange(token, desk.documents)


class TestReturning:
    """An application that wants its user back appends `redirect_uri` and `state`."""

    @pytest.mark.threat("6l")
    def test_the_answer_has_state_and_issuer(self, desk: Desk) -> None:
        """And nothing else when the user has said yes; `return_to` and the like lead nowhere."""
        token = desk.sign_in()
        link = returning(desk.link(token, desk.documents), CALLBACK)

        answer = desk.allow(desk.page(f"{link}&return_to=https%3A%2F%2Fevil.example"))

        assert isinstance(answer, Answer)
        assert answer.location.startswith(f"{CALLBACK}?")
        assert answer.values == {"state": "s-1", "iss": desk.issuer}

    def test_a_refusal_has_its_error(self, desk: Desk) -> None:
        """RFC 6749 section 4.1.2.1 and RFC 9207."""
        token = desk.sign_in()
        page = desk.page(returning(desk.link(token, desk.documents), CALLBACK))

        answer = desk.browser.send(page, decision="deny")

        assert isinstance(answer, Answer)
        assert answer.values["error"] == "access_denied"
        assert (answer.values["state"], answer.values["iss"]) == ("s-1", desk.issuer)

    def test_a_refusal_leaves_a_record(self, desk: Desk) -> None:
        """Of the user, the application and the resource; the link's token is not in it."""
        token = desk.sign_in()
        page = desk.page(returning(desk.link(token, desk.documents), CALLBACK))

        desk.browser.send(page, decision="deny")

        async def recorded(services: Services) -> Any:
            await services.decisions.flush()
            of_zone = token_events.c.zone_id == desk.zone.id
            async with services.database.reading() as conn:
                found = await conn.execute(
                    select(token_events).where(of_zone, token_events.c.event == "connect")
                )
                return found.one()

        record = desk.site.server.call(recorded)
        assert (record.outcome, record.reason) == ("refused", "access_denied: the user denied the request")
        assert (record.user_id, record.resource_id) == (desk.ada.id, desk.documents.id)
        assert record.application_id == desk.agent.app.id

    @pytest.mark.threat("6l")
    @pytest.mark.parametrize(
        "redirect_uri",
        [
            "https://evil.example/callback",
            "//evil.example",
            "https://app.example/callback/..",
            "https://app.example/callback?more=1",
            "https://app.example.evil.example/callback",
            "https://app.example@evil.example/callback",
            "javascript:alert(1)",
        ],
    )
    def test_an_address_that_is_not_registered_gets_a_page(self, desk: Desk, redirect_uri: str) -> None:
        """No redirect, and no question; the registered address gets the question."""
        link = desk.link(desk.sign_in(), desk.documents)
        desk.page(returning(link, CALLBACK))

        page = desk.page(returning(link, redirect_uri), status=400)

        assert "Research Agent" not in page.text

    @pytest.mark.threat("6l")
    def test_an_address_put_into_the_form_is_checked_again(self, desk: Desk) -> None:
        """What the page had is not what counts when it is sent."""
        link = desk.link(desk.sign_in(), desk.documents)
        page = desk.page(returning(link, CALLBACK))

        response = desk.browser.post(page, decision="allow", redirect_uri="https://evil.example/")

        assert_page(response, 400)


class TestOtherHands:
    """A link works for the user whose chain it was made for, and for nobody else."""

    @pytest.mark.threat("21a", "45a")
    def test_another_user_is_told_so_and_nothing_else(self, desk: Desk, other_browser: Browser) -> None:
        """The page names neither the application nor its user; the right user's link goes on working."""
        link = desk.link(desk.sign_in(), desk.documents)
        desk.site.user(desk.zone, "eve@acme.example")
        _sign_in(desk, other_browser, "eve@acme.example")

        page = desk.page(link, other_browser, status=403)

        assert "another user" in page.text
        assert not [name for name in ("Research Agent", "documents", "ada@", "Ada") if name in page.text]
        assert isinstance(desk.allow(desk.page(link)), Page)

    @pytest.mark.threat("21a", "45a")
    def test_another_user_cannot_send_the_form(self, desk: Desk, other_browser: Browser) -> None:
        """Not even with the form that the right user was shown."""
        token = desk.sign_in()
        page = desk.page(desk.link(token, desk.documents))
        desk.site.user(desk.zone, "eve@acme.example")
        _sign_in(desk, other_browser, "eve@acme.example")

        response = other_browser.post(page, decision="allow")

        assert_page(response, 403)
        assert desk.exchange(token, desk.documents)["reason"] == REQUIRED

    @pytest.mark.threat("45b")
    def test_a_browser_without_a_session_signs_in_and_comes_back(
        self, desk: Desk, other_browser: Browser
    ) -> None:
        """The page says what for, and not for whom; afterwards it is the question, with the way back."""
        link = returning(desk.link(desk.sign_in(), desk.documents, scope="read"), CALLBACK)
        page = desk.page(link, other_browser)
        assert page.action.endswith("/oauth/sign-in")
        assert "to decide whether Research Agent may act for you" in page.text
        assert "https://documents.example in your name read" in page.text
        assert not [name for name in ("write", "ada@", "Ada", desk.ada.id) if name in page.response.text]

        question = other_browser.send(page, email="ada@acme.example", password=PASSWORD)

        assert isinstance(question, Page)
        assert "Allow Research Agent to act for you?" in question.text
        answer = desk.allow(question, other_browser)
        assert isinstance(answer, Answer)
        assert answer.values["state"] == "s-1"

    @pytest.mark.threat("45b")
    def test_nobody_is_asked_to_sign_in_for_a_link_that_was_used(
        self, desk: Desk, other_browser: Browser
    ) -> None:
        """Nor for one with an address that is not the application's; before it was used they are."""
        link = desk.link(desk.sign_in(), desk.documents)
        assert desk.page(link, other_browser).action.endswith("/oauth/sign-in")

        elsewhere = desk.page(returning(link, "https://evil.example/"), other_browser, status=400)
        desk.browser.send(desk.page(link), decision="deny")
        used = desk.page(link, other_browser, status=400)

        assert [each.text for each in (elsewhere, used) if "Research Agent" in each.text] == []

    @pytest.mark.threat("45b")
    def test_who_registers_is_told_what_for(self, desk: Desk, other_browser: Browser) -> None:
        """The page for new users, and the one after a wrong password, say the same as the sign-in page."""
        openly = {"requires_invitation": False}
        desk.site.run(desk.site.company.run(ZONE, Verb.UPDATE, {}, desk.zone.id, openly))
        page = desk.page(desk.link(desk.sign_in(), desk.documents), other_browser)
        reason = "to decide whether Research Agent may act for you"
        assert reason in page.text

        register = other_browser.open(
            page.action.replace("sign-in", f"sign-up?request={page.fields['request']}")
        )
        wrong = other_browser.send(page, email="ada@acme.example", password="wrong")

        assert isinstance(register, Page)
        assert isinstance(wrong, Page)
        assert reason in register.text
        assert reason in wrong.text

    @pytest.mark.threat("45a")
    def test_the_wrong_user_changes_to_the_right_one(self, desk: Desk, other_browser: Browser) -> None:
        """Signed out by the button, and back at the link, which still works and still returns."""
        link = returning(desk.link(desk.sign_in(), desk.documents), CALLBACK)
        desk.site.user(desk.zone, "eve@acme.example")
        _sign_in(desk, other_browser, "eve@acme.example")
        told = desk.page(link, other_browser, status=403)
        assert "eve@acme.example" in told.text

        page = other_browser.send(told)

        assert isinstance(page, Page)
        assert page.action.endswith("/oauth/sign-in")
        question = other_browser.send(page, email="ada@acme.example", password=PASSWORD)
        assert isinstance(question, Page)
        assert "Signed in as ada@acme.example" in question.text
        answer = desk.allow(question, other_browser)
        assert isinstance(answer, Answer)
        assert answer.values == {"state": "s-1", "iss": desk.issuer}

    @pytest.mark.threat("23a")
    def test_the_button_signs_nobody_out_without_its_token(self, desk: Desk, other_browser: Browser) -> None:
        """Another user's, or none: the session goes on. With its own it ends."""
        link = desk.link(desk.sign_in(), desk.documents)
        desk.site.user(desk.zone, "eve@acme.example")
        _sign_in(desk, other_browser, "eve@acme.example")
        told = desk.page(link, other_browser, status=403)

        assert_page(other_browser.post(told, form_token=""), 403)
        assert_page(desk.browser.post(told), 403)

        assert "eve@acme.example" in desk.page(link, other_browser, status=403).text
        assert other_browser.post(told).status_code == 303
        assert desk.page(link, other_browser).action.endswith("/oauth/sign-in")

    def test_a_user_of_an_identity_provider_is_told_what_for_before_it(
        self, federated: Desk, other_browser: Browser
    ) -> None:
        """The provider's page does not say; behind it is the question, with the way back."""
        link = returning(federated.link(federated.sign_in(), federated.documents), CALLBACK)
        page = federated.page(link, other_browser)
        assert "Research Agent asks to act for you" in page.text
        assert "https://documents.example in your name read write" in page.text
        assert not re.search(r"\bada\b", page.response.text, re.IGNORECASE)

        at_provider = other_browser.open(f"{page.action}?{urlencode(page.fields)}")

        assert isinstance(at_provider, Page)
        question = other_browser.send(at_provider, email="ada@acme.example", password=PASSWORD)
        assert isinstance(question, Page)
        answer = federated.allow(question, other_browser)
        assert isinstance(answer, Answer)
        assert answer.values["state"] == "s-1"

    @pytest.mark.threat("45a")
    def test_the_wrong_user_of_an_identity_provider_is_asked_who_they_are(
        self, federated: Desk, other_browser: Browser
    ) -> None:
        """The provider knows them still, and does not send them back as the same user."""
        link = federated.link(federated.sign_in(), federated.documents)
        at_provider = other_browser.open(federated.agent.url())
        assert isinstance(at_provider, Page)
        other_browser.sign_in(at_provider, email="eve@acme.example")
        told = federated.page(link, other_browser, status=403)
        assert "eve@acme.example" in told.text

        again = other_browser.send(told)

        assert isinstance(again, Page)
        assert again.action.endswith("/oauth/sign-in")
        question = other_browser.send(again, email="ada@acme.example", password=PASSWORD)
        assert isinstance(question, Page)
        assert "Signed in as ada@acme.example" in question.text

    @pytest.mark.threat("21a", "45b")
    def test_a_browser_in_which_somebody_else_signs_in_gets_nowhere(
        self, desk: Desk, other_browser: Browser
    ) -> None:
        """A link that was sent to somebody is no use to them."""
        token = desk.sign_in()
        desk.site.user(desk.zone, "eve@acme.example")
        page = desk.page(desk.link(token, desk.documents), other_browser)

        told = other_browser.send(page, email="eve@acme.example", password=PASSWORD)

        assert isinstance(told, Page)
        assert_page(told.response, 403)
        assert "Research Agent" not in told.text

    @pytest.mark.threat("45b")
    def test_a_form_does_not_work_in_another_browser_of_the_same_user(
        self, desk: Desk, other_browser: Browser
    ) -> None:
        """Its token is for the session that was asked."""
        page = desk.page(desk.link(desk.sign_in(), desk.documents))
        _sign_in(desk, other_browser)

        assert_page(other_browser.post(page, decision="allow"), 403)
        assert isinstance(desk.allow(page), Page)


class TestUse:
    """A decision counts once, and a link is worth something for minutes."""

    @pytest.mark.threat("45c")
    @pytest.mark.parametrize("decision", ["allow", "deny"])
    def test_a_used_link_is_not_asked_again(self, desk: Desk, decision: str) -> None:
        """Neither opened nor sent, also when nothing was authorized."""
        token = desk.sign_in()
        link = desk.link(token, desk.documents)
        desk.browser.send(desk.page(link), decision=decision)

        assert "used already" in desk.page(link, status=400).text

    @pytest.mark.threat("45c")
    def test_two_forms_of_one_link_count_once(self, desk: Desk) -> None:
        """Who says no on one page cannot say yes on another that was open beside it."""
        token = desk.sign_in()
        link = desk.link(token, desk.documents)
        first, second = desk.page(link), desk.page(link)
        desk.browser.send(first, decision="deny")

        assert_page(desk.browser.post(second, decision="allow"), 400)
        assert desk.exchange(token, desk.documents)["reason"] == REQUIRED

    def test_each_refusal_has_a_link_of_its_own(self, desk: Desk) -> None:
        """Using one leaves the other as it is; nothing is stored for either before."""
        token = desk.sign_in()
        first, second = desk.link(token, desk.documents), desk.link(token, desk.documents)
        assert first != second
        desk.browser.send(desk.page(first), decision="deny")

        assert isinstance(desk.allow(desk.page(second)), Page)
        assert "access_token" in desk.exchange(token, desk.documents)

    def test_what_is_authorized_meanwhile_is_not_asked_for(self, desk: Desk) -> None:
        """A second link says that there is nothing left to do."""
        token = desk.sign_in()
        first, second = desk.link(token, desk.documents), desk.link(token, desk.documents)
        desk.allow(desk.page(first))

        assert "may now use" in desk.page(second).text

    @pytest.mark.parametrize("part", ["link=x", "link=", "link=%00", "link=" + "A" * 3000])
    def test_what_is_no_link_gets_a_page(self, desk: Desk, part: str) -> None:
        """Whoever makes one up is asked nothing; without a link the page explains what to do."""
        desk.sign_in()
        status = 200 if part == "link=" else 400

        desk.page(f"{desk.issuer}/oauth/connect?{part}", status=status)

    def test_a_link_of_another_zone_gets_a_page(self, desk: Desk) -> None:
        """It is sealed under its own zone's key."""
        link = desk.link(desk.sign_in(), desk.documents)
        other = desk.site.zone("Elsewhere")

        desk.page(f"{other.protocols.oauth2.issuer}/oauth/connect?{urlsplit(link).query}", status=400)

    def test_a_link_expires(self, desk: Desk) -> None:
        """It is worth something a second before its end, and nothing then."""
        text = parse_qs(urlsplit(desk.link(desk.sign_in(), desk.documents)).query)["link"][0]
        zone = desk.site.run(desk.site.services.zones.get(desk.zone.id))
        opened = connect_links.open_link(zone, text, desk.site.services.clock())
        end = opened.issued_at + timedelta(seconds=CONNECT_LINK_SECONDS)
        assert connect_links.open_link(zone, text, end - timedelta(seconds=1)) == opened

        with pytest.raises(BadLink):
            connect_links.open_link(zone, text, end)


class TestForms:
    """The page holds to what the consent page does."""

    @pytest.mark.threat("23a")
    @pytest.mark.parametrize("token", ["", "x", "1.x.y"])
    def test_a_form_without_its_token_is_refused(self, desk: Desk, token: str) -> None:
        """Nothing is authorized, and the link is not used."""
        link = desk.link(desk.sign_in(), desk.documents)

        assert_page(desk.browser.post(desk.page(link), decision="allow", form_token=token), 403)
        assert isinstance(desk.allow(desk.page(link)), Page)

    @pytest.mark.threat("23a")
    def test_a_token_of_another_links_form_is_refused(self, desk: Desk) -> None:
        """Each is for one link."""
        token = desk.sign_in()
        first, second = desk.link(token, desk.documents), desk.link(token, desk.tickets)
        of_second = desk.page(second).fields["form_token"]

        assert_page(desk.browser.post(desk.page(first), decision="allow", form_token=of_second), 403)

    @pytest.mark.threat("23b")
    def test_a_form_of_another_site_is_refused(self, desk: Desk) -> None:
        """By its `Origin`; the same form of the page itself counts."""
        page = desk.page(desk.link(desk.sign_in(), desk.documents))
        evil = {"Origin": "https://evil.example"}

        assert_page(desk.browser.post(page, headers=evil, decision="allow"), 403)
        assert isinstance(desk.allow(page), Page)

    def test_a_decision_is_yes_or_no(self, desk: Desk) -> None:
        """Anything else is refused, and the link is not used."""
        link = desk.link(desk.sign_in(), desk.documents)

        assert_page(desk.browser.post(desk.page(link), decision="maybe"), 400)
        assert isinstance(desk.allow(desk.page(link)), Page)


class TestKeys:
    """A resource of the vault takes a key of the user's own."""

    def test_the_key_is_asked_for_on_the_page(self, desk: Desk) -> None:
        """It is stored, and the application may use it."""
        token = desk.sign_in()
        page = desk.page(desk.link(token, desk.tickets))
        assert "Your key for https://tickets.example" in page.text

        done = desk.allow(page, credential="sk-of-ada")

        assert isinstance(done, Page)
        assert "may now use" in done.text
        assert desk.exchange(token, desk.tickets)["access_token"] == "sk-of-ada"

    def test_an_empty_key_is_refused_and_the_link_is_not_used(self, desk: Desk) -> None:
        """The page says what is wrong; the user goes back and pastes it."""
        token = desk.sign_in()
        link = desk.link(token, desk.tickets)

        told = desk.allow(desk.page(link), credential=" ")

        assert isinstance(told, Page)
        assert_page(told.response, 400)
        assert isinstance(desk.allow(desk.page(link), credential="sk-of-ada"), Page)

    def test_a_key_that_is_stored_needs_consent_alone(self, desk: Desk) -> None:
        """Nobody pastes a key again for a second application."""
        token = desk.sign_in()
        desk.allow(desk.page(desk.link(token, desk.tickets)), credential="sk-of-ada")
        other = desk.site.app(desk.zone, "Other", consent="required", dependencies=[desk.tickets])
        other_token = desk.sign_in(other)

        page = desk.page(desk.link(other_token, desk.tickets, other))

        assert "Your key" not in page.text
        desk.allow(page)
        assert desk.exchange(other_token, desk.tickets, other)["access_token"] == "sk-of-ada"


@pytest.fixture
def federated(site: Site, browser: Browser) -> Desk:
    """A desk in a zone whose users sign in at another one, where Ada and Eve are."""
    chain = chained(site)
    site.user(chain.home, "eve@acme.example")
    company, zone = site.company, chain.product
    documents = site.run(company.resource(zone, "https://documents.example", scopes=["read", "write"]))
    agent = site.app(zone, "Research Agent", consent="required", dependencies=[documents])
    return Desk(site, browser, zone, site.user(chain.home, "bob@acme.example"), documents, documents, agent)


def _sign_in(desk: Desk, browser: Browser, email: str = "ada@acme.example") -> None:
    """Somebody signs in to a portal of the zone, in a browser."""
    portal = desk.site.app(desk.zone, f"Portal {email[:3]}")
    browser.sign_in(browser.open(portal.url()), email=email)


def _sign_out(desk: Desk) -> None:
    page = desk.browser.open(f"{desk.issuer}/oauth/sign-out")
    assert isinstance(page, Page)
    desk.browser.send(page)


def _remove_access(desk: Desk) -> None:
    page = desk.browser.open(f"{desk.issuer}/account")
    assert isinstance(page, Page)
    desk.browser.send(page, application=desk.agent.app.id)


def _end_agents_session(desk: Desk) -> None:
    async def find() -> str:
        async with desk.site.services.database.reading() as conn:
            found = await entities.find_by(
                conn, SESSION, "application_id", desk.agent.app.id, within={"zone_id": desk.zone.id}
            )
        assert found is not None
        return found.id

    desk.update(SESSION, desk.site.run(find()), status="revoked")


async def _remove_dependency(desk: Desk) -> None:
    company = desk.site.company
    async with unit_of_work(company.services, company.caller, new_id()) as unit:
        parents = {"zone_id": desk.zone.id}
        await applications.remove_dependency(unit, parents, desk.agent.app.id, desk.tickets.id)


ENDS: dict[str, Event] = {
    "user signs out": _sign_out,
    "session of the chain revoked": _end_agents_session,
    "user disabled": lambda desk: desk.update(USER, desk.ada.id, status="disabled"),
    "application lost access": _remove_access,
    "application deleted": lambda desk: desk.delete(APPLICATION, desk.agent.app.id),
    "credential deleted": lambda desk: desk.delete(APPLICATION_CREDENTIAL, desk.agent.app.credential_id),
    "dependency removed": lambda desk: desk.site.run(_remove_dependency(desk)),
    "resource deleted": lambda desk: desk.delete(RESOURCE, desk.tickets.id),
}


@pytest.mark.threat("45d")
@pytest.mark.parametrize("event", ENDS)
def test_what_a_link_rests_on_ends_it(desk: Desk, event: str) -> None:
    """The question is there before, and afterwards neither the link nor the form that is open is any use."""
    token = desk.sign_in()
    link = desk.link(token, desk.tickets)
    form = desk.page(link)

    ENDS[event](desk)

    response = desk.browser.post(form, decision="allow", credential="sk-of-ada")
    assert not _authorizes(response)
    again = desk.browser.open(link)
    if isinstance(again, Page) and again.action.endswith("/oauth/sign-in"):
        again = desk.browser.send(again, email="ada@acme.example", password=PASSWORD)
    assert isinstance(again, Page)
    assert "Allow Research Agent" not in again.text


@pytest.mark.threat("45d")
@pytest.mark.parametrize("event", [None, *(each for each in ENDS if each != "user signs out")])
def test_nothing_is_stored_when_that_ends_while_the_user_says_yes(
    desk: Desk, event: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the checks and the transaction; without an event the form stores the key and the consent."""
    form = desk.page(desk.link(desk.sign_in(), desk.tickets))
    use = requests.use

    async def use_and_end(*arguments: Any) -> None:
        await use(*arguments)
        if event is not None:
            await asyncio.to_thread(ENDS[event], desk)

    monkeypatch.setattr(requests, "use", use_and_end)

    response = desk.browser.post(form, decision="allow", credential="sk-of-ada")

    assert _authorizes(response) == (event is None)
    assert len(desk.rows("vault_tokens")) == (event is None)
    assert {
        len([row for row in desk.rows(table) if row["resource_id"] == desk.tickets.id])
        for table in ("delegated_grants", "consents")
    } == {event is None}


def _authorizes(response: Any) -> bool:
    return response.status_code == 200 and "may now use" in response.text


def test_a_chain_without_a_user_gets_no_link(desk: Desk) -> None:
    """There is nobody who could authorize it: the address explains, and names the application alone."""
    robot = desk.site.app(desk.zone, "Robot", dependencies=[desk.tickets])
    own = robot.token(grant_type="client_credentials", resource=desk.tickets.identifier).json()

    assert "link=" not in own.get("error_uri", "")


def test_a_client_that_registered_itself_has_a_link_of_its_own(desk: Desk) -> None:
    """Its refused refresh has it; the page says that nobody has verified it, and consent is for it alone."""
    redirect_uri = "https://notes.example/callback"
    grants = ["authorization_code", "refresh_token"]
    body = {"client_name": "Notes", "redirect_uris": [redirect_uri], "grant_types": grants}
    registered = httpx.post(f"{desk.issuer}/oauth/register", json=body).json()
    client = desk.site.stranger(desk.zone, registered["client_id"], redirect_uri)
    url = client.url(resources=[desk.documents.identifier], scope="openid offline_access read")
    tokens = client.redeem(desk.browser.sign_in(desk.browser.open(url)).code).json()
    desk.update(DELEGATED_GRANT, desk.site.run(_grant_of(desk)), status="revoked")

    refused = client.refresh(tokens["refresh_token"]).json()

    assert (refused["error"], refused["reason"]) == ("access_denied", REQUIRED)
    page = desk.page(returning(refused["error_uri"], redirect_uri))
    assert "Allow Notes to act for you?" in page.text
    assert "This application registered itself" in page.text
    answer = desk.allow(page)
    assert isinstance(answer, Answer)
    assert answer.values == {"state": "s-1", "iss": desk.issuer}
    assert "access_token" in client.refresh(tokens["refresh_token"]).json()
    assert desk.exchange(desk.sign_in(), desk.documents)["reason"] == REQUIRED


async def _grant_of(desk: Desk) -> str:
    """The id of the grant for the documents."""
    async with desk.site.services.database.reading() as conn:
        within = {"zone_id": desk.zone.id}
        found = await entities.find_by(conn, DELEGATED_GRANT, "resource_id", desk.documents.id, within=within)
    assert found is not None
    return found.id
