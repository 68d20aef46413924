"""Asking the user: what the page says, that the answer counts once, and what it leads to."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update
from tests.support.oauth_site import (
    CALLBACK,
    PASSWORD,
    Answer,
    Browser,
    Client,
    Page,
    Site,
    assert_page,
    claims,
)

from runtime.domain.kinds import APPLICATION, DELEGATED_GRANT, PROVIDER, RESOURCE
from runtime.domain.kinds.resource import Resource
from runtime.services import epochs
from runtime.storage.sql.tables import METADATA

_consents = METADATA.tables["consents"]
_grants = METADATA.tables["delegated_grants"]

STORAGE = ("embedded", "servers")


def asked(browser: Browser, client: Client, **changes: Any) -> Page:
    """The consent page of a request; Ada signs in if she has not yet."""
    place = browser.open(client.url(**changes))
    assert isinstance(place, Page), place
    if place.action.endswith("/sign-in"):
        place = browser.send(place, email="ada@acme.example", password=PASSWORD)
    assert isinstance(place, Page), place
    assert place.action.endswith("/oauth/consent"), place.text
    return place


def agent(site: Site, **body: Any) -> tuple[Client, Resource]:
    """An application that has to ask, with one resource to ask for."""
    zone = site.zone("Acme people")
    files = site.run(
        site.company.resource(
            zone, "https://files.example/api", scopes=["read", "write"], description="All your documents"
        )
    )
    site.user(zone)
    return site.app(zone, "Notebook", consent="required", dependencies=[files], **body), files


async def end_grants(site: Site, zone_id: str, *, in_seconds: int) -> None:
    """Let the one user's delegated grants in a zone end by themselves."""
    until = site.services.clock() + timedelta(seconds=in_seconds)
    async with site.services.epochs.transaction() as (conn, bumped):
        mine = _grants.c.zone_id == zone_id
        user_id = await conn.scalar(
            update(_grants).where(mine).values(expires_at=until).returning(_grants.c.user_id)
        )
        bumped.update(await epochs.bump_user(conn, zone_id, str(user_id)))


def rows(site: Site, table: Any, zone_id: str) -> list[dict[str, Any]]:
    """What a table holds of a zone."""

    async def read() -> list[dict[str, Any]]:
        async with site.services.database.reading() as conn:
            found = await conn.execute(select(table).where(table.c.zone_id == zone_id))
            return [dict(row) for row in found.mappings()]

    return site.run(read())


class TestPage:
    """What the user sees before saying yes."""

    def test_names_everything_that_matters(self, site: Site, browser: Browser) -> None:
        """The application, where the answer goes, who is asked, and each resource with its scopes."""
        client, files = agent(site)

        page = asked(browser, client, resources=[files.identifier], scope="openid email read")

        assert_page(page.response, 200)
        assert not [
            said
            for said in (
                "Acme people",
                "Notebook",
                "app.example",
                "ada@acme.example",
                files.name,
                "All your documents",
                "read",
                "see your e-mail address",
            )
            if said not in page.text
        ]
        assert "write" not in page.text

    def test_warns_about_programs_on_this_device(self, site: Site, browser: Browser) -> None:
        """Any program can listen on a loopback address."""
        local = {"protocols": {"oauth2": {"redirect_uris": ["http://localhost:8600/callback"]}}}
        client, _ = agent(site, **local)
        client.redirect_uri = "http://localhost:8600/callback"

        assert "a program on this device" in asked(browser, client).text

    @pytest.mark.threat("24c")
    def test_a_private_scheme_has_no_host(self, site: Site, browser: Browser) -> None:
        """What looks like one is not shown, and a yes to the host does not count for the scheme."""
        private = "app.notebook://files.example/callback"
        web = "https://files.example/callback"
        client, _ = agent(site, protocols={"oauth2": {"redirect_uris": [private, web]}})

        page = asked(browser, client, redirect_uri=web)
        assert "It redirects to files.example" in page.text
        assert isinstance(browser.send(page, decision="allow"), Answer)

        again = asked(browser, client, redirect_uri=private)
        assert "It redirects to app.notebook:" in again.text
        assert "files.example" not in again.text

    def test_implicit_consent_asks_nothing(self, site: Site, browser: Browser) -> None:
        """Unless the application itself wants the user to be asked."""
        zone = site.zone()
        site.user(zone)
        client = site.app(zone)
        client.sign_in(browser)

        assert isinstance(browser.open(client.url()), Answer)
        assert asked(browser, client, prompt="consent")


class TestDecision:
    """Yes and no."""

    @pytest.mark.threat("5p")
    def test_an_address_given_up_meanwhile_is_not_answered(self, site: Site, browser: Browser) -> None:
        """What was registered when the user was sent here may be somebody else's by now."""
        client, _ = agent(site)
        assert isinstance(browser.send(asked(browser, client), decision="allow"), Answer)  # ok first
        page = asked(browser, client, prompt="consent")
        moved = {"oauth2": {"redirect_uris": ["https://other.example/callback"]}}
        site.run(site.company.update(APPLICATION, client.zone.id, client.app.id, protocols=moved))

        assert_page(browser.post(page, decision="allow"), 400)

    def test_yes_is_remembered(self, site: Site, browser: Browser) -> None:
        """The next time the same request asks nothing, also with `prompt=none`."""
        client, files = agent(site)
        page = asked(browser, client, resources=[files.identifier])

        answer = browser.send(page, decision="allow")

        assert isinstance(answer, Answer)
        tokens = client.redeem(answer.code).json()
        assert claims(tokens["access_token"])["aud"] == files.identifier
        again = browser.open(client.url(resources=[files.identifier], prompt="none"))
        assert isinstance(again, Answer)
        assert again.code

    def test_yes_makes_a_grant(self, site: Site, browser: Browser) -> None:
        """For the resource, at the zone's own token service, with the scopes that were shown."""
        client, files = agent(site)

        browser.send(
            asked(browser, client, resources=[files.identifier], scope="openid read"), decision="allow"
        )

        (grant,) = rows(site, _grants, client.zone.id)
        consents = {row["resource_id"]: row["scopes"] for row in rows(site, _consents, client.zone.id)}
        assert (grant["resource_id"], grant["scopes"], grant["status"]) == (files.id, ["read"], "active")
        assert consents == {"": ["openid"], files.id: ["read"]}

    def test_asks_again_for_more(self, site: Site, browser: Browser) -> None:
        """And keeps what was said before."""
        client, files = agent(site)
        for scope in ("openid read", "openid write"):
            page = asked(browser, client, resources=[files.identifier], scope=scope)
            browser.send(page, decision="allow")

        (grant,) = rows(site, _grants, client.zone.id)
        assert grant["scopes"] == ["read", "write"]
        assert isinstance(
            browser.open(client.url(resources=[files.identifier], scope="openid read write")), Answer
        )

    def test_asks_again_for_another_place(self, site: Site, browser: Browser) -> None:
        """Consent was given with a redirect host in view."""
        other = "https://other.example/callback"
        client, _ = agent(site, protocols={"oauth2": {"redirect_uris": [CALLBACK, other]}})
        browser.send(asked(browser, client), decision="allow")
        assert isinstance(browser.open(client.url()), Answer)

        assert "other.example" in asked(browser, client, redirect_uri=other).text

    def test_no_is_told_and_not_remembered(self, site: Site, browser: Browser) -> None:
        """The application hears `access_denied`, and nothing is kept."""
        client, _ = agent(site)

        heard = browser.send(asked(browser, client), decision="deny")

        assert isinstance(heard, Answer)
        assert (heard.values["error"], heard.values["state"]) == ("access_denied", client.state)
        assert heard.values["iss"] == client.issuer
        assert rows(site, _consents, client.zone.id) == []

    def test_silence_is_no_consent(self, site: Site, browser: Browser) -> None:
        """With `prompt=none` a question that is due is an error."""
        client, _ = agent(site)
        asked(browser, client)

        heard = browser.open(client.url(prompt="none"))

        assert isinstance(heard, Answer)
        assert heard.values["error"] == "consent_required"

    def test_no_token_outlives_the_grant(self, site: Site, browser: Browser) -> None:
        """Nor is there one after it. Spec: zone interface, section 3."""
        client, files = agent(site)
        page = asked(browser, client, resources=[files.identifier])
        tokens = client.redeem(browser.send(page, decision="allow").code).json()  # type: ignore[union-attr]
        assert tokens["expires_in"] == 3600

        site.run(end_grants(site, client.zone.id, in_seconds=90))
        tokens = client.refresh(tokens["refresh_token"]).json()
        assert 0 < tokens["expires_in"] <= 90
        site.run(end_grants(site, client.zone.id, in_seconds=-1))
        refused = client.refresh(tokens["refresh_token"]).json()
        assert (refused["error"], refused["reason"]) == ("access_denied", "user_authorization_required")

    def test_a_withdrawn_grant_is_asked_for_again(self, site: Site, browser: Browser) -> None:
        """By refresh nothing comes any more; by asking, the user starts it again."""
        client, files = agent(site)
        page = asked(browser, client, resources=[files.identifier])
        tokens = client.redeem(browser.send(page, decision="allow").code).json()  # type: ignore[union-attr]
        refreshed = client.refresh(tokens["refresh_token"])
        assert refreshed.status_code == 200

        (grant,) = rows(site, _grants, client.zone.id)
        site.run(site.company.update(DELEGATED_GRANT, client.zone.id, grant["id"], status="revoked"))

        refused = client.refresh(refreshed.json()["refresh_token"]).json()
        assert (refused["error"], refused["reason"]) == ("access_denied", "user_authorization_required")
        page = asked(browser, client, resources=[files.identifier])
        assert isinstance(browser.send(page, decision="allow"), Answer)
        (grant,) = rows(site, _grants, client.zone.id)
        assert grant["status"] == "active"

    def test_a_grant_that_starts_again_with_less_bounds_every_application(
        self, site: Site, browser: Browser
    ) -> None:
        """Sign-in and refresh give no more than exchange and introspection take the user's word to be."""
        first, files = agent(site)
        second = site.app(first.zone, "Other", consent="required", dependencies=[files])

        def agreed(client: Client, scope: str) -> dict[str, Any]:
            page = asked(browser, client, resources=[files.identifier], scope=scope)
            answer = browser.send(page, decision="allow")
            assert isinstance(answer, Answer)
            tokens: dict[str, Any] = client.redeem(answer.code).json()
            return tokens

        tokens = first.refresh(agreed(first, "openid read write")["refresh_token"]).json()
        assert claims(tokens["access_token"])["scope"] == "read write"
        site.run(end_grants(site, first.zone.id, in_seconds=-1))
        assert "access_token" in agreed(second, "openid read")

        assert first.refresh(tokens["refresh_token"]).json()["error"] == "access_denied"
        tokens = agreed(first, "openid read write")
        assert claims(tokens["access_token"])["scope"] == "read write"


class TestForgery:
    """Only this page's form, from this browser, once."""

    @pytest.mark.threat("23a")
    def test_form_without_its_token(self, site: Site, browser: Browser) -> None:
        """Or with one of another form."""
        client, _ = agent(site)
        page = asked(browser, client)

        for token in ("", "made-up"):
            assert_page(browser.post(page, decision="allow", form_token=token), 403)

        assert isinstance(browser.send(page, decision="allow"), Answer)

    @pytest.mark.threat("23b")
    def test_form_of_another_origin(self, site: Site, browser: Browser) -> None:
        """Though it has the right token."""
        client, _ = agent(site)
        page = asked(browser, client)

        for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            assert_page(browser.post(page, headers=headers, decision="allow"), 403)

        own = {"Origin": site.server.url}
        assert browser.post(page, headers=own, decision="allow").status_code == 303

    @pytest.mark.threat("23c", "23e")
    @pytest.mark.parametrize("first", ["allow", "deny"])
    def test_a_form_sent_twice_decides_once(self, site: Site, browser: Browser, first: str) -> None:
        """After yes as after no: the decision was the first."""
        client, _ = agent(site)
        page = asked(browser, client)
        assert browser.post(page, decision=first).status_code == 303

        assert_page(browser.post(page, decision="allow"), 403)

    @pytest.mark.threat("23c", "23e")
    def test_a_no_on_one_copy_of_the_page_counts_on_the_other(self, site: Site, browser: Browser) -> None:
        """A no on one copy of the page cannot become a yes on the other, whose form token is unused."""
        client, _ = agent(site)
        page = asked(browser, client)
        copy = browser.open(str(page.response.url))
        assert isinstance(copy, Page)
        assert browser.post(page, decision="deny").status_code == 303

        assert_page(browser.post(copy, decision="allow"), 400)
        assert rows(site, _consents, client.zone.id) == []

    @pytest.mark.threat("23f")
    def test_question_in_another_browser(self, site: Site, browser: Browser) -> None:
        """Neither the page nor the form works without the browser's cookies."""
        client, _ = agent(site)
        page = asked(browser, client)
        stranger = Browser()

        assert_page(stranger.http.get(str(page.response.url)), 400)
        assert_page(stranger.post(page, decision="allow"), 400)

    @pytest.mark.threat("23f")
    def test_question_to_another_user(self, site: Site, browser: Browser) -> None:
        """Who signs in meanwhile does not answer for who was asked."""
        client, _ = agent(site)
        site.user(client.zone, "grace@acme.example")
        page = asked(browser, client)
        sign_in = browser.open(client.url(prompt="login"))
        assert isinstance(sign_in, Page)
        browser.send(sign_in, email="grace@acme.example", password=PASSWORD)

        assert_page(browser.post(page, decision="allow"), 400)
        assert rows(site, _consents, client.zone.id) == []

    @pytest.mark.threat("23d")
    def test_the_page_is_shown_in_no_frame(self, site: Site, browser: Browser) -> None:
        """Nobody can lay the page under their own."""
        client, _ = agent(site)

        headers = asked(browser, client).response.headers

        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]


@pytest.mark.threat("18q")
def test_a_revoked_grant_is_given_again_to_one_application(site: Site, browser: Browser) -> None:
    """The user's word to another application, for the same resource, is no word to this one."""
    first, files = agent(site)
    second = site.app(first.zone, "Other", consent="required", dependencies=[files])
    wanted = {"resources": [files.identifier], "scope": "openid read"}

    def agreed(client: Client) -> dict[str, Any]:
        answer = browser.send(asked(browser, client, **wanted), decision="allow")
        assert isinstance(answer, Answer)
        tokens: dict[str, Any] = client.redeem(answer.code).json()
        return tokens

    tokens = first.refresh(agreed(first)["refresh_token"]).json()
    others = second.refresh(agreed(second)["refresh_token"]).json()
    (grant,) = rows(site, _grants, first.zone.id)
    site.run(site.company.update(DELEGATED_GRANT, first.zone.id, grant["id"], status="revoked"))
    assert {
        client.refresh(held["refresh_token"]).json()["error"]
        for client, held in ((first, tokens), (second, others))
    } == {"access_denied"}

    assert "access_token" in agreed(second)

    assert second.refresh(others["refresh_token"]).status_code == 200
    assert first.refresh(tokens["refresh_token"]).json()["error"] == "access_denied"
    assert "access_token" in agreed(first)
    assert first.refresh(tokens["refresh_token"]).status_code == 200


class TestRecord:
    """What a yes is recorded for."""

    def test_scopes_allowed_at_another_host_are_asked_for_again(self, site: Site, browser: Browser) -> None:
        """A yes counts for the host that the page named: at a second one it begins with nothing."""
        other = "https://other.example/callback"
        client, _ = agent(site, protocols={"oauth2": {"redirect_uris": [CALLBACK, other]}})
        browser.send(asked(browser, client, scope="openid email"), decision="allow")
        browser.send(asked(browser, client, scope="openid", redirect_uri=other), decision="allow")

        asked(browser, client, scope="openid email", redirect_uri=other)

    def test_a_resource_of_another_provider_gets_no_grant_of_the_zones(
        self, site: Site, browser: Browser
    ) -> None:
        """Its tokens come from an account that the user connects; a yes here does not stand for that."""
        client, files = agent(site)
        elsewhere = {"identifier": "https://provider.example", "name": "Elsewhere", "client_id": "zone"}
        made = site.run(site.company.create(PROVIDER, client.zone.id, **elsewhere))
        site.run(site.company.update(RESOURCE, client.zone.id, files.id, credential_provider_id=made.id))

        browser.send(asked(browser, client, resources=[files.identifier]), decision="allow")

        assert rows(site, _grants, client.zone.id) == []
