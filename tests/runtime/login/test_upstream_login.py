"""Signing in at an identity provider: a foreign one over real HTTP, and another zone."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from oidc_provider_mock import User as MockUser
from sqlalchemy import select
from tests.runtime.login.federation import (
    Foreign,
    as_person,
    at_provider,
    changed_query,
    federated,
    running,
    sign_in,
    users_of,
)
from tests.runtime.login.test_decision_records import last
from tests.support.applying import Git, create, ref
from tests.support.oauth_site import PASSWORD, Answer, Browser, Page, Site, assert_page, claims
from tests.support.openid_server import openid_server

from runtime.domain.kinds import PROVIDER, SESSION, USER, ZONE, Verb
from runtime.domain.kinds.session import Session
from runtime.domain.kinds.zone import Zone
from runtime.services import epochs
from runtime.storage.sql import session_roots
from runtime.storage.sql.tables import METADATA

ADA = {"email": "ada@acme.example", "email_verified": True, "name": "Ada", "upn": "ada.lovelace"}


@pytest.fixture(scope="module")
def foreign() -> Iterator[Foreign]:
    """A provider that knows Ada, somebody without an address, and somebody whose address is unverified."""
    with running(
        MockUser(sub="ada", claims=ADA),
        MockUser(sub="ghost", claims={}),
        MockUser(sub="mallory", claims={"email": "ada@acme.example", "upn": "billing"}),
        MockUser(sub="twin", claims={**ADA, "email": "twin@acme.example"}),
    ) as provider:
        yield provider


def session_of(site: Site, zone: Zone, session_id: str) -> Session:
    """A session as the management API reads it."""
    found = site.run(site.company.run(SESSION, Verb.RETRIEVE, {"zone_id": zone.id}, session_id))
    assert isinstance(found, Session)
    return found


class TestForeignProvider:
    """A provider of another make."""

    def test_signs_a_new_user_in(self, site: Site, browser: Browser, foreign: Foreign) -> None:
        """The user is made from the provider's claims, and the application gets its tokens."""
        zone = federated(site, foreign.issuer)
        client = site.app(zone)

        answer = sign_in(browser, client, scope="openid email profile")

        assert isinstance(answer, Answer)
        tokens = client.redeem(answer.code).json()
        (user,) = users_of(site, zone)
        assert (user.email, user.email_verified) == ("ada@acme.example", True)
        assert (user.issuer, user.subject) == (foreign.issuer, "ada")
        assert user.identifier == user.id == claims(tokens["id_token"])["sub"]
        assert client.userinfo(tokens["access_token"]).json()["name"] == "Ada"

    def test_finds_the_user_again(self, site: Site, foreign: Foreign) -> None:
        """By issuer and subject, from whatever browser, also after the provider was made anew."""
        zone = federated(site, foreign.issuer)
        client = site.app(zone)
        assert isinstance(sign_in(Browser(), client), Answer)
        (before,) = users_of(site, zone)
        assert before.provider_id is not None
        site.run(site.company.delete(PROVIDER, zone.id, before.provider_id))
        made = site.run(
            site.company.create(
                PROVIDER,
                zone.id,
                identifier=foreign.issuer,
                name="Again",
                client_id="zone",
                client_secret="s",
            )
        )
        patch = {"user_identity_provider_id": made.id}
        site.run(site.company.run(ZONE, Verb.UPDATE, {}, zone.id, patch))

        assert isinstance(sign_in(Browser(), client), Answer)

        (after,) = users_of(site, zone)
        assert (after.id, after.provider_id) == (before.id, made.id)

    def test_identifier_from_a_claim(self, site: Site, browser: Browser, foreign: Foreign) -> None:
        """The provider's setting says which claim; a second person with the same value is not let in."""
        openid = {"openid": {"user_identifier_claim": "upn"}, "oauth2": {"issuer": foreign.issuer}}
        zone = federated(site, foreign.issuer, protocols=openid)
        client = site.app(zone)

        assert isinstance(sign_in(browser, client), Answer)
        refused = sign_in(Browser(), client, "twin")

        assert isinstance(refused, Page)
        assert_page(refused.response, 403)
        assert [user.identifier for user in users_of(site, zone)] == ["ada.lovelace"]

    @pytest.mark.parametrize("claim", ["user_identifier_claim", "external_id_claim"])
    def test_an_address_that_tells_people_apart_is_verified(
        self, site: Site, foreign: Foreign, claim: str
    ) -> None:
        """Whoever only claims an address becomes neither its owner's user nor the user of that name."""
        openid = {"openid": {claim: "email"}, "oauth2": {"issuer": foreign.issuer}}
        zone = federated(site, foreign.issuer, protocols=openid)
        client = site.app(zone)

        refused = sign_in(Browser(), client, "mallory")
        assert isinstance(refused, Page)
        assert_page(refused.response, 403)
        assert users_of(site, zone) == []

        assert isinstance(sign_in(Browser(), client), Answer)
        (owner,) = users_of(site, zone)
        again = sign_in(Browser(), client, "mallory")
        assert isinstance(again, Page)
        assert_page(again.response, 403)
        assert users_of(site, zone) == [owner]

    def test_nobody_is_named_like_an_application(self, site: Site, foreign: Foreign) -> None:
        """Both stand in tokens as `sub`. Spec: RFC 9068 section 5."""
        openid = {"openid": {"user_identifier_claim": "upn"}, "oauth2": {"issuer": foreign.issuer}}
        zone = federated(site, foreign.issuer, protocols=openid)
        client = site.app(zone)
        assert isinstance(sign_in(Browser(), client), Answer)
        site.app(zone, "billing")

        refused = sign_in(Browser(), client, "mallory")

        assert isinstance(refused, Page)
        assert_page(refused.response, 403)
        assert [user.identifier for user in users_of(site, zone)] == ["ada.lovelace"]

    def test_local_page_is_closed(self, site: Site, foreign: Foreign) -> None:
        """People of such a zone have no password here."""
        zone = federated(site, foreign.issuer)

        assert_page(httpx.get(f"{zone.protocols.oauth2.issuer}/oauth/sign-in?request=x"), 403)

    def test_without_an_address_nobody_is_made(self, site: Site, browser: Browser, foreign: Foreign) -> None:
        """A user has an e-mail address."""
        zone = federated(site, foreign.issuer)

        refused = sign_in(browser, site.app(zone), "ghost")

        assert isinstance(refused, Page)
        assert_page(refused.response, 403)
        assert users_of(site, zone) == []

    def test_a_disabled_user_stays_out(self, site: Site, foreign: Foreign) -> None:
        """Whatever the provider says."""
        zone = federated(site, foreign.issuer)
        client = site.app(zone)
        assert isinstance(sign_in(Browser(), client), Answer)
        (user,) = users_of(site, zone)
        site.run(site.company.run(USER, Verb.UPDATE, {"zone_id": zone.id}, user.id, {"status": "disabled"}))

        refused = sign_in(Browser(), client)

        assert isinstance(refused, Page)
        assert_page(refused.response, 403)

    @pytest.mark.parametrize(("sub", "joined"), [("ada", True), ("mallory", False)])
    def test_memberships_wait_for_a_verified_address(
        self, site: Site, browser: Browser, foreign: Foreign, sub: str, joined: bool
    ) -> None:
        """Claiming an address is not having it."""
        zone = federated(site, foreign.issuer)
        group = site.run(site.company.group(zone, "engineering"))
        invitees, members = METADATA.tables["group_invitees"], METADATA.tables["group_members"]

        async def invite() -> None:
            async with site.services.database.transaction() as conn:
                row = {"zone_id": zone.id, "group_id": group.id, "email": "ada@acme.example"}
                await conn.execute(invitees.insert().values(**row, created_at=site.services.clock()))

        async def count() -> int:
            async with site.services.database.reading() as conn:
                found = await conn.execute(select(members).where(members.c.group_id == group.id))
                return len(found.all())

        site.run(invite())
        assert isinstance(sign_in(browser, site.app(zone), sub), Answer)

        assert site.run(count()) == int(joined)

    @pytest.mark.parametrize(("sub", "given"), [("ada", True), ("mallory", False)])
    @pytest.mark.parametrize("known", [False, True])
    def test_roles_wait_for_a_verified_address(
        self, site: Site, browser: Browser, foreign: Foreign, sub: str, given: bool, known: bool
    ) -> None:
        """A role that git gives to an address is for whoever has it, new to the zone or not."""
        zone = federated(site, foreign.issuer)
        client = site.app(zone)
        if known:
            assert isinstance(sign_in(Browser(), client, sub), Answer)
        role = create("Role", "auditor", zone.id)
        to_ada = create(
            "RoleAssignment",
            "ada",
            zone.id,
            role_id=ref("Role", "auditor"),
            principal={"user": "Ada@acme.example"},
        )
        site.run(Git(site.company).apply(role, to_ada))
        assert isinstance(sign_in(browser, client, sub), Answer)
        (user,) = users_of(site, zone)

        async def roles() -> tuple[str, ...]:
            async with site.services.database.reading() as conn:
                return (await session_roots.memberships(conn, zone.id, user.id)).roles

        assert site.run(roles()) == (("auditor",) if given else ())

    @pytest.mark.standard("RFC 9470")
    @pytest.mark.parametrize(
        ("said", "told"),
        [
            ("access_denied", "access_denied"),
            ("unmet_authentication_requirements", "unmet_authentication_requirements"),
            ("temporarily_unavailable", "temporarily_unavailable"),
            ("something_of_its_own", "server_error"),
        ],
    )
    def test_a_refusal_of_the_provider_is_told_to_the_application(
        self, site: Site, browser: Browser, foreign: Foreign, said: str, told: str
    ) -> None:
        """The application hears what of it concerns the application."""
        zone = federated(site, foreign.issuer)
        client = site.app(zone)
        page = at_provider(browser, client)
        state = parse_qs(urlsplit(str(page.url)).query)["state"][0]

        heard = browser.open(f"{client.issuer}/oauth/callback?{urlencode({'error': said, 'state': state})}")

        assert isinstance(heard, Answer)
        assert (heard.values["error"], heard.values["iss"]) == (told, client.issuer)

    @pytest.mark.parametrize(
        "said", ["access_denied", "login_required", "interaction_required", "consent_required"]
    )
    def test_a_sign_in_that_the_provider_did_not_complete(
        self, site: Site, browser: Browser, foreign: Foreign, said: str
    ) -> None:
        """Whatever kept the user from it, the application is told that there was no access."""
        client = site.app(federated(site, foreign.issuer))
        state = parse_qs(urlsplit(str(at_provider(browser, client).url)).query)["state"][0]

        heard = browser.open(f"{client.issuer}/oauth/callback?{urlencode({'error': said, 'state': state})}")

        assert isinstance(heard, Answer)
        assert heard.values["error"] == "access_denied"
        assert heard.values["error_description"] == "the identity provider did not complete the sign-in"

    def test_a_sign_in_in_the_future_happens_now(
        self, site: Site, browser: Browser, foreign: Foreign
    ) -> None:
        """A provider whose clock is ahead does not make sessions that count as recent for longer."""
        client = site.app(federated(site, foreign.issuer))
        ahead = int(site.services.clock().timestamp()) + 30
        foreigner = {**ADA, "auth_time": ahead}
        assert httpx.put(f"{foreign.issuer}/users/early", json=foreigner).status_code == 204

        answer = sign_in(browser, client, "early")

        assert isinstance(answer, Answer)
        assert claims(client.redeem(answer.code).json()["id_token"])["auth_time"] < ahead

    def test_a_callback_after_the_zone_changed_its_provider(
        self, site: Site, browser: Browser, foreign: Foreign
    ) -> None:
        """A sign-in that one provider was asked for is not finished as another's, even of the same issuer."""
        zone = federated(site, foreign.issuer)
        back = as_person(browser, at_provider(browser, site.app(zone)), "ada")
        body = {"identifier": "https://second.example", "name": "Second", "client_id": "zone"}
        oauth2 = {"oauth2": {"issuer": foreign.issuer}}
        second = site.run(site.company.create(PROVIDER, zone.id, client_secret="s", protocols=oauth2, **body))
        patch = {"user_identity_provider_id": second.id}
        site.run(site.company.run(ZONE, Verb.UPDATE, {}, zone.id, patch))

        refused = browser.open(back)

        assert isinstance(refused, Page)
        assert_page(refused.response, 400)
        assert users_of(site, zone) == []

    def test_a_provider_that_is_away_is_temporarily_unavailable(self, site: Site, browser: Browser) -> None:
        """The application hears that it is for now, and the request id that the record is found by."""
        zone = federated(site, "http://127.0.0.1:9")

        heard = browser.open(site.app(zone).url())

        assert isinstance(heard, Answer)
        assert heard.values["error"] == "temporarily_unavailable"
        assert heard.values["error_description"].startswith(
            "the identity provider of this zone cannot be reached; try again, or tell an administrator"
        )
        assert str(last(site, zone).request_id) in heard.values["error_description"]

    def test_what_the_provider_is_asked(self, site: Site, browser: Browser, foreign: Foreign) -> None:
        """PKCE, nonce and state of the zone's own, nothing of the application's; the settings honoured."""
        oauth2 = {"issuer": foreign.issuer, "authorization_parameters": {"hd": "acme.example"}}
        zone = federated(site, foreign.issuer, protocols={"oauth2": oauth2, "openid": {"scopes": ["phone"]}})
        client = site.app(zone)

        page = at_provider(browser, client, login_hint="ada@acme.example", prompt="login")
        query = {name: values[0] for name, values in parse_qs(urlsplit(str(page.url)).query).items()}

        assert query["redirect_uri"] == f"{client.issuer}/oauth/callback"
        assert query["code_challenge_method"] == "S256"
        assert query["scope"].split() == ["openid", "profile", "email", "phone"]
        assert (query["hd"], query["login_hint"], query["prompt"]) == (
            "acme.example",
            "ada@acme.example",
            "login",
        )
        assert not {client.state, client.nonce, client.challenge} & set(query.values())


@pytest.mark.standard("OpenID Connect Core")
@pytest.mark.parametrize(
    ("published", "configured", "asked"),
    [
        (None, None, "select_account"),
        (["none", "login", "select_account"], None, "select_account"),
        (["none", "login", "consent"], None, "login"),
        (["none", "consent"], None, None),
        (None, ["none", "login"], "login"),
        (["none", "login"], ["select_account"], "select_account"),
    ],
    ids=["says nothing", "knows it", "does not", "nor login", "configured", "configured over published"],
)
def test_a_provider_is_asked_to_select_an_account_only_where_it_knows_how(
    site: Site, published: list[str] | None, configured: list[str] | None, asked: str | None
) -> None:
    """Where it does not, its sign-in page is asked for, on which another account can be chosen."""
    with openid_server() as provider:
        provider.says = {"sub": "ada", **ADA}
        if published is not None:
            provider.publishes = {"prompt_values_supported": published}
        oauth2 = {"issuer": provider.issuer, "prompt_values_supported": configured}
        client = site.app(federated(site, provider.issuer, protocols={"oauth2": oauth2}))

        answer = Browser().open(client.url(prompt="select_account"))

        assert isinstance(answer, Answer)
        assert client.redeem(answer.code).status_code == 200
        assert [each.get("prompt") for each in provider.asked] == [asked]
        again = Browser().open(client.url(prompt="login"))
        assert isinstance(again, Answer), "what is asked for itself is always passed on"
        assert provider.asked[-1]["prompt"] == "login"


class TestCallback:
    """Only the browser that was sent away comes back, once, and from the provider it was sent to."""

    @pytest.mark.threat("4c")
    @pytest.mark.standard("RFC 9207")
    def test_another_issuer_answers(self, site: Site, browser: Browser, foreign: Foreign) -> None:
        """An error page, and the code is never shown to any token endpoint."""
        zone = federated(site, foreign.issuer)
        client = site.app(zone)
        assert isinstance(sign_in(Browser(), client), Answer)
        back = as_person(browser, at_provider(browser, client), "ada")
        foreign.asked.clear()

        refused = browser.http.get(changed_query(back, iss="https://evil.example"))

        assert_page(refused, 403)
        assert foreign.asked == []

    @pytest.mark.threat("4g")
    @pytest.mark.standard("RFC 9700")
    @pytest.mark.parametrize("answered_by", [None, "other"])
    def test_an_answer_at_another_redirect_uri(
        self, site: Site, browser: Browser, foreign: Foreign, answered_by: str | None
    ) -> None:
        """A provider with a redirect URI of its own answers there alone; nothing is redeemed."""
        zone = federated(site, foreign.issuer, protocols={"oauth2": {"distinct_redirect_uri": True}})
        client = site.app(zone)
        own = zone.user_identity_provider_id
        assert isinstance(sign_in(Browser(), client), Answer)
        back = as_person(browser, at_provider(browser, client), "ada")
        assert f"/oauth/callback?answered_by={own}&" in back
        foreign.asked.clear()

        refused = browser.http.get(changed_query(back, answered_by=answered_by))

        assert_page(refused, 403)
        assert foreign.asked == []

    @pytest.mark.threat("4e")
    def test_state_of_another_zone(self, site: Site, browser: Browser, foreign: Foreign) -> None:
        """What was begun at one zone cannot be ended at another."""
        here, there = federated(site, foreign.issuer, "Here"), federated(site, foreign.issuer, "There")
        client = site.app(here)
        back = as_person(browser, at_provider(browser, client), "ada")
        assert isinstance(browser.open(back), Answer)

        back = as_person(browser, at_provider(browser, client, prompt="login"), "ada")
        at_provider(browser, site.app(there))  # so that the browser has cookies of both
        foreign.asked.clear()
        refused = browser.http.get(back.replace(here.id, there.id))

        assert_page(refused, 400)
        assert foreign.asked == []
        assert users_of(site, there) == []

    @pytest.mark.threat("22b", "22c")
    def test_callback_without_the_pre_login_cookie(
        self, site: Site, browser: Browser, foreign: Foreign
    ) -> None:
        """The attacker's own callback, opened in the victim's browser, signs nobody in."""
        zone = federated(site, foreign.issuer)
        client = site.app(zone)
        assert isinstance(sign_in(Browser(), client), Answer)
        back = as_person(browser, at_provider(browser, client), "ada")
        foreign.asked.clear()
        victim, other = Browser(), Browser()
        at_provider(other, client)  # a browser with a sign-in of its own
        foreign.asked.clear()

        for stranger in (victim, other):
            response = stranger.http.get(back)
            assert_page(response, 400)
            assert not [each for each in stranger.http.cookies.jar if "session" in each.name]
        assert foreign.asked == []

    @pytest.mark.threat("22d")
    def test_a_state_means_nothing_the_second_time(
        self, site: Site, browser: Browser, foreign: Foreign
    ) -> None:
        """The second time it means nothing."""
        client = site.app(federated(site, foreign.issuer))
        back = as_person(browser, at_provider(browser, client), "ada")
        assert isinstance(browser.open(back), Answer)

        assert_page(browser.http.get(back), 400)

    @pytest.mark.threat("22d")
    @pytest.mark.parametrize("changes", [{"state": "made-up"}, {"state": None}])
    def test_state_nobody_gave_out(
        self, site: Site, browser: Browser, foreign: Foreign, changes: dict[str, str | None]
    ) -> None:
        """Nothing happens at the provider."""
        client = site.app(federated(site, foreign.issuer))
        back = as_person(browser, at_provider(browser, client), "ada")
        foreign.asked.clear()

        assert_page(browser.http.get(changed_query(back, **changes)), 400)
        assert foreign.asked == []

    def test_code_the_provider_does_not_know(self, site: Site, browser: Browser, foreign: Foreign) -> None:
        """A page that says so, and no session."""
        client = site.app(federated(site, foreign.issuer))
        back = as_person(browser, at_provider(browser, client), "ada")

        assert_page(browser.http.get(changed_query(back, code="made-up")), 503)
        assert not [each for each in browser.http.cookies.jar if "session" in each.name]

    def test_nonce_of_another_sign_in(self, site: Site, browser: Browser, foreign: Foreign) -> None:
        """A code that the provider gave for another sign-in carries another nonce, and is refused."""
        client = site.app(federated(site, foreign.issuer))
        other = Browser()
        injected = parse_qs(urlsplit(as_person(other, at_provider(other, client), "mallory")).query)["code"][
            0
        ]
        back = as_person(browser, at_provider(browser, client), "ada")

        assert_page(browser.http.get(changed_query(back, code=injected)), 503)


class TestClaims:
    """What of the provider's claims goes into the session."""

    def test_the_id_tokens_claims_are_preferred_to_userinfos(self, site: Site, browser: Browser) -> None:
        """Userinfo completes an ID token without an address, and replaces nothing that was signed."""
        with openid_server() as provider:
            provider.says = {"sub": "ada", "name": "Ada of the ID token"}
            provider.tells = {"sub": "ada", "name": "Ada of userinfo", "email": ADA["email"]}
            zone = federated(site, provider.issuer)
            client = site.app(zone)

            answer = browser.open(client.url(scope="openid profile"))

        assert isinstance(answer, Answer)
        told = client.userinfo(client.redeem(answer.code).json()["access_token"]).json()
        assert told["name"] == "Ada of the ID token"
        assert [user.email for user in users_of(site, zone)] == [ADA["email"]]

    def test_the_session_says_what_the_id_token_said(self, site: Site, browser: Browser) -> None:
        """`session_data` has the claims of the provider's ID token, but not what ties it to one response."""
        said = {"sub": "ada", "name": "Ada", "email": ADA["email"], "groups": ["staff", "it"], "age": 36}
        with openid_server() as provider:
            provider.says = said
            client = site.app(federated(site, provider.issuer))
            issuer = provider.issuer

            answer = browser.open(client.url(scope="openid profile"))

        assert isinstance(answer, Answer)
        access_token = client.redeem(answer.code).json()["access_token"]
        below = session_of(site, client.zone, str(claims(access_token)["sid"]))
        shown = session_of(site, client.zone, str(below.parent_id)).session_data
        assert shown is not None
        assert said.items() <= shown.items()
        assert (shown["iss"], shown["aud"]) == (issuer, "zone")
        assert not {"nonce", "at_hash"} & shown.keys()
        assert below.session_data == shown
        assert client.userinfo(access_token).json().keys() == {"sub", "name"}, "`groups` is no profile claim"

    def test_ten_authentication_methods_are_kept(self, site: Site, browser: Browser) -> None:
        """The first ten values of `amr` go into tokens, however many a provider sends."""
        methods = [f"method-{number}" for number in range(12)]
        with openid_server() as provider:
            provider.says = {"sub": "ada", "email": ADA["email"], "amr": methods}
            client = site.app(federated(site, provider.issuer))

            answer = browser.open(client.url())

        assert isinstance(answer, Answer)
        assert claims(client.redeem(answer.code).json()["id_token"])["amr"] == methods[:10]

    def test_another_process_hears_of_a_changed_user(self, site: Site) -> None:
        """The sign-in publishes that the user has changed: cached data of other processes is out of date."""
        with openid_server() as provider:
            client = site.app(federated(site, provider.issuer))
            provider.says = {"sub": "ada", "email": "before@acme.example", "email_verified": True}
            assert isinstance(Browser().open(client.url()), Answer)
            (ada,) = users_of(site, client.zone)
            provider.says |= {"email": "after@acme.example"}

            assert isinstance(Browser().open(client.url()), Answer)

        (stored,) = users_of(site, client.zone)
        published = site.run(site.services.state.get(epochs.user_key(ada.id)))
        assert stored.epoch > ada.epoch
        assert published == str(stored.epoch).encode()


def test_one_zone_signs_in_at_another(site: Site, browser: Browser) -> None:
    """The workforce zone keeps the passwords; the product zone knows people by what it says."""
    workforce = site.zone("Workforce")
    site.user(workforce)
    product = site.zone("Product")
    door = site.app(
        workforce,
        "product-zone",
        public=True,
        protocols={"oauth2": {"redirect_uris": [str(product.protocols.oauth2.redirect_uri)]}},
    )
    issuer = str(workforce.protocols.oauth2.issuer)
    provider = site.run(
        site.company.create(
            PROVIDER,
            product.id,
            identifier=issuer,
            name="Workforce",
            client_id=door.app.client_id,
            protocols={"oauth2": {"issuer": issuer}},
        )
    )
    site.run(site.company.run(ZONE, Verb.UPDATE, {}, product.id, {"user_identity_provider_id": provider.id}))
    files = site.run(site.company.resource(product, "https://files.example", scopes=["read"]))
    agent = site.app(product, "Agent", consent="required", dependencies=[files])

    page = browser.open(agent.url(resources=[files.identifier]))
    assert isinstance(page, Page)
    assert page.action == f"{issuer}/oauth/sign-in"
    page = browser.send(page, email="ada@acme.example", password=PASSWORD)
    assert isinstance(page, Page)
    assert page.action == f"{agent.issuer}/oauth/consent"
    answer = browser.send(page, decision="allow")

    assert isinstance(answer, Answer)
    tokens = agent.redeem(answer.code).json()
    (person,) = users_of(site, product)
    assert (person.email, person.email_verified, person.issuer) == ("ada@acme.example", True, issuer)
    assert claims(tokens["access_token"])["sub"] == person.identifier
    assert claims(tokens["access_token"])["aud"] == files.identifier
    assert all(each.status_code in (200, 303) for each in browser.visited)


@pytest.mark.standard("RFC 8707")
@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, None),
        ({"authorization_resource_enabled": False, "authorization_resource_parameter": "audience"}, None),
        ({"authorization_resource_enabled": True}, "resource"),
        (
            {"authorization_resource_enabled": True, "authorization_resource_parameter": "audience"},
            "audience",
        ),
    ],
)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_provider_is_told_what_the_application_asks_for_where_it_wants_to_be(
    site: Site, browser: Browser, foreign: Foreign, settings: dict[str, Any], name: str | None, number: int
) -> None:
    """Each resource by its identifier, under the name that the provider has for it."""
    zone = federated(site, foreign.issuer, protocols={"oauth2": {"issuer": foreign.issuer, **settings}})
    apis = [
        site.run(site.company.resource(zone, f"https://api-{each}.example", scopes=["read"]))
        for each in range(number)
    ]
    agent = site.app(zone, "Agent", dependencies=apis)
    named = [each.identifier for each in apis]

    page = at_provider(browser, agent, resources=named)

    sent = parse_qs(urlsplit(str(page.url)).query)
    told = {each: sorted(sent[each]) for each in ("resource", "audience") if each in sent}
    assert told == ({name: named} if name and named else {})
    assert isinstance(browser.open(as_person(browser, page, "ada")), Answer)
