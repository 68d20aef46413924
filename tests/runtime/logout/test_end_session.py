"""Signing out: what ends, who is asked first, and where the browser goes."""

from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import select
from tests.support.oauth_site import Answer, Browser, Client, Page, Site, assert_page, chained, claims

from runtime.services.logout import requests
from runtime.services.logout.requests import LogoutRequest
from runtime.storage.sql.tables import token_events

STORAGE = ("embedded", "nodes")
BYE = "https://app.example/bye"
PROTOCOLS = {
    "oauth2": {"redirect_uris": ["https://app.example/callback"], "post_logout_redirect_uris": [BYE]}
}


def signed_in(site: Site, browser: Browser, **body: Any) -> tuple[Client, dict[str, Any]]:
    """An application of a new zone, and Ada's tokens for it."""
    zone = site.zone()
    site.user(zone)
    client = site.app(zone, protocols=PROTOCOLS, **body)
    return client, client.sign_in(browser)


def leave(browser: Browser, client: Client, method: str = "GET", **query: str) -> httpx.Response:
    """Send the browser to the logout endpoint; its answer."""
    where = {"params" if method == "GET" else "data": query}
    return browser.http.request(method, f"{client.issuer}/openid/logout", **where)


async def recorded(site: Site, client: Client) -> list[str]:
    """What the record says has ended in the client's zone."""
    of_zone = (token_events.c.zone_id == client.zone.id) & (token_events.c.outcome == "ended")
    async with site.services.database.reading() as conn:
        return list(await conn.scalars(select(token_events.c.event).where(of_zone)))


def is_signed_in(browser: Browser, client: Client) -> bool:
    """Whether a silent request finds somebody."""
    heard = Answer(browser.http.get(client.url(prompt="none")).headers["location"]).values
    assert "code" in heard or heard["error"] == "login_required", heard
    return "code" in heard


@pytest.mark.standard("OpenID Connect RP-Initiated Logout")
class TestWithTheApplicationsToken:
    """An application that signed the user in may sign them out."""

    def test_ends_everything_below_the_browsers_session(self, site: Site, browser: Browser) -> None:
        """Tokens of every application and their refresh tokens; but not what was granted offline."""
        client, tokens = signed_in(site, browser)
        other = site.app(client.zone, "calendar", protocols=PROTOCOLS)
        others = other.sign_in(browser)
        offline = site.app(client.zone, "sync", protocols=PROTOCOLS)
        kept = offline.sign_in(browser, scope="openid offline_access")
        assert client.userinfo(tokens["access_token"]).status_code == 200

        leave(browser, client, id_token_hint=tokens["id_token"])

        statuses = [
            app.userinfo(ended["access_token"]).status_code
            for app, ended in ((client, tokens), (other, others))
        ]
        assert statuses == [401, 401]
        assert client.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
        assert other.refresh(others["refresh_token"]).json()["error"] == "invalid_grant"
        assert offline.refresh(kept["refresh_token"]).status_code == 200

    def test_takes_the_cookie_and_leads_back_with_the_state(self, site: Site, browser: Browser) -> None:
        """The browser goes to the registered address, is signed in no more, and the record has a sign-out."""
        client, tokens = signed_in(site, browser)

        answer = leave(
            browser,
            client,
            id_token_hint=tokens["id_token"],
            post_logout_redirect_uri=BYE,
            state="a b",
        )

        assert (answer.status_code, answer.headers["location"]) == (303, f"{BYE}?state=a+b")
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"  # Sanic would say `None`
        assert not [each for each in browser.http.cookies.jar if "session" in each.name]
        assert not is_signed_in(browser, client)
        assert site.run(recorded(site, client)) == ["user_sign_out"]

    def test_reaches_what_was_begun_before_signing_in_again(self, site: Site, browser: Browser) -> None:
        """Who proves again that it is them stays in the same applications, and leaves them all at once."""
        client, before = signed_in(site, browser)
        page = browser.open(client.url(prompt="login"))
        code = browser.sign_in(page).code
        again = client.redeem(browser.sign_in(browser.open(client.url(max_age="0"))).code).json()
        waiting = client.redeem(code).json()
        assert len({claims(each["id_token"])["sid"] for each in (before, waiting, again)}) == 3

        leave(browser, client, id_token_hint=again["id_token"])

        assert {
            client.refresh(tokens["refresh_token"]).json()["error"] for tokens in (before, waiting, again)
        } == {"invalid_grant"}

    def test_by_form_from_the_applications_site(self, site: Site, browser: Browser) -> None:
        """Such a form brings no cookies, so it is the next step that ends the session."""
        client, tokens = signed_in(site, browser)
        form = {"id_token_hint": tokens["id_token"], "post_logout_redirect_uri": BYE}

        step = leave(Browser(), client, "POST", **form)
        assert step.status_code == 303
        gone = browser.open(step.headers["location"])

        assert gone == Answer(BYE)
        assert not is_signed_in(browser, client)

    def test_an_expired_token_will_do(self, site: Site, browser: Browser) -> None:
        """It says who is meant, and lets nobody in."""
        client, tokens = signed_in(site, browser)
        old = dict(claims(tokens["id_token"]))
        old |= {"iat": old["iat"] - 90_000, "exp": old["exp"] - 90_000}

        async def sign() -> str:
            zone = await site.services.zones.get(client.zone.id)
            return zone.signing("RS256").sign(old, typ="JWT")

        leave(browser, client, id_token_hint=site.run(sign()))

        assert not is_signed_in(browser, client)

    @pytest.mark.parametrize("by", ["id_token_hint", "client_id"])
    def test_where_nobody_is_signed_in_the_browser_goes_on(self, site: Site, by: str) -> None:
        """There is nothing to end; the browser goes where it is expected, or hears that it is signed out."""
        client, tokens = signed_in(site, Browser())
        query = {by: tokens["id_token"] if by == "id_token_hint" else client.app.client_id}

        answer = leave(Browser(), client, post_logout_redirect_uri=BYE, **query)

        assert answer.headers["location"] == BYE
        page = Browser().open(f"{client.issuer}/openid/logout")
        assert isinstance(page, Page)
        assert "You are signed out" in page.text


@pytest.mark.standard("OpenID Connect RP-Initiated Logout")
class TestQuestion:
    """Without the user's own ID token, anybody could have sent the browser."""

    @pytest.mark.threat("6c")
    @pytest.mark.parametrize("by", ["client_id", "id_token_hint"])
    def test_asks_and_then_goes_where_the_application_said(
        self, site: Site, browser: Browser, by: str
    ) -> None:
        """With the client id alone, and with an ID token of somebody else."""
        client, _ = signed_in(site, browser)
        site.user(client.zone, "grace@acme.example")
        other = Browser()
        place = other.open(client.url())
        graces = client.redeem(other.sign_in(place, "grace@acme.example").code).json()
        query = {by: client.app.client_id if by == "client_id" else graces["id_token"]}

        page = browser.open(str(leave(browser, client, post_logout_redirect_uri=BYE, **query).url))
        assert isinstance(page, Page)
        assert_page(page.response, 200)
        assert "notes has asked to sign you out" in page.text
        assert "ada@acme.example" in page.text
        assert is_signed_in(browser, client)

        assert browser.send(page) == Answer(BYE)
        assert not is_signed_in(browser, client)

    @pytest.mark.threat("6o")
    @pytest.mark.parametrize("scope", ["openid", "openid offline_access"])
    def test_asks_for_a_token_of_another_sign_in(self, site: Site, browser: Browser, scope: str) -> None:
        """The same user's ID token ends the sign-in it was issued in, and no other without a question."""
        client, _ = signed_in(site, browser)
        elsewhere = Browser()
        old = client.sign_in(elsewhere, scope=scope)
        assert is_signed_in(elsewhere, client)
        # Its tokens are given up first, as careful applications do.
        given_up = {**client.app.form, "token": old["refresh_token"]}
        assert httpx.post(f"{client.issuer}/oauth/revoke", data=given_up).status_code == 200

        page = browser.open(str(leave(browser, client, id_token_hint=old["id_token"]).headers["location"]))

        assert isinstance(page, Page)
        assert "notes has asked to sign you out" in page.text
        assert is_signed_in(browser, client)
        leave(elsewhere, client, id_token_hint=old["id_token"])
        assert not is_signed_in(elsewhere, client)
        assert is_signed_in(browser, client)

    @pytest.mark.threat("6m")
    def test_leads_to_a_site_of_a_stranger_only_who_was_its_user(self, site: Site, browser: Browser) -> None:
        """Anybody can register an application and send a browser: who says yes is signed out, and stays here.

        Who let that application in goes back to it, by the same question.
        """
        zone = site.zone()
        site.user(zone)
        managed = site.app(zone, protocols=PROTOCOLS)
        bye = "https://evil.example/bye"
        metadata = {"redirect_uris": ["https://evil.example/callback"], "post_logout_redirect_uris": [bye]}
        made = httpx.post(f"{managed.issuer}/oauth/register", json=metadata).json()
        client = site.stranger(zone, made["client_id"], metadata["redirect_uris"][0])
        query = {"client_id": made["client_id"], "post_logout_redirect_uri": bye}
        user = Browser()
        client.sign_in(user)
        question = user.open(str(leave(user, client, **query).headers["location"]))
        assert isinstance(question, Page)
        assert user.send(question) == Answer(bye)

        site.user(zone, "grace@acme.example")
        managed_place = browser.open(managed.url())
        browser.sign_in(managed_place, "grace@acme.example")
        page = browser.open(str(leave(browser, client, **query).headers["location"]))
        assert isinstance(page, Page)
        done = browser.send(page)

        assert isinstance(done, Page)
        assert "You are signed out" in done.text
        assert not is_signed_in(browser, managed)

    @pytest.mark.threat("6e")
    def test_only_the_page_of_this_session_can_answer(self, site: Site, browser: Browser) -> None:
        """Neither a made-up token nor one from the attacker's own session, nor a foreign site's form."""
        client, _ = signed_in(site, browser)
        site.user(client.zone, "mallory@acme.example")
        attacker = Browser()
        attacker.sign_in(attacker.open(client.url()), "mallory@acme.example")
        theirs = attacker.open(f"{client.issuer}/openid/logout")
        page = browser.open(f"{client.issuer}/openid/logout")
        assert isinstance(page, Page)
        assert isinstance(theirs, Page)

        for token in ("", "made-up", theirs.fields["form_token"]):
            assert_page(browser.post(page, form_token=token), 403)
        assert_page(browser.post(page, headers={"Origin": "https://evil.example"}), 403)
        assert is_signed_in(browser, client)

        done = browser.send(page)
        assert isinstance(done, Page)
        assert "You are signed out" in done.text
        assert not is_signed_in(browser, client)


@pytest.mark.threat("6a", "6b")
@pytest.mark.standard("OpenID Connect RP-Initiated Logout")
def test_nobody_is_sent_to_an_address_that_is_not_registered(site: Site, browser: Browser) -> None:
    """A page instead, and the session goes on."""
    client, tokens = signed_in(site, browser)
    stranger = site.app(client.zone, "stranger")
    hint = {"id_token_hint": tokens["id_token"]}
    ok = {**hint, "post_logout_redirect_uri": BYE}

    for attack in (
        *({**hint, "post_logout_redirect_uri": where} for where in EVIL),
        {"post_logout_redirect_uri": BYE},
        {"post_logout_redirect_uri": BYE, "client_id": stranger.app.client_id},
        {**ok, "client_id": stranger.app.client_id},
        {**ok, "client_id": "made-up"},
    ):
        assert_page(leave(browser, client, **attack), 400)
    for twice in ("state=1&state=2", "state=&state=2", "ui_locales=de&ui_locales=en"):
        where = f"{client.issuer}/openid/logout?{twice}&id_token_hint={tokens['id_token']}"
        assert_page(browser.http.get(where), 400)
    assert is_signed_in(browser, client)

    assert leave(browser, client, **ok).headers["location"] == BYE


@pytest.mark.threat("6d")
@pytest.mark.standard("OpenID Connect RP-Initiated Logout")
@pytest.mark.parametrize("hint", ["foreign", "broken", "access token"])
def test_a_hint_that_means_nothing_here(site: Site, browser: Browser, hint: str) -> None:
    """As after a key was withdrawn: the user is asked, and who says yes is signed out and sent nowhere."""
    client, tokens = signed_in(site, browser)
    _, foreign = signed_in(site, Browser())
    hints = {
        "foreign": foreign["id_token"],
        "broken": f"{tokens['id_token'][:-4]}AAAA",
        "access token": tokens["access_token"],
    }

    asked = leave(browser, client, id_token_hint=hints[hint], post_logout_redirect_uri=BYE)
    assert asked.headers["location"].startswith(f"{client.issuer}/")
    page = browser.open(asked.headers["location"])
    assert isinstance(page, Page)
    assert is_signed_in(browser, client)

    done = browser.send(page)
    assert isinstance(done, Page)
    assert "You are signed out" in done.text
    assert not is_signed_in(browser, client)
    again, mine = signed_in(site, Browser())
    assert leave(browser, again, id_token_hint=mine["id_token"], post_logout_redirect_uri=BYE).is_redirect


@pytest.mark.threat("6n")
@pytest.mark.parametrize(
    "case", ["altered", "at another zone", "old", "no text", "empty", "without a request"]
)
def test_what_the_address_carries_counts_here_and_for_a_while(site: Site, case: str) -> None:
    """Altered, of another zone, or old, it asks for the way out and leads nowhere."""
    client, other = (signed_in(site, Browser())[0] for _ in range(2))
    form = {"client_id": client.app.client_id, "post_logout_redirect_uri": BYE}
    address = leave(Browser(), client, "POST", **form).headers["location"]
    assert Browser().open(address) == Answer(BYE)
    at = site.services.clock() - timedelta(seconds=901)

    async def old() -> str:
        zone = await site.services.zones.get(client.zone.id)
        return requests.seal_request(zone, LogoutRequest(return_to=BYE), at)

    handle = address.partition("?request=")[2]
    attacks = {
        "altered": address[:-6] + "AAAAAA",
        "at another zone": f"{other.issuer}/oauth/sign-out?request={handle}",
        "old": f"{client.issuer}/oauth/sign-out?request={site.run(old())}",
        "no text": f"{client.issuer}/oauth/sign-out?request=%FF%00",
        "empty": f"{client.issuer}/oauth/sign-out?request=",
        "without a request": f"{client.issuer}/oauth/sign-out",
    }

    page = Browser().open(attacks[case])

    assert isinstance(page, Page)
    assert "You are signed out" in page.text


EVIL = (
    "https://evil.example",
    "//evil.example",
    f"{BYE}/",
    f"{BYE}?x=1",
    f"{BYE}#x",
    "https://app.example/bye/../evil",
    "https://APP.example/bye",
    "https://app.example@evil.example/bye",
    "javascript:alert(1)",
)


class TestProvider:
    """A zone whose users sign in elsewhere."""

    def test_signs_out_there_too(self, site: Site, browser: Browser) -> None:
        """If the provider's settings say so: on to it with its own ID token, and back to the application."""
        chain = chained(site, single_logout_enabled=True)
        client = site.app(chain.product, protocols=PROTOCOLS)
        tokens = client.sign_in(browser)
        home = Client(chain.home, chain.door)

        answer = browser.open(
            f"{client.issuer}/openid/logout?id_token_hint={tokens['id_token']}"
            f"&post_logout_redirect_uri={BYE}&state=s"
        )

        assert answer == Answer(f"{BYE}?state=s")
        upstream = [each.url for each in browser.visited if str(each.url).startswith(home.issuer)]
        (asked,) = [url.params for url in upstream if url.path.endswith("/openid/logout")]
        assert claims(asked["id_token_hint"])["aud"] == asked["client_id"] == chain.door.client_id
        assert not is_signed_in(browser, home.answering(chain.product))
        assert not is_signed_in(browser, client)
        again = browser.http.get(f"{client.issuer}/openid/logout/callback?state={asked['state']}")
        assert_page(again, 200)

    @pytest.mark.threat("6f")
    def test_leads_nobody_else_to_where_it_was_to_end(self, site: Site, browser: Browser) -> None:
        """The state of somebody's own sign-out, in a link: the page of this zone, and the state still works.

        In the browser that began it, and once.
        """
        chain = chained(site, single_logout_enabled=True)
        client = site.app(chain.product, protocols=PROTOCOLS)
        tokens = client.sign_in(browser)
        home = Client(chain.home, chain.door)
        hint = {"id_token_hint": tokens["id_token"], "post_logout_redirect_uri": BYE}
        onward = httpx.URL(leave(browser, client, **hint).headers["location"])
        assert str(onward).startswith(home.issuer)
        link = f"{client.issuer}/openid/logout/callback?state={onward.params['state']}"

        victim = Browser()
        client.sign_in(victim)
        for stranger in (Browser(), victim):
            for address in (link, link.partition("?")[0], link[:-4] + "AAAA"):
                assert_page(stranger.http.get(address), 200)
        assert is_signed_in(victim, client)

        assert browser.open(link) == Answer(BYE)
        assert_page(browser.http.get(link), 200)

    def test_stays_signed_in_there_otherwise(self, site: Site, browser: Browser) -> None:
        """The page says so."""
        chain = chained(site)
        client = site.app(chain.product, protocols=PROTOCOLS)
        tokens = client.sign_in(browser)

        page = browser.open(f"{client.issuer}/openid/logout?id_token_hint={tokens['id_token']}")

        assert isinstance(page, Page)
        assert "You may still be signed in to Workforce" in page.text
        assert is_signed_in(browser, Client(chain.home, chain.door).answering(chain.product))


def test_metadata_names_the_endpoint(site: Site) -> None:
    """Clients find it by discovery."""
    zone = site.zone()
    issuer = str(zone.protocols.oauth2.issuer)

    metadata = httpx.get(f"{issuer}/.well-known/openid-configuration").json()

    assert metadata["end_session_endpoint"] == f"{issuer}/openid/logout"
