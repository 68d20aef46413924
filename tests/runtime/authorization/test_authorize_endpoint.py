"""The authorize endpoint: which refusals are pages, which are redirects, and what a redirect carries."""

import re
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from tests.support.oauth_site import CALLBACK, Answer, Browser, Page, Site, assert_page, claims

from runtime.domain.kinds import RESOURCE, ZONE, Verb


def refused(browser: Browser, url: str) -> dict[str, str]:
    """What the application hears about a refused request."""
    place = browser.open(url)
    assert isinstance(place, Answer), place.text
    assert place.location.startswith(f"{CALLBACK}?")
    assert "code" not in place.values
    return place.values


class TestPages:
    """Nobody is redirected before client and redirect URI are known to belong together."""

    @pytest.mark.parametrize(
        "changes",
        [
            {"client_id": None},
            {"client_id": "nobody"},
            {"redirect_uri": None},
            {"redirect_uri": "https://evil.example/callback"},
        ],
    )
    def test_answers_with_a_page_when_nobody_can_be_redirected(
        self, site: Site, browser: Browser, changes: dict[str, Any]
    ) -> None:
        """A page with 400 and no Location."""
        client = site.app(site.zone())
        assert isinstance(browser.open(client.url()), Page)

        assert_page(browser.http.get(client.url(**changes)), 400)

    @pytest.mark.parametrize("name", ["client_id", "redirect_uri"])
    def test_refuses_a_doubled_client_or_address_on_a_page(
        self, site: Site, browser: Browser, name: str
    ) -> None:
        """The same value twice is refused too: readers would disagree which one counts."""
        client = site.app(site.zone())
        value = {"client_id": client.app.client_id, "redirect_uri": CALLBACK}[name]

        assert_page(browser.http.get(client.url(extra=[(name, value)])), 400)

    def test_an_unknown_zone_is_a_page_with_404(self, site: Site) -> None:
        """An address of no zone is a page with 404."""
        assert_page(httpx.get(f"{site.server.url}/z/nowhere/oauth/authorize"), 404)

    @pytest.mark.threat("5a", "5b", "5c", "5d", "5e", "5f", "5g", "5h", "5i", "5j", "5k", "5l", "5m")
    @pytest.mark.standard("RFC 9700")
    @pytest.mark.parametrize(
        ("registered", "requested"),
        [
            ("https://app.example/callback", "https://app.example./callback"),
            ("https://app.example/callback", "https://APP.example/callback"),
            ("https://app.example/callback", "HTTPS://app.example/callback"),
            ("https://app.example/callback", "https://app.example/callback/..;/x"),
            ("https://app.example/callback", "https://app.example/a/..;/callback"),
            ("https://app.example/callback", "https://app.example/%2e%2e/callback"),
            ("https://app.example/callback", "https://app.example\\callback"),
            ("https://app.example/callback", "https://app.example/\\evil.example/callback"),
            ("https://app.example/callback", "https://app.example@evil.example/callback"),
            ("https://app.example/callback", "https://evil.example#https://app.example/callback"),
            ("https://app.example/callback", "https://app.example.evil.example/callback"),
            ("https://app.example/callback", "https://app.example/callback?added=1"),
            ("https://app.example/callback", "https://app.example/callback?code=x&state=y"),
            ("https://app.example/callback", "https://app.example/callback#x"),
            ("https://app.example/callback", "https://app.example/callback/"),
            ("https://app.example/callback", "https://app.example/CALLBACK"),
            ("https://app.example/callback", "https://app.example:444/callback"),
            ("https://app.example/callback", "https://app.example:443/callback"),
            ("https://app.example/callback", "http://app.example/callback"),
            ("https://app.example/callback", "//app.example/callback"),
            ("https://app.example/callback", "/callback"),
            ("https://app.example/callback", "https:/app.example/callback"),
            ("https://app.example/callback", "https://\u0430pp.example/callback"),
            ("https://app.example/callback", "https://app.example/callback\n"),
            ("https://app.example/callback", " https://app.example/callback"),
            ("https://app.example/callback", "javascript:alert(1)//https://app.example/callback"),
            ("https://app.example/callback", "JavaScript:alert(1)"),
            ("https://app.example/callback", "data:text/html,x"),
            ("http://localhost:8600/callback", "http://localhost.evil.example/callback"),
            ("http://localhost:8600/callback", "http://localhost:8600@evil.example/callback"),
            ("http://localhost:8600/callback", "http://localhost:8600/other"),
            ("http://localhost:8600/callback", "http://127.0.0.1:8600/callback"),
            ("http://127.0.0.1:8600/callback", "http://127.0.0.1:8600/callback/../x"),
            ("http://127.0.0.1:8600/callback", "http://127.0.0.2:8600/callback"),
            ("http://127.0.0.1:8600/callback", "http://127.0.0.1:99999/callback"),
            ("com.example.app:/callback", "com.example.app:/callback2"),
            ("com.example.app:/callback", "com.example.evil:/callback"),
        ],
    )
    def test_no_variation_of_a_redirect_uri_is_taken(
        self, site: Site, browser: Browser, registered: str, requested: str
    ) -> None:
        """Every variation of a registered address is refused on a page; the address itself is taken."""
        client = site.app(site.zone(), protocols={"oauth2": {"redirect_uris": [registered]}})
        assert browser.http.get(client.url(redirect_uri=registered)).status_code == 303

        assert_page(browser.http.get(client.url(redirect_uri=requested)), 400)

    @pytest.mark.threat("5n")
    @pytest.mark.standard("RFC 8252")
    @pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
    def test_the_port_of_a_loopback_address_may_differ(self, site: Site, browser: Browser, host: str) -> None:
        """The single variation that is allowed. Spec: RFC 8252 section 7.3."""
        registered, requested = f"http://{host}:8600/callback", f"http://{host}:51234/callback"
        client = site.app(site.zone(), protocols={"oauth2": {"redirect_uris": [registered]}})

        response = browser.http.get(client.url(redirect_uri=requested, prompt="none"))

        assert response.headers["location"].startswith(f"{requested}?error=login_required")


class TestRefusals:
    """From then on every refusal goes to the application."""

    @pytest.mark.standard("RFC 9101", "RFC 9396")
    @pytest.mark.parametrize(
        ("changes", "error"),
        [
            ({"response_type": None}, "invalid_request"),
            ({"response_type": "token"}, "unsupported_response_type"),
            ({"response_type": "code id_token"}, "unsupported_response_type"),
            ({"response_mode": "fragment"}, "invalid_request"),
            ({"scope": "calendar.read"}, "invalid_scope"),
            ({"scope": 'open"id'}, "invalid_scope"),
            ({"prompt": "none"}, "login_required"),
            ({"prompt": "none login"}, "invalid_request"),
            ({"prompt": "dance"}, "invalid_request"),
            ({"max_age": "-1"}, "invalid_request"),
            ({"max_age": "soon"}, "invalid_request"),
            ({"request": "eyJ"}, "request_not_supported"),
            ({"request_uri": "https://evil.example/r"}, "request_uri_not_supported"),
            ({"registration": "{}"}, "registration_not_supported"),
            ({"authorization_details": "[]"}, "invalid_request"),
            ({"id_token_hint": "nonsense"}, "invalid_request"),
        ],
    )
    def test_tells_the_application(
        self, site: Site, browser: Browser, changes: dict[str, Any], error: str
    ) -> None:
        """With error, the state as it came, and the issuer."""
        client = site.app(site.zone())
        assert isinstance(browser.open(client.url()), Page)

        heard = refused(browser, client.url(**changes))

        assert (heard["error"], heard["state"], heard["iss"]) == (error, client.state, client.issuer)

    @pytest.mark.standard("OAuth 2.1")
    @pytest.mark.parametrize(
        "values", [("a", "b"), ("", "a"), ("a", "")], ids=["two values", "first empty", "second empty"]
    )
    @pytest.mark.parametrize(
        "name", ["scope", "nonce", "code_challenge", "prompt", "response_type", "unheard_of"]
    )
    def test_refuses_a_parameter_sent_twice(
        self, site: Site, browser: Browser, name: str, values: tuple[str, str]
    ) -> None:
        """Whatever it is called; readers differ about an empty one, too. Spec: RFC 6749 section 3.1."""
        client = site.app(site.zone())

        heard = refused(browser, client.url(**{name: None}, extra=[(name, value) for value in values]))

        assert heard["error"] == "invalid_request"

    @pytest.mark.parametrize(
        "changes",
        [{"prompt": 'd\u00e4"nce'}, {"extra": [('a"\r\nb', "1")] * 2}],
        ids=["in a value", "in a name"],
    )
    def test_what_is_repeated_of_a_request_is_plain(
        self, site: Site, browser: Browser, changes: dict[str, Any]
    ) -> None:
        """Quotes, controls and other alphabets are none of a description's. Spec: RFC 6749 appendix A.8."""
        client = site.app(site.zone())

        told = refused(browser, client.url(**changes))["error_description"]

        assert "?" in told
        assert re.fullmatch(r"[\x20\x21\x23-\x5b\x5d-\x7e]+", told)

    def test_a_name_too_long_to_be_repeated_is_refused_on_a_page(self, site: Site) -> None:
        client = site.app(site.zone())
        assert_page(httpx.get(client.url(extra=[("n" * 201, "1")])), 400)

    def test_a_doubled_state_is_not_repeated(self, site: Site, browser: Browser) -> None:
        """Which of the two the application meant cannot be known."""
        client = site.app(site.zone())

        heard = refused(browser, client.url(extra=[("state", "other")]))

        assert heard["error"] == "invalid_request"
        assert "state" not in heard

    @pytest.mark.threat("2a", "2c")
    @pytest.mark.standard("RFC 7636")
    @pytest.mark.parametrize(
        "changes",
        [
            {"code_challenge": None, "code_challenge_method": None},
            {"code_challenge_method": None},
            {"code_challenge_method": "plain"},
            {"code_challenge": "short"},
        ],
        ids=["no challenge", "no method", "plain", "challenge that is no digest"],
    )
    def test_pkce_cannot_be_left_out_or_weakened(
        self, site: Site, browser: Browser, changes: dict[str, Any]
    ) -> None:
        """A method that is left out means plain; the application hears it by redirect."""
        client = site.app(site.zone())
        assert isinstance(browser.open(client.url()), Page)

        heard = refused(browser, client.url(**changes))

        assert (heard["error"], heard["iss"]) == ("invalid_request", client.issuer)

    @pytest.mark.threat("2e")
    @pytest.mark.standard("RFC 9700")
    @pytest.mark.deviation("pkce-public-clients")
    def test_a_public_client_never_does_without(self, site: Site, browser: Browser) -> None:
        """Where a zone leaves PKCE to its clients, those with a secret may leave it out."""
        zone = site.zone(protocols={"oauth2": {"pkce_required": False}})
        secret, public = site.app(zone), site.app(zone, "public", public=True)
        without: dict[str, Any] = {"code_challenge": None, "code_challenge_method": None}
        assert isinstance(browser.open(secret.url(**without)), Page)
        assert isinstance(browser.open(public.url()), Page)

        assert refused(browser, public.url(**without))["error"] == "invalid_request"

    @pytest.mark.threat("4a", "4b")
    @pytest.mark.standard("RFC 9207")
    def test_success_and_failure_name_the_issuer(self, site: Site, browser: Browser) -> None:
        """`iss` is on both kinds of redirect, byte for byte what the metadata says. Spec: RFC 9207."""
        zone = site.zone()
        client = site.app(zone)
        site.user(zone)
        published = httpx.get(f"{client.issuer}/.well-known/openid-configuration").json()["issuer"]

        failed = refused(browser, client.url(prompt="none"))
        succeeded = browser.sign_in(browser.open(client.url())).values

        assert failed["iss"] == succeeded["iss"] == published


class TestResources:
    """`resource` is settled at authorize; the token endpoint can only narrow it."""

    def test_refuses_what_the_application_may_not_ask_for(self, site: Site, browser: Browser) -> None:
        """An unknown resource, and one that is no dependency, are told alike."""
        zone = site.zone()
        files = site.run(site.company.resource(zone, "https://files.example", scopes=["read"]))
        site.run(site.company.resource(zone, "https://mail.example", scopes=["read"]))
        client = site.app(zone, dependencies=[files])
        assert isinstance(browser.open(client.url(resources=["https://files.example"])), Page)

        other = refused(browser, client.url(resources=["https://mail.example"]))
        unknown = refused(browser, client.url(resources=["https://nothing.example"]))

        assert other["error"] == unknown["error"] == "invalid_target"
        assert other["error_description"] == unknown["error_description"]

    @pytest.mark.threat("16d")
    def test_what_an_application_provides_it_declares_like_any_other(
        self, site: Site, browser: Browser
    ) -> None:
        """At sign-in and at the token endpoint one rule says which resources an application may have."""
        zone = site.zone()
        site.user(zone)
        names = ("https://declared.example", "https://own.example")
        declared, own = (site.run(site.company.resource(zone, name, scopes=["read"])) for name in names)
        client = site.app(zone, dependencies=[declared])
        for each in (declared, own):
            site.run(site.company.update(RESOURCE, zone.id, each.id, application_id=client.app.id))

        def by_itself(name: str) -> Any:
            return client.token(grant_type="client_credentials", resource=name).json().get("error")

        tokens = client.sign_in(browser, resources=[declared.identifier])
        assert claims(tokens["access_token"])["aud"] == declared.identifier
        assert by_itself(declared.identifier) is None

        assert refused(browser, client.url(resources=[own.identifier]))["error"] == "invalid_target"
        assert by_itself(own.identifier) == "invalid_target"

    @pytest.mark.standard("RFC 8707")
    def test_audience_follows_what_was_authorized(self, site: Site) -> None:
        """One resource is the audience; without any, or with several, the zone itself is."""
        zone = site.zone()
        files = site.run(site.company.resource(zone, "https://files.example", scopes=["read", "write"]))
        mail = site.run(site.company.resource(zone, "https://mail.example", scopes=["send"]))
        client = site.app(zone, dependencies=[files, mail])
        site.user(zone)
        browser = Browser()

        none = client.sign_in(browser)
        one = client.sign_in(browser, resources=[files.identifier], scope="openid read")
        both = client.sign_in(browser, resources=[files.identifier, mail.identifier])

        assert claims(none["access_token"])["aud"] == client.issuer
        assert claims(one["access_token"])["aud"] == files.identifier
        assert claims(one["access_token"])["scope"] == "read"
        assert one["scope"] == "openid read"
        assert claims(both["access_token"])["aud"] == client.issuer

    @pytest.mark.standard("RFC 8707")
    def test_the_token_request_only_narrows(self, site: Site, browser: Browser) -> None:
        """One of several may be named; one that was not authorized, or two, may not."""
        zone = site.zone()
        files = site.run(site.company.resource(zone, "https://files.example", scopes=["read"]))
        mail = site.run(site.company.resource(zone, "https://mail.example", scopes=["send"]))
        chat = site.run(site.company.resource(zone, "https://chat.example", scopes=["talk"]))
        client = site.app(zone, dependencies=[files, mail, chat])
        site.user(zone)
        asked = [files.identifier, mail.identifier]
        code = browser.sign_in(browser.open(client.url(resources=asked))).code
        good = client.redeem(code, resource=mail.identifier)
        assert claims(good.json()["access_token"])["aud"] == mail.identifier

        places = [browser.open(client.url(resources=asked)) for _ in range(2)]
        codes = [place.code for place in places if isinstance(place, Answer)]
        refusals = [
            client.redeem(code, resource=named).json()["error"]
            for code, named in zip(codes, (chat.identifier, asked), strict=True)
        ]
        assert refusals == ["invalid_target"] * 2

    @pytest.mark.threat("16g")
    def test_scopes_that_are_named_are_all_that_is_meant(self, site: Site, browser: Browser) -> None:
        """A resource's scopes are all meant only where none is named: not for one of another, or none's."""
        zone = site.zone()
        files = site.run(site.company.resource(zone, "https://files.example", scopes=["read", "write"]))
        mail = site.run(site.company.resource(zone, "https://mail.example", scopes=["send"]))
        client = site.app(zone, dependencies=[files, mail])
        site.user(zone)
        both = [files.identifier, mail.identifier]

        def granted(scope: str, target: str) -> str | None:
            tokens = client.sign_in(browser, resources=both, scope=scope)
            narrowed = client.refresh(tokens["refresh_token"], resource=target).json()
            found: str | None = claims(narrowed["access_token"]).get("scope")
            return found

        assert granted("openid", files.identifier) == "read write"
        assert granted("openid", mail.identifier) == "send"
        assert granted("openid read", files.identifier) == "read"
        assert granted("openid read", mail.identifier) is None
        assert granted("openid read nonsense", files.identifier) == "read"
        assert refused(browser, client.url(resources=both, scope="openid reed"))["error"] == "invalid_scope"
        one = refused(browser, client.url(resources=[files.identifier], scope="openid send"))
        assert one["error"] == "invalid_scope"

    def test_the_default_resource_is_meant_when_none_is_named(self, site: Site) -> None:
        """A zone's default resource is meant when none is named, by applications that may have it."""
        zone = site.zone()
        files = site.run(site.company.resource(zone, "https://files.example", scopes=["read"]))
        site.run(site.company.run(ZONE, Verb.UPDATE, {}, zone.id, {"default_resource_id": files.id}))
        site.user(zone)

        depending = site.app(zone, "depending", dependencies=[files]).sign_in()
        stranger = site.app(zone, "stranger").sign_in()

        assert claims(depending["access_token"])["aud"] == files.identifier
        assert claims(stranger["access_token"])["aud"] == str(zone.protocols.oauth2.issuer)

        other = site.app(zone, "other", dependencies=[files])
        part, signed_in = other.sign_in(scope="openid read"), other.sign_in(scope="openid phone")
        assert claims(part["access_token"])["aud"] == files.identifier
        assert claims(signed_in["access_token"])["aud"] == other.issuer
        assert signed_in["scope"] == "openid"

    def test_policies_hold_for_sign_in_too(self, site: Site, browser: Browser) -> None:
        """Naming a resource at authorize is no way around what the policies refuse in an exchange."""
        zone = site.zone()
        files = site.run(site.company.resource(zone, "https://files.example", scopes=["read"]))
        client = site.app(zone, dependencies=[files])
        site.user(zone)
        client.sign_in(browser, resources=[files.identifier])
        site.run(
            site.company.policies(
                zone, 'forbid (principal, action, resource == Resource::"https://files.example");'
            )
        )

        place = browser.open(client.url(resources=[files.identifier]))
        assert isinstance(place, Answer)
        heard = client.redeem(place.code).json()

        assert (heard["error"], heard["reason"]) == ("access_denied", "policy_denied")


class TestSingleSignOn:
    """One sign-in serves the applications of a zone, and no other zone."""

    def test_second_application_asks_nothing(self, site: Site, browser: Browser) -> None:
        """Signed in once, the next application gets its code at once, also with `prompt=none`."""
        zone = site.zone()
        site.user(zone)
        site.app(zone, "first").sign_in(browser)

        place = browser.open(site.app(zone, "second").url(prompt="none"))

        assert isinstance(place, Answer)
        assert place.code

    def test_never_across_zones(self, site: Site, browser: Browser) -> None:
        """The other zone knows nobody, though it lives on the same host."""
        here, there = site.zone("Here"), site.zone("There")
        site.user(here)
        site.app(here).sign_in(browser)

        assert refused(browser, site.app(there).url(prompt="none"))["error"] == "login_required"

    def test_cookies_stay_in_their_zone(self, site: Site, browser: Browser) -> None:
        """The path is the zone's, the name has the zone in it, and scripts cannot read them."""
        zone = site.zone()
        site.user(zone)
        site.app(zone).sign_in(browser)

        cookies = list(browser.http.cookies.jar)

        assert {cookie.path for cookie in cookies} == {urlsplit(str(zone.protocols.oauth2.issuer)).path}
        assert all(zone.id in cookie.name for cookie in cookies)
        assert all(cookie.has_nonstandard_attr("HttpOnly") for cookie in cookies)
        assert {cookie.get_nonstandard_attr("SameSite") for cookie in cookies} == {"Lax"}

    @pytest.mark.standard("OpenID Connect Core")
    @pytest.mark.parametrize("changes", [{"prompt": "login"}, {"prompt": "select_account"}, {"max_age": "0"}])
    def test_asks_again_when_told_to(self, site: Site, browser: Browser, changes: dict[str, Any]) -> None:
        """A session at hand does not do, and the new sign-in is a new session."""
        zone = site.zone()
        site.user(zone)
        client = site.app(zone)
        first = client.sign_in(browser)

        place = browser.open(client.url(**changes))
        assert isinstance(place, Page)
        second = client.redeem(browser.sign_in(place).code).json()

        assert claims(first["id_token"])["sid"] != claims(second["id_token"])["sid"]
        assert claims(second["id_token"])["auth_time"] >= claims(first["id_token"])["auth_time"]

    @pytest.mark.standard("OpenID Connect Core")
    def test_another_account_can_be_selected(self, site: Site, browser: Browser) -> None:
        """With `prompt=select_account` the sign-in page names nobody, and takes whoever signs in."""
        zone = site.zone()
        ada, grace = site.user(zone), site.user(zone, "grace@acme.example")
        client = site.app(zone)
        first = client.sign_in(browser)

        page = browser.open(client.url(prompt="select_account"))
        assert isinstance(page, Page)
        assert page.fields["email"] == ""
        other = client.redeem(browser.sign_in(page, "grace@acme.example").code).json()

        subjects = [claims(each["id_token"])["sub"] for each in (first, other)]
        assert subjects == [ada.identifier, grace.identifier]
        silent = browser.open(client.url(prompt="none"))
        assert isinstance(silent, Answer)
        now = client.redeem(silent.code).json()
        assert claims(now["id_token"])["sub"] == grace.identifier

    @pytest.mark.standard("OpenID Connect Core")
    def test_id_token_hint_must_be_the_person_at_hand(self, site: Site, browser: Browser) -> None:
        """With another person's hint and no page allowed, nobody is signed in as asked."""
        zone = site.zone()
        site.user(zone)
        site.user(zone, "grace@acme.example")
        client = site.app(zone)
        ada = client.sign_in(browser)
        other = Browser()
        grace = client.redeem(other.sign_in(other.open(client.url()), "grace@acme.example").code).json()

        right = browser.open(client.url(prompt="none", id_token_hint=ada["id_token"]))
        wrong = refused(browser, client.url(prompt="none", id_token_hint=grace["id_token"]))

        assert isinstance(right, Answer)
        assert right.code
        assert wrong["error"] == "login_required"


def test_post_works_like_get(site: Site, browser: Browser) -> None:
    """A form may carry the request, though another site's brings no cookies. OpenID Connect Core 3.1.2.1."""
    zone = site.zone()
    site.user(zone)
    client = site.app(zone)

    def sent(**changes: Any) -> Page | Answer:
        address, _, query = client.url(**changes).partition("?")
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        step = httpx.post(address, content=query, headers=form)
        if step.status_code != 303:
            return Page(step)
        return browser.open(step.headers["location"])

    tokens = client.redeem(browser.sign_in(sent()).code)
    assert tokens.status_code == 200
    silent, wrong, unknown = sent(prompt="none"), sent(response_type="token"), sent(client_id="nobody")

    assert isinstance(silent, Answer)
    assert silent.code
    assert isinstance(wrong, Answer)
    assert (wrong.values["error"], wrong.values["state"]) == ("unsupported_response_type", client.state)
    assert isinstance(unknown, Page)
    assert_page(unknown.response, 400)


@pytest.mark.deviation("authorize-scope")
def test_scope_absent_means_openid(site: Site) -> None:
    """Some clients send none; what they get is reported."""
    zone = site.zone()
    site.user(zone)

    tokens = site.app(zone).sign_in(scope=None)

    assert tokens["scope"] == "openid"
    assert "id_token" in tokens


@pytest.mark.deviation("authorize-state")
def test_state_may_be_absent(site: Site, browser: Browser) -> None:
    """PKCE protects the code; the answer has no state then."""
    zone = site.zone()
    site.user(zone)
    client = site.app(zone)

    answer = browser.sign_in(browser.open(client.url(state=None)))

    assert isinstance(answer, Answer)
    assert "state" not in answer.values
    assert client.redeem(answer.code).status_code == 200
