"""Signing in and registering on the zone's own pages."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.connections import Connections
from tests.support.factories import company_of
from tests.support.oauth_site import PASSWORD, Answer, Browser, Page, Site, assert_page, claims
from tests.support.server import serve

from runtime.domain.errors import TooManyTries
from runtime.domain.kinds import SESSION, USER, Verb
from runtime.services import rate_limits
from runtime.services.login import throttling as login_limits

STORAGE = ("embedded", "servers")


class TestPage:
    """The sign-in page."""

    def test_says_where_and_for_whom(self, site: Site, browser: Browser) -> None:
        """Zone and application by name, every field with its label, and the headers that protect it."""
        zone = site.zone("Acme people")
        page = browser.open(site.app(zone, "Notebook").url(login_hint="ada@acme.example"))

        assert isinstance(page, Page)
        assert_page(page.response, 200)
        assert "Acme people" in page.text
        assert "Notebook" in page.text
        assert page.fields["email"] == "ada@acme.example"
        assert page.unlabelled == set()

    def test_escapes_what_others_chose(self, site: Site, browser: Browser) -> None:
        """A login hint is text, whatever it looks like."""
        hint = '"><img src=x onerror=alert(1)>'

        page = browser.open(site.app(site.zone()).url(login_hint=hint))

        assert isinstance(page, Page)
        assert page.fields["email"] == hint
        assert "<img" not in page.response.text

    def test_the_style_sheet_is_the_zones_own_and_can_be_kept(self, site: Site, browser: Browser) -> None:
        """The page's style comes from the zone itself, and can be kept."""
        page = browser.open(site.app(site.zone()).url())
        assert isinstance(page, Page)
        address = page.response.text.partition('rel="stylesheet" href="')[2].partition('"')[0]

        style = httpx.get(f"{site.server.url}{address}")

        assert style.status_code == 200
        assert style.headers["content-type"].startswith("text/css")
        assert "prefers-color-scheme: dark" in style.text
        again = httpx.get(f"{site.server.url}{address}", headers={"If-None-Match": style.headers["etag"]})
        assert again.status_code == 304


class TestSignIn:
    """Address and password."""

    def test_case_of_the_address_makes_no_difference(self, site: Site, browser: Browser) -> None:
        """Nor do spaces around it."""
        zone = site.zone()
        site.user(zone)

        page = browser.open(site.app(zone).url())

        assert browser.sign_in(page, " ADA@acme.example ").code

    def test_takes_one_connection_at_a_time(
        self, site: Site, browser: Browser, connections: Connections
    ) -> None:
        """A second one inside a transaction would have all wait for each other when many sign in at once."""
        zone = site.zone()
        site.user(zone)
        client = site.app(zone)
        page = browser.open(client.url())

        with connections.watched():
            assert browser.sign_in(page).code

        assert connections.taken > 1
        assert connections.inside_another == []

    def test_the_session_says_what_the_id_token_says(self, site: Site, browser: Browser) -> None:
        """`session_data` names the user as the zone's ID tokens do."""
        zone = site.zone()
        ada = site.user(zone)
        client = site.app(zone)

        answer = browser.sign_in(browser.open(client.url(scope="openid email")))

        told = claims(client.redeem(answer.code).json()["id_token"])
        session = site.run(site.company.run(SESSION, Verb.RETRIEVE, {"zone_id": zone.id}, told["sid"]))
        shared = ("iss", "sub", "email", "email_verified", "auth_time", "amr")
        assert session.session_data == {name: told[name] for name in shared}
        assert session.session_data["sub"] == ada.identifier

    @pytest.mark.parametrize(
        ("email", "password"), [("ada@acme.example", "not the password"), ("nobody@acme.example", PASSWORD)]
    )
    def test_one_answer_for_unknown_user_and_wrong_password(
        self, site: Site, browser: Browser, email: str, password: str
    ) -> None:
        """The page comes back with the address filled in, and does not say which of the two it was."""
        zone = site.zone()
        site.user(zone)
        page = browser.open(site.app(zone).url())
        assert isinstance(page, Page)

        back = browser.send(page, email=email, password=password)

        assert isinstance(back, Page)
        assert_page(back.response, 400)
        assert "Wrong e-mail address or password" in back.text
        assert back.fields["email"] == email
        assert back.fields["password"] == ""
        assert not [each for each in browser.http.cookies.jar if "session" in each.name]

    @pytest.mark.usefixtures("one_window")
    def test_guessing_gets_slow_for_one_account_from_one_address(self, site: Site, browser: Browser) -> None:
        """After a few wrong tries there is a pause in which even the right password waits; others do not."""
        zone = site.zone()
        site.user(zone)
        site.user(zone, "grace@acme.example")
        client = site.app(zone)

        def attempt(email: str, password: str) -> int:
            page = browser.open(client.url(prompt="login"))
            assert isinstance(page, Page)
            return browser.post(page, email=email, password=password).status_code

        tries = [
            attempt("ada@acme.example", "wrong password") for _ in range(rate_limits.FREE_PASSWORD_TRIES + 6)
        ]

        assert tries[: rate_limits.FREE_PASSWORD_TRIES] == [400] * rate_limits.FREE_PASSWORD_TRIES
        assert 429 in tries[rate_limits.FREE_PASSWORD_TRIES :]
        assert attempt("ada@acme.example", PASSWORD) == 429
        assert attempt("grace@acme.example", PASSWORD) == 303

    @pytest.mark.threat("25g")
    @pytest.mark.usefixtures("one_window")
    def test_whoever_has_many_addresses_of_one_network_is_one(self, site: Site) -> None:
        """An IPv6 network is given to one holder: each of its addresses is no other sender."""
        zone = site.zone()

        async def tries(addresses: list[str]) -> int:
            for number, address in enumerate(addresses):
                try:
                    await login_limits.check_password_rate(
                        site.services, zone.id, "ada@acme.example", address
                    )
                except TooManyTries:
                    return number
            return len(addresses)

        most = rate_limits.FREE_PASSWORD_TRIES + 4
        assert site.run(tries([f"2001:db8:{n:x}::1" for n in range(1, most)])) == most - 1
        assert site.run(tries([f"2001:db8:0:1::{n:x}" for n in range(1, most)])) < most - 1

    def test_a_disabled_user_is_told_so_after_the_password(self, site: Site, browser: Browser) -> None:
        """Is told so, once the password has shown who asks."""
        zone = site.zone()
        user = site.user(zone)
        site.run(site.company.run(USER, Verb.UPDATE, {"zone_id": zone.id}, user.id, {"status": "disabled"}))
        page = browser.open(site.app(zone).url())
        assert isinstance(page, Page)

        back = browser.send(page, email=user.email, password=PASSWORD)

        assert isinstance(back, Page)
        assert_page(back.response, 403)
        assert "disabled" in back.text

    @pytest.mark.threat("18m")
    def test_disabled_while_the_password_is_checked(
        self, site: Site, browser: Browser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Disabling ends every session, and one that is about to begin: who is let in again signs in anew."""
        zone = site.zone()
        user, client = site.user(zone), site.app(zone)
        verify = site.services.passwords.verify
        statuses: list[str] = []

        async def slowly(*arguments: Any, tenant: str) -> bool:
            matches = await verify(*arguments, tenant=tenant)
            for status in statuses:
                of_zone = {"zone_id": zone.id}
                await site.company.run(USER, Verb.UPDATE, of_zone, user.id, {"status": status})
            return matches

        monkeypatch.setattr(site.services.passwords, "verify", slowly)
        page = browser.open(client.url())
        assert isinstance(page, Page)
        assert browser.sign_in(page).code

        statuses.append("disabled")
        another = Browser()
        page = another.open(client.url())
        assert isinstance(page, Page)
        back = another.send(page, email=user.email, password=PASSWORD)
        assert isinstance(back, Page)
        assert_page(back.response, 403)

        active = {"status": "active"}
        site.run(site.company.run(USER, Verb.UPDATE, {"zone_id": zone.id}, user.id, active))
        assert not [each for each in (browser, another) if not isinstance(each.open(client.url()), Page)]

    def test_a_user_of_another_zone_is_unknown(self, site: Site, browser: Browser) -> None:
        """Zones share nothing."""
        site.user(site.zone("Elsewhere"))
        page = browser.open(site.app(site.zone()).url())
        assert isinstance(page, Page)

        assert isinstance(browser.send(page, email="ada@acme.example", password=PASSWORD), Page)


class TestFixationAndLoginCsrf:
    """A sign-in belongs to the browser that started it, and ends in a session nobody knew before."""

    @pytest.mark.threat("22a")
    def test_session_cookie_from_before_is_worth_nothing(self, site: Site, browser: Browser) -> None:
        """A value somebody planted does not become the session."""
        zone = site.zone()
        site.user(zone)
        client = site.app(zone)
        planted = "planted-by-somebody-else"
        name = f"zw_session_{zone.id}"
        browser.http.cookies.set(name, planted, domain="127.0.0.1", path=f"/z/{zone.id}")

        assert browser.sign_in(browser.open(client.url())).code

        mine = [each.value for each in browser.http.cookies.jar if each.name == name]
        assert planted not in mine
        other = Browser()
        other.http.cookies.set(name, planted, domain="127.0.0.1", path=f"/z/{zone.id}")
        heard = other.open(client.url(prompt="none"))
        assert isinstance(heard, Answer)
        assert heard.values["error"] == "login_required"

    @pytest.mark.threat("22a")
    def test_each_sign_in_has_a_new_cookie_and_ends_the_old(self, site: Site, browser: Browser) -> None:
        """Whoever had the cookie from before has nothing afterwards."""
        zone = site.zone()
        site.user(zone)
        client = site.app(zone)
        client.sign_in(browser)
        name = f"zw_session_{zone.id}"
        before = browser.http.cookies[name]
        old = Browser()
        old.http.cookies.set(name, before, domain="127.0.0.1", path=f"/z/{zone.id}")
        assert old.open(client.url(prompt="none")).code  # type: ignore[union-attr]

        browser.sign_in(browser.open(client.url(prompt="login")))

        assert browser.http.cookies[name] != before
        heard = old.open(client.url(prompt="none"))
        assert isinstance(heard, Answer)
        assert heard.values["error"] == "login_required"

    @pytest.mark.threat("22e")
    def test_form_in_another_browser(self, site: Site, browser: Browser) -> None:
        """The attacker's started sign-in, with the form and its token, is refused in the victim's browser."""
        zone = site.zone()
        site.user(zone)
        page = browser.open(site.app(zone).url())
        assert isinstance(page, Page)
        victim = Browser()

        response = victim.post(page, email="ada@acme.example", password=PASSWORD)

        assert_page(response, 400)
        assert not list(victim.http.cookies.jar)
        assert browser.sign_in(page).code

    @pytest.mark.threat("22e")
    def test_form_from_another_site(self, site: Site, browser: Browser) -> None:
        """Told by Origin, or by what the browser says of the request."""
        zone = site.zone()
        site.user(zone)
        page = browser.open(site.app(zone).url())
        assert isinstance(page, Page)

        for headers in (
            {"Origin": "https://evil.example"},
            {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
        ):
            response = browser.post(page, headers=headers, email="ada@acme.example", password=PASSWORD)
            assert_page(response, 403)

        assert browser.sign_in(page).code


def test_a_zone_with_a_host_of_its_own(tmp_path: Path) -> None:
    """Over https its cookies are secure and belong to the whole host; the pages work as elsewhere."""
    template = {"public_url": "https://id.example", "zone_url_template": "https://{zone_id}.id.example"}
    with serve(tmp_path, **template) as server:
        address = server.url
        site = Site(server, company_of(server))
        zone = site.zone()
        site.user(zone)
        client = site.app(zone)
        headers = {"Host": f"{zone.id}.id.example"}
        assert client.issuer == f"https://{zone.id}.id.example"

        begun = httpx.get(client.url().replace(client.issuer, address), headers=headers)
        started = begun.headers["set-cookie"].partition(";")[0]
        page = httpx.get(
            begun.headers["location"].replace(client.issuer, address), headers={**headers, "Cookie": started}
        )
        done = httpx.post(
            f"{address}/oauth/sign-in",
            data={**Page(page).fields, "email": "ada@acme.example", "password": PASSWORD},
            headers={**headers, "Cookie": started, "Origin": client.issuer},
        )

    assert begun.headers["location"].startswith(f"{client.issuer}/oauth/sign-in?")
    assert 'action="/oauth/sign-in"' in page.text
    cookies = [response.headers["set-cookie"] for response in (begun, done)]
    names = [cookie.partition("=")[0] for cookie in cookies]
    assert names == [f"__Secure-zw_started_{zone.id}", f"__Secure-zw_session_{zone.id}"]
    attributes = [{part.strip() for part in cookie.split(";")} for cookie in cookies]
    assert not [each for each in attributes if not each >= {"Secure", "HttpOnly", "Path=/", "SameSite=Lax"}]
    assert Answer(done.headers["location"]).code
