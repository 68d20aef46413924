"""Redeeming codes: everything a code is bound to, and that it works once."""

import base64
import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import httpx
import pytest
from tests.support.oauth_site import Answer, Browser, Client, Site, claims

from runtime.domain.errors import Unavailable
from runtime.domain.kinds import USER, Verb
from runtime.domain.kinds.role import User
from runtime.services.authority import session_revocation
from runtime.storage.sql import sessions

STORAGE = ("embedded", "servers")


def code_for(client: Client, browser: Browser, **changes: Any) -> str:
    """A new code; Ada signs in if she has not yet."""
    place = browser.open(client.url(**changes))
    return place.code if isinstance(place, Answer) else browser.sign_in(place).code


def error_of(response: Any) -> str:
    """The error of a refused token request, which is never to be stored."""
    assert response.headers["cache-control"] == "no-store"
    assert "access_token" not in response.text
    return str(response.json()["error"])


def session_status(site: Site, client: Client, token: str) -> str:
    """The status of the session that a token names."""

    async def read() -> str:
        async with site.services.database.reading() as conn:
            found = await sessions.find(conn, claims(token)["sid"], zone_id=client.zone.id)
        assert found is not None
        return found.status

    return site.run(read())


@pytest.mark.threat("1a", "1b", "1c")
def test_code_from_victim_redeemed_by_attacker(site: Site, browser: Browser) -> None:
    """Another client, well authenticated, with its own verifier, gets nothing, and the code is gone."""
    zone = site.zone()
    site.user(zone)
    victim, attacker = site.app(zone, "victim"), site.app(zone, "attacker")
    assert victim.redeem(code_for(victim, browser)).status_code == 200

    stolen = code_for(victim, browser)
    assert {
        error_of(attacker.redeem(stolen, code_verifier=verifier))
        for verifier in (attacker.verifier, victim.verifier)
    } == {"invalid_grant"}

    assert error_of(victim.redeem(stolen)) == "invalid_grant"


@pytest.mark.threat("1d")
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"code_verifier": "x" * 43}, "invalid_grant"),
        ({"code_verifier": None}, "invalid_grant"),
        ({"redirect_uri": "https://app.example/other"}, "invalid_grant"),
        ({"resource": "https://nothing.example"}, "invalid_target"),
    ],
)
def test_a_failed_redemption_consumes_the_code(
    site: Site, browser: Browser, changes: dict[str, Any], error: str
) -> None:
    """Whoever gets it wrong has no second try."""
    zone = site.zone()
    site.user(zone)
    client = site.app(zone)
    assert client.redeem(code_for(client, browser)).status_code == 200

    code = code_for(client, browser)

    assert error_of(client.redeem(code, **changes)) == error
    assert error_of(client.redeem(code)) == "invalid_grant"


@pytest.mark.threat("13c")
def test_a_code_is_no_subject_token(site: Site, browser: Browser) -> None:
    """Nor any other token; it is no JWT, and is good for what it is afterwards."""
    zone = site.zone()
    site.user(zone)
    files = site.run(site.company.resource(zone, "https://files.example", scopes=["read"]))
    client = site.app(zone, dependencies=[files])

    def exchange(subject: str) -> Any:
        access_token = "urn:ietf:params:oauth:token-type:access_token"
        return client.token(
            grant_type="urn:ietf:params:oauth:grant-type:token-exchange",
            subject_token=subject,
            subject_token_type=access_token,
            resource=files.identifier,
        )

    code = code_for(client, browser)
    assert error_of(exchange(code)) == "invalid_request"
    tokens = client.redeem(code)
    assert tokens.status_code == 200
    assert exchange(tokens.json()["access_token"]).status_code == 200


@pytest.mark.threat("2d")
@pytest.mark.parametrize("length", [42, 129])
def test_verifier_of_a_wrong_length(site: Site, browser: Browser, length: int) -> None:
    """It is malformed, not only wrong. Spec: RFC 7636 section 4.1."""
    zone = site.zone()
    site.user(zone)
    client = site.app(zone)
    assert client.redeem(code_for(client, browser)).status_code == 200

    code = code_for(client, browser)

    assert error_of(client.redeem(code, code_verifier="v" * length)) == "invalid_request"


@pytest.mark.threat("2b")
@pytest.mark.standard("RFC 7636")
def test_verifier_without_a_stored_challenge(site: Site, browser: Browser) -> None:
    """Where PKCE is optional, a verifier that nothing announced means that the challenge was taken away."""
    zone = site.zone(protocols={"oauth2": {"pkce_required": False}})
    site.user(zone)
    client = site.app(zone)
    plain: dict[str, Any] = {"code_challenge": None, "code_challenge_method": None}
    assert client.redeem(code_for(client, browser, **plain), code_verifier=None).status_code == 200

    downgraded = code_for(client, browser, **plain)

    assert error_of(client.redeem(downgraded)) == "invalid_grant"


def test_redirect_uri_is_needed_without_pkce(site: Site, browser: Browser) -> None:
    """With a challenge it may be left out, as OAuth 2.1 has it; without one it is what binds the code."""
    zone = site.zone(protocols={"oauth2": {"pkce_required": False}})
    site.user(zone)
    client = site.app(zone)
    plain: dict[str, Any] = {"code_challenge": None, "code_challenge_method": None}

    with_pkce = client.redeem(code_for(client, browser), redirect_uri=None)
    without = client.redeem(code_for(client, browser, **plain), code_verifier=None, redirect_uri=None)

    assert with_pkce.status_code == 200
    assert error_of(without) == "invalid_grant"


@pytest.mark.threat("3b")
@pytest.mark.standard("OAuth 2.1")
def test_code_single_use_race(site: Site, browser: Browser) -> None:
    """Of fifty at once exactly one gets tokens, and since somebody else tried, those are ended."""
    zone = site.zone()
    site.user(zone)
    client = site.app(zone)
    code = code_for(client, browser)

    with ThreadPoolExecutor(50) as pool:
        responses = list(pool.map(lambda _: client.redeem(code), range(50)))

    won = [response for response in responses if response.status_code == 200]
    assert len(won) == 1
    assert {error_of(response) for response in responses if response not in won} == {"invalid_grant"}
    tokens = won[0].json()
    assert session_status(site, client, tokens["access_token"]) == "revoked"
    assert client.userinfo(tokens["access_token"]).status_code == 401
    assert error_of(client.refresh(tokens["refresh_token"])) == "invalid_grant"


@pytest.mark.threat("3c")
@pytest.mark.standard("RFC 9700")
def test_reuse_ends_what_the_code_produced_and_nothing_else(site: Site, browser: Browser) -> None:
    """Tokens of the reused code stop; the person's sign-in and other codes' tokens do not."""
    zone = site.zone()
    site.user(zone)
    client = site.app(zone)
    code = code_for(client, browser)
    tokens, other = client.redeem(code).json(), client.redeem(code_for(client, browser)).json()
    assert client.userinfo(tokens["access_token"]).status_code == 200

    assert error_of(client.redeem(code)) == "invalid_grant"

    assert client.userinfo(tokens["access_token"]).status_code == 401
    assert error_of(client.refresh(tokens["refresh_token"])) == "invalid_grant"
    assert client.userinfo(other["access_token"]).status_code == 200
    assert code_for(client, browser, prompt="none")


@pytest.mark.threat("3c", "35g")
def test_reuse_counts_where_it_cannot_be_marked(
    site: Site, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing can be written to the short-lived state: what the first use produced ends all the same."""
    zone = site.zone()
    site.user(zone)
    client = site.app(zone)
    code = code_for(client, browser)
    tokens = client.redeem(code).json()
    assert client.userinfo(tokens["access_token"]).status_code == 200

    async def away(*_: Any, **__: Any) -> None:
        raise Unavailable("away")

    with monkeypatch.context() as broken:
        broken.setattr(site.services.state, "put", away)
        assert error_of(client.redeem(code)) == "temporarily_unavailable"

    assert client.userinfo(tokens["access_token"]).status_code == 401
    assert error_of(client.refresh(tokens["refresh_token"])) == "invalid_grant"


def test_code_expires(site: Site, browser: Browser) -> None:
    """After a minute nothing is left of it. Spec: zone interface, section 4."""
    from runtime.services.authorization.authorization_codes import CODE_SECONDS

    assert CODE_SECONDS <= 60
    zone = site.zone()
    site.user(zone)
    client = site.app(zone)
    code = code_for(client, browser)
    key = f"code:{zone.id}:{site.services.hasher.hash(code).hex()}"
    assert site.run(site.services.state.get(key)) is not None

    site.run(site.services.state.delete(key))

    assert error_of(client.redeem(code)) == "invalid_grant"


def test_code_of_another_zone(site: Site, browser: Browser) -> None:
    """A code means nothing at another zone, even to a client of the same name."""
    here, there = site.zone("Here"), site.zone("There")
    site.user(here)
    client, twin = site.app(here), site.app(there)
    code = code_for(client, browser)

    assert error_of(replace(twin, verifier=client.verifier).redeem(code)) == "invalid_grant"
    assert client.redeem(code).status_code == 200


def test_a_disabled_user_gets_nothing(site: Site, browser: Browser) -> None:
    """Neither with a code in flight, nor with a refresh token, nor with the session at hand."""
    zone = site.zone()
    user = site.user(zone)
    client = site.app(zone)
    tokens, code = client.sign_in(browser), code_for(client, browser)

    site.run(site.company.run(USER, Verb.UPDATE, {"zone_id": zone.id}, user.id, {"status": "disabled"}))

    assert error_of(client.redeem(code)) == "invalid_grant"
    assert error_of(client.refresh(tokens["refresh_token"])) == "invalid_grant"
    assert client.userinfo(tokens["access_token"]).status_code == 401
    heard = browser.open(client.url(prompt="none"))
    assert isinstance(heard, Answer)
    assert heard.values["error"] == "login_required"


def test_an_ended_browser_session_ends_the_applications(site: Site, browser: Browser) -> None:
    """Each application has a session of its own, below the browser's."""
    zone = site.zone()
    site.user(zone)
    client = site.app(zone)
    tokens, code = client.sign_in(browser), code_for(client, browser)
    sid = claims(tokens["access_token"])["sid"]

    async def end() -> str | None:
        async with site.services.database.reading() as conn:
            mine = await sessions.find(conn, sid, zone_id=zone.id)
        assert mine is not None
        assert mine.parent_id is not None
        await session_revocation.end(site.services, zone, session_id=mine.parent_id)
        return mine.parent_id

    site.run(end())

    assert client.userinfo(tokens["access_token"]).status_code == 401
    assert error_of(client.refresh(tokens["refresh_token"])) == "invalid_grant"
    assert error_of(client.redeem(code)) == "invalid_grant"


@dataclass
class SignedIn:
    """Ada's sign-in with all that the scopes open, and what its two tokens say."""

    client: Client
    user: User
    tokens: dict[str, Any]

    def __post_init__(self) -> None:
        self.access = claims(self.tokens["access_token"])
        self.identity = claims(self.tokens["id_token"])


@pytest.fixture(scope="module")
def signed(site: Site) -> SignedIn:
    zone = site.zone()
    user = site.user(zone)
    client = site.app(zone)
    return SignedIn(client, user, client.sign_in(scope="openid email profile"))


class Spare:
    """Everything that is issued to an application and is no access token for userinfo."""

    def __init__(self, site: Site) -> None:
        zone, browser = site.zone(), Browser()
        files = site.run(site.company.resource(zone, "https://files.example", scopes=["read"]))
        site.user(zone)
        self.client = site.app(zone, dependencies=[files])
        self.tokens = self.client.sign_in(browser)
        self.others = {
            "id token": self.tokens["id_token"],
            "access token of a resource": self.client.sign_in(browser, resources=[files.identifier])[
                "access_token"
            ],
            "refresh token": self.tokens["refresh_token"],
            "code": code_for(self.client, browser),
            "nonsense": "nonsense",
        }

    def signed(self, site: Site, typ: str) -> str:
        """A token of that class with the claims of the access token, signed by the zone."""

        async def sign() -> str:
            view = await site.services.zones.get(self.client.zone.id)
            return view.signing("RS256").sign(claims(self.tokens["access_token"]), typ=typ)

        return site.run(sign())


@pytest.fixture(scope="module")
def spare(site: Site) -> Spare:
    return Spare(site)


class TestTokens:
    """What the tokens of a sign-in say, as section 3 of the zone interface has them."""

    @pytest.mark.standard("OpenID Connect Core")
    def test_profile_alone_tells_no_address(self, site: Site) -> None:
        """What the consent page calls name and profile is not the e-mail address by another name."""
        zone = site.zone()
        site.user(zone)
        client = site.app(zone)
        both = client.sign_in(scope="openid profile email")
        assert claims(both["id_token"])["preferred_username"] == "ada@acme.example"

        alone = client.sign_in(scope="openid profile")

        assert "ada@acme.example" not in str(claims(alone["id_token"]))
        assert "ada@acme.example" not in client.userinfo(alone["access_token"]).text

    def test_the_access_token_says_whose_and_whose_session_it_is(self, signed: SignedIn) -> None:
        """User, client, session and scope, for the zone itself; nobody acts for the user."""
        access = signed.access
        assert access["sub"] == signed.user.identifier
        assert access["client_id"] == signed.client.app.client_id
        assert access["scope"] == signed.tokens["scope"] == "email openid profile"
        assert access["aud"] == signed.client.issuer
        assert access["jti"]
        assert "act" not in access

    def test_the_id_token_says_who_signed_in_and_how(self, signed: SignedIn) -> None:
        """User, audience, the request's nonce, the address that the scope opens, and the method."""
        identity = signed.identity
        assert identity["sub"] == signed.user.identifier
        assert identity["aud"] == signed.client.app.client_id
        assert identity["sid"] == signed.access["sid"]
        assert identity["nonce"] == signed.client.nonce
        assert (identity["email"], identity["email_verified"]) == ("ada@acme.example", True)
        assert identity["amr"] == ["pwd"]

    def test_the_id_token_names_the_access_token_by_its_hash(self, signed: SignedIn) -> None:
        """`at_hash` is the left half of its SHA-256. Spec: OpenID Connect Core section 3.1.3.6."""
        digest = hashlib.sha256(signed.tokens["access_token"].encode()).digest()[:16]
        assert signed.identity["at_hash"] == base64.urlsafe_b64encode(digest).decode().rstrip("=")

    @pytest.mark.parametrize("kind", ["access_token", "id_token"])
    def test_each_token_names_its_issuer_and_its_times(self, signed: SignedIn, kind: str) -> None:
        """Signed in, then issued, then over; the sign-in was just now."""
        each = claims(signed.tokens[kind])
        assert each["iss"] == signed.client.issuer
        assert each["iat"] - 60 <= each["auth_time"] <= each["iat"] < each["exp"]

    def test_discovery_names_every_claim_of_the_id_token(self, signed: SignedIn) -> None:
        published = httpx.get(f"{signed.client.issuer}/.well-known/openid-configuration").json()
        assert signed.identity.keys() <= set(published["claims_supported"])

    def test_an_id_token_of_a_refresh_is_of_the_same_sign_in(self, signed: SignedIn) -> None:
        """Spec: OpenID Connect Core section 12.2."""
        again = claims(signed.client.refresh(signed.tokens["refresh_token"]).json()["id_token"])
        same = ("iss", "sub", "aud", "sid", "auth_time")
        assert [again[name] for name in same] == [signed.identity[name] for name in same]

    def test_the_answer_says_how_long_and_how_the_access_token_is_used(self, signed: SignedIn) -> None:
        """At most an hour, as a bearer token."""
        assert 0 < signed.tokens["expires_in"] <= 3600
        assert signed.tokens["token_type"] == "Bearer"

    def test_no_id_token_without_openid(self, site: Site, browser: Browser) -> None:
        """And none of what it would say."""
        zone = site.zone()
        site.user(zone)
        client = site.app(zone)

        tokens = client.sign_in(browser, scope="email")

        assert "id_token" not in tokens
        refused = client.userinfo(tokens["access_token"])
        assert refused.status_code == 403
        assert 'error="insufficient_scope"' in refused.headers["www-authenticate"]
        assert 'scope="openid"' in refused.headers["www-authenticate"]

    def test_tokens_do_not_outlive_the_session(self, site: Site, browser: Browser) -> None:
        """A session with a minute left makes tokens with less than a minute."""
        zone = site.zone()
        site.user(zone)
        client = site.app(zone)
        client.sign_in(browser)

        async def shorten() -> None:
            async with site.services.database.transaction() as conn:
                cookie = next(each.value for each in browser.http.cookies.jar if "session" in each.name)
                found = await sessions.find_by_cookie(
                    conn, site.services.hasher.hash(cookie or ""), zone_id=zone.id
                )
                assert found is not None
                until = site.services.clock() + timedelta(seconds=60)
                await sessions.extend(conn, found.id, zone_id=zone.id, until=until)

        site.run(shorten())

        assert client.redeem(code_for(client, browser)).json()["expires_in"] <= 60

    @pytest.mark.standard("OpenID Connect Core")
    @pytest.mark.parametrize("method", ["GET", "POST"])
    def test_userinfo_says_what_the_scopes_open(self, site: Site, browser: Browser, method: str) -> None:
        """And `sub` always."""
        zone = site.zone()
        user = site.user(zone)
        client = site.app(zone)

        little = client.userinfo(client.sign_in(browser, scope="openid")["access_token"], method)
        more = client.userinfo(client.sign_in(browser, scope="openid email")["access_token"], method)

        assert little.json() == {"sub": user.identifier}
        assert more.json() == {"sub": user.identifier, "email": user.email, "email_verified": True}

    @pytest.mark.threat("13f", "13g", "13h", "13i", "13j", "13l")
    @pytest.mark.standard("RFC 6750")
    @pytest.mark.parametrize(
        "kind",
        [
            *("id token", "access token of a resource", "refresh token", "code", "nonsense"),
            *("JWT", "logout+jwt", "m2m+jwt", "reg+jwt", "dpop+jwt"),
        ],
    )
    def test_userinfo_refuses_other_tokens(self, site: Site, spare: Spare, kind: str) -> None:
        """One of every other class, signed by the zone with the same claims, or for a resource."""
        client = spare.client
        assert client.userinfo(spare.tokens["access_token"]).status_code == 200
        assert client.userinfo(spare.signed(site, "at+jwt")).status_code == 200

        refused = client.userinfo(spare.others.get(kind) or spare.signed(site, kind))

        assert refused.status_code == 401
        assert 'error="invalid_token"' in refused.headers["www-authenticate"]

    @pytest.mark.standard("RFC 6750")
    @pytest.mark.parametrize("in_query", [False, True], ids=["no token", "token in the query"])
    def test_userinfo_reads_a_token_from_the_header_alone(self, spare: Spare, in_query: bool) -> None:
        """Without one there the challenge names no error, as if nothing had been shown."""
        query = {"access_token": spare.tokens["access_token"]} if in_query else {}
        missing = httpx.get(f"{spare.client.issuer}/openid/userinfo", params=query)
        assert missing.status_code == 401
        assert missing.headers["www-authenticate"].startswith("Bearer")
        assert "error=" not in missing.headers["www-authenticate"]

    @pytest.mark.standard("RFC 6750")
    @pytest.mark.parametrize("other", ["Bearer x", None], ids=["another", "the same"])
    def test_userinfo_refuses_two_tokens_in_the_header(self, spare: Spare, other: str | None) -> None:
        """In either order, and also when they are equal."""
        address = f"{spare.client.issuer}/openid/userinfo"
        header = ("Authorization", f"Bearer {spare.tokens['access_token']}")
        second = ("Authorization", other) if other else header
        assert httpx.get(address, headers=[header]).status_code == 200

        assert httpx.get(address, headers=[header, second]).status_code == 401
        assert httpx.get(address, headers=[second, header]).status_code == 401

    @pytest.mark.standard("RFC 6750")
    @pytest.mark.parametrize("where", ["query", "body"])
    def test_userinfo_refuses_a_second_token_elsewhere(self, spare: Spare, where: str) -> None:
        """It could be the one that somebody else has looked at."""
        address, token = f"{spare.client.issuer}/openid/userinfo", spare.tokens["access_token"]
        headers = {"Authorization": f"Bearer {token}"}
        assert httpx.get(address, headers=headers).status_code == 200

        if where == "query":
            answer = httpx.get(address, headers=headers, params={"access_token": token})
        else:
            answer = httpx.post(address, headers=headers, data={"access_token": "x"})

        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
        assert 'error="invalid_request"' in answer.headers["www-authenticate"]

    def test_pkce_ties_a_code_to_a_public_client(self, site: Site, browser: Browser) -> None:
        """PKCE is what ties the code to it."""
        zone = site.zone()
        site.user(zone)
        client = site.app(zone, public=True)

        tokens = client.sign_in(browser)

        assert client.app.secret is None
        assert client.refresh(tokens["refresh_token"]).status_code == 200
