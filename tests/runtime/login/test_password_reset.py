"""Password reset by mail: who gets a link, what it is worth, and what ends when it is used."""

import re
from typing import Any

import httpx
import pytest
from tests.support.mail import in_folder
from tests.support.oauth_site import PASSWORD, Answer, Browser, Client, Page, Site, assert_page, chained

from runtime.api.oauth import login_pages
from runtime.domain.kinds import USER
from runtime.domain.kinds.zone import Zone
from runtime.services import rate_limits
from runtime.services.authority import password_reset_links
from runtime.services.login import password_reset

STORAGE = ("embedded", "servers")
NEW = "another horse, another battery"
ADA = "ada@acme.example"


@pytest.fixture
def zone(site: Site) -> Zone:
    """A zone with Ada in it."""
    made = site.zone()
    site.user(made)
    return made


def forgot(zone: Zone) -> str:
    return f"{zone.protocols.oauth2.issuer}/oauth/forgot-password"


def request_link(browser: Browser, zone: Zone, email: str = ADA) -> Page:
    page = browser.open(forgot(zone))
    assert isinstance(page, Page)
    sent = browser.send(page, email=email)
    assert isinstance(sent, Page)
    return sent


def mails_to(site: Site, email: str) -> list[str]:
    """The texts of all mails to that address, once everything that waits has been sent."""
    site.run(site.services.outbox.deliver_due())
    folder = in_folder(site.server.settings.mail_folder)
    return [message.get_content() for message in folder if message["To"] == email]


def link_to(site: Site, zone: Zone, email: str = ADA, *, besides: str = "") -> str:
    """The link that was sent to that address by the zone, where it is not that one."""
    begins = re.escape(f"{zone.protocols.oauth2.issuer}/oauth/reset-password?link=")
    [link] = {
        found[0]
        for text in mails_to(site, email)
        for found in re.finditer(rf"{begins}\S+", text)
        if found[0] != besides
    }
    return link


def open_link(browser: Browser, link: str) -> Page:
    page = browser.open(link)
    assert isinstance(page, Page)
    return page


def reset(browser: Browser, link: str, password: str = NEW) -> Page:
    done = browser.send(open_link(browser, link), password=password)
    assert isinstance(done, Page)
    return done


def sign_in(client: Client, password: str) -> Page | Answer:
    browser = Browser()
    page = browser.open(client.url())
    assert isinstance(page, Page)
    return browser.send(page, email=ADA, password=password)


class TestRequestingALink:
    """The page behind "Forgot your password?"."""

    def test_the_sign_in_page_leads_there(self, site: Site, browser: Browser, zone: Zone) -> None:
        page = browser.open(site.app(zone).url())
        assert isinstance(page, Page)

        assert 'href="/z/' in page.response.text
        assert "/oauth/forgot-password" in page.response.text

    def test_every_field_has_a_label(self, browser: Browser, zone: Zone) -> None:
        page = browser.open(forgot(zone))

        assert isinstance(page, Page)
        assert_page(page.response, 200)
        assert page.unlabelled == set()

    def test_the_answer_does_not_say_whether_there_is_an_account(
        self, site: Site, browser: Browser, zone: Zone
    ) -> None:
        """The same page for an address that has an account and for one that has none."""
        known, unknown = request_link(browser, zone), request_link(browser, zone, "eve@acme.example")

        assert known.text.replace(ADA, "") == unknown.text.replace("eve@acme.example", "")

    def test_an_address_without_an_account_gets_no_mail(
        self, site: Site, browser: Browser, zone: Zone
    ) -> None:
        request_link(browser, zone, "nobody@acme.example")
        request_link(browser, zone)

        assert link_to(site, zone)
        assert mails_to(site, "nobody@acme.example") == []

    def test_a_disabled_user_gets_no_mail(self, site: Site, browser: Browser, zone: Zone) -> None:
        user = site.user(zone, "dis@acme.example")
        site.run(site.company.update(USER, zone.id, user.id, status="disabled"))

        request_link(browser, zone, "dis@acme.example")

        assert mails_to(site, "dis@acme.example") == []

    def test_what_is_no_address_is_said_on_the_page(self, browser: Browser, zone: Zone) -> None:
        page = request_link(browser, zone, "ada")

        assert page.response.status_code == 400
        assert "E-mail address is not an e-mail address." in page.text

    @pytest.mark.usefixtures("one_window")
    def test_links_to_one_address_are_limited(self, browser: Browser, zone: Zone) -> None:
        """Also for an address without an account: else the limit would tell."""
        allowed = range(rate_limits.PASSWORD_RESETS_TO_ADDRESS.amount)  # type: ignore[arg-type]
        answers = [request_link(browser, zone, "eve@acme.example").response for _ in allowed]
        assert {each.status_code for each in answers} == {200}

        assert request_link(browser, zone, "EVE@acme.example").response.status_code == 429
        assert request_link(browser, zone).response.status_code == 200

    def test_a_form_from_another_site_sends_nothing(self, browser: Browser, zone: Zone) -> None:
        page = browser.open(forgot(zone))
        assert isinstance(page, Page)

        foreign = browser.post(page, email=ADA, headers={"Origin": "https://evil.example"})

        assert_page(foreign, 403)
        assert browser.post(page, email=ADA).status_code == 200

    def test_a_zone_with_an_identity_provider_has_no_such_page(self, site: Site, browser: Browser) -> None:
        chain = chained(site)

        assert_page(httpx.get(forgot(chain.product)), 403)


class TestTheLink:
    """What it is worth, and for how long."""

    def test_it_replaces_the_password(self, site: Site, browser: Browser, zone: Zone) -> None:
        client = site.app(zone)
        request_link(browser, zone)

        done = reset(browser, link_to(site, zone))

        assert "Your password is changed" in done.text
        assert isinstance(answer := sign_in(client, NEW), Answer), answer.text
        assert isinstance(sign_in(client, PASSWORD), Page)

    def test_it_works_once(self, site: Site, browser: Browser, zone: Zone) -> None:
        request_link(browser, zone)
        link = link_to(site, zone)
        reset(browser, link)

        again = open_link(browser, link)

        assert_page(again.response, 400)
        assert "used already" in again.text

    def test_another_link_ends_with_the_first_that_is_used(
        self, site: Site, browser: Browser, zone: Zone
    ) -> None:
        request_link(browser, zone)
        first = link_to(site, zone)
        request_link(browser, zone)
        second = link_to(site, zone, besides=first)

        reset(browser, first)

        assert_page(open_link(browser, second).response, 400)

    def test_looking_at_it_uses_nothing_up(self, site: Site, browser: Browser, zone: Zone) -> None:
        """Programs that scan mails open the links in them."""
        request_link(browser, zone)
        link = link_to(site, zone)
        for _ in range(3):
            httpx.get(link)

        assert "Your password is changed" in reset(browser, link).text

    def test_it_ends_after_half_an_hour(
        self, site: Site, browser: Browser, zone: Zone, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(password_reset_links, "LINK_MINUTES", -1)
        request_link(browser, zone)
        over = link_to(site, zone)
        monkeypatch.undo()
        request_link(browser, zone)
        good = link_to(site, zone, besides=over)

        assert_page(open_link(browser, over).response, 400)
        assert_page(open_link(browser, good).response, 200)

    def test_it_is_void_in_another_zone(self, site: Site, browser: Browser, zone: Zone) -> None:
        other = site.zone("Other")
        site.user(other)
        request_link(browser, zone)
        link = link_to(site, zone)
        elsewhere = link.replace(zone.protocols.oauth2.issuer, other.protocols.oauth2.issuer)
        assert elsewhere != link

        assert_page(open_link(browser, elsewhere).response, 400)
        assert_page(open_link(browser, link).response, 200)

    def test_it_is_void_for_a_user_who_was_disabled(self, site: Site, browser: Browser, zone: Zone) -> None:
        user = site.user(zone, "fay@acme.example")
        request_link(browser, zone, "fay@acme.example")
        link = link_to(site, zone, "fay@acme.example")
        assert_page(open_link(browser, link).response, 200)

        site.run(site.company.update(USER, zone.id, user.id, status="disabled"))

        assert_page(open_link(browser, link).response, 400)

    def test_it_is_void_once_the_address_has_changed(self, site: Site, browser: Browser, zone: Zone) -> None:
        """Whoever reads the old mailbox is not the user any more."""
        user = site.user(zone, "gil@acme.example")
        request_link(browser, zone, "gil@acme.example")
        link = link_to(site, zone, "gil@acme.example")
        assert_page(open_link(browser, link).response, 200)

        site.run(site.company.update(USER, zone.id, user.id, email="gil@other.example"))

        assert_page(open_link(browser, link).response, 400)

    @pytest.mark.parametrize("link", ["", "x", "A" * 400, "ä"])
    def test_what_is_no_link_is_an_error_page(self, zone: Zone, link: str) -> None:
        address = f"{zone.protocols.oauth2.issuer}/oauth/reset-password"

        assert_page(httpx.get(address, params={"link": link}), 400)

    def test_a_short_password_is_refused_and_the_link_stays(
        self, site: Site, browser: Browser, zone: Zone
    ) -> None:
        request_link(browser, zone)
        page = open_link(browser, link_to(site, zone))

        refused = browser.send(page, password="short")

        assert isinstance(refused, Page)
        assert refused.response.status_code == 400
        assert "Password has fewer than 12 characters." in refused.text
        assert "Your password is changed" in browser.send(refused, password=NEW).text  # type: ignore[union-attr]


class TestWhatEnds:
    """A password that is replaced takes with it what it had let in."""

    def test_sessions_in_other_browsers(self, site: Site, zone: Zone) -> None:
        client, elsewhere = site.app(zone), Browser()
        assert isinstance(elsewhere.sign_in(elsewhere.open(client.url())), Answer)
        assert isinstance(elsewhere.open(client.url(prompt="none")), Answer)
        request_link(Browser(), zone)

        reset(Browser(), link_to(site, zone))

        answer = elsewhere.open(client.url(prompt="none"))
        assert isinstance(answer, Answer)
        assert answer.values["error"] == "login_required"

    def test_refresh_tokens(self, site: Site, zone: Zone) -> None:
        client = site.app(zone)
        tokens = client.sign_in(scope="openid offline_access")
        tokens = client.refresh(tokens["refresh_token"]).json()
        request_link(Browser(), zone)

        reset(Browser(), link_to(site, zone))

        assert client.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"

    def test_a_sign_in_with_the_old_password_that_is_under_way(
        self, site: Site, zone: Zone, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It was compared before, and its session would begin afterwards."""
        client = site.app(zone)
        request_link(Browser(), zone)
        link = link_to(site, zone)
        authenticate = login_pages.local.authenticate

        async def slow(services: Any, at: Any, *arguments: Any, **more: Any) -> Any:
            found = await authenticate(services, at, *arguments, **more)
            await password_reset.reset(services, at, link.partition("link=")[2], NEW, address="127.0.0.1")
            return found

        with monkeypatch.context() as patched:
            patched.setattr(login_pages.local, "authenticate", slow)
            refused = sign_in(client, PASSWORD)

        assert isinstance(refused, Page)
        assert "has just been changed" in refused.text
        assert isinstance(sign_in(client, NEW), Answer)

    def test_the_user_is_told_by_mail(self, site: Site, zone: Zone) -> None:
        site.user(zone, "hal@acme.example")
        request_link(Browser(), zone, "hal@acme.example")
        reset(Browser(), link_to(site, zone, "hal@acme.example"))

        assert any("was changed on" in text for text in mails_to(site, "hal@acme.example"))


class TestOnTheAccountPage:
    """Changing it with the present one."""

    @pytest.fixture
    def account(self, browser: Browser, zone: Zone) -> Page:
        page = browser.open(f"{zone.protocols.oauth2.issuer}/account")
        assert isinstance(page, Page)
        shown = browser.send(page, email=ADA, password=PASSWORD)
        assert isinstance(shown, Page)
        return shown

    @staticmethod
    def change(browser: Browser, page: Page, current: str, new: str) -> Page:
        done = browser.send(page, change="password", current_password=current, password=new)
        assert isinstance(done, Page)
        return done

    def test_with_the_present_password(self, site: Site, browser: Browser, zone: Zone, account: Page) -> None:
        done = self.change(browser, account, PASSWORD, NEW)

        assert "Your password is changed." in done.text
        assert isinstance(sign_in(site.app(zone), NEW), Answer)

    def test_this_browser_stays_signed_in_and_others_do_not(
        self, site: Site, browser: Browser, zone: Zone, account: Page
    ) -> None:
        client, elsewhere = site.app(zone), Browser()
        assert isinstance(elsewhere.sign_in(elsewhere.open(client.url())), Answer)

        self.change(browser, account, PASSWORD, NEW)

        here = browser.open(client.url(prompt="none"))
        there = elsewhere.open(client.url(prompt="none"))
        assert isinstance(here, Answer)
        assert isinstance(there, Answer)
        assert "code" in here.values
        assert there.values["error"] == "login_required"

    def test_applications_signed_in_to_with_this_browser_stay(
        self, browser: Browser, site: Site, zone: Zone, account: Page
    ) -> None:
        client = site.app(zone)
        answer = browser.open(client.url())
        assert isinstance(answer, Answer)
        tokens = client.redeem(answer.code).json()

        self.change(browser, account, PASSWORD, NEW)

        assert client.userinfo(tokens["access_token"]).status_code == 200

    def test_access_that_outlives_browsers_ends(
        self, browser: Browser, site: Site, zone: Zone, account: Page
    ) -> None:
        """Nobody knows from which browser it was given."""
        client = site.app(zone)
        tokens = client.sign_in(scope="openid offline_access")
        tokens = client.refresh(tokens["refresh_token"]).json()

        self.change(browser, account, PASSWORD, NEW)

        assert client.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"

    def test_a_wrong_present_password_changes_nothing(
        self, site: Site, browser: Browser, zone: Zone, account: Page
    ) -> None:
        refused = self.change(browser, account, "not the password", NEW)

        assert refused.response.status_code == 400
        assert "Wrong current password." in refused.text
        assert isinstance(sign_in(site.app(zone), PASSWORD), Answer)

    @pytest.mark.usefixtures("one_window")
    def test_guesses_at_it_are_limited_like_sign_ins(self, browser: Browser, account: Page) -> None:
        """A borrowed browser is no way to guess faster."""
        page = account
        for _ in range(rate_limits.FREE_PASSWORD_TRIES + 1):
            page = self.change(browser, page, "not the password", NEW)
        assert page.response.status_code == 400

        assert self.change(browser, page, PASSWORD, NEW).response.status_code == 429

    def test_a_short_one_is_refused(self, browser: Browser, account: Page) -> None:
        refused = self.change(browser, account, PASSWORD, "short")

        assert refused.response.status_code == 400
        assert "Password has fewer than 12 characters." in refused.text

    def test_a_user_of_a_provider_has_no_such_form(self, site: Site) -> None:
        chain, browser = chained(site), Browser()
        sign_in_page = browser.open(f"{chain.product.protocols.oauth2.issuer}/account")
        assert isinstance(sign_in_page, Page)

        page = browser.send(sign_in_page, email=ADA, password=PASSWORD)

        assert isinstance(page, Page)
        assert "Your account" in page.text
        assert "Your password" not in page.text
