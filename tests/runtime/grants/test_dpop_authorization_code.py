"""Signing in with a key: what is issued is bound to it, from the authorize request to userinfo."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from tests.support.oauth_site import Answer, Browser, Client, Site, claims
from tests.support.possession import Holder

from runtime.services.clients import dpop_verification
from runtime.services.zone_settings import set_zone_setting

STORAGE = ("embedded", "servers")
HOLDER, THIEF = Holder(), Holder()


class Bound(Client):
    """An application that proves possession of a key with every request."""

    @property
    def endpoint(self) -> str:
        return f"{self.issuer}/oauth/token"

    def ask(self, holder: Holder | None, **form: Any) -> httpx.Response:
        """A token request, with a proof if somebody makes one."""
        headers = {"DPoP": holder.proof(self.endpoint)} if holder else {}
        return httpx.post(self.endpoint, data={**self.app.form, **form}, headers=headers, timeout=30)

    def redeem_with(self, holder: Holder | None, code: str) -> httpx.Response:
        return self.ask(
            holder,
            grant_type="authorization_code",
            code=code,
            redirect_uri=self.redirect_uri,
            code_verifier=self.verifier,
        )

    def refresh_with(self, holder: Holder | None, refresh_token: str) -> httpx.Response:
        return self.ask(holder, grant_type="refresh_token", refresh_token=refresh_token)

    def code(self, browser: Browser, **changes: Any) -> str:
        place = browser.open(self.url(**changes))
        return (place if hasattr(place, "code") else browser.sign_in(place)).code


def bound(site: Site, zone: Any, identifier: str, **body: Any) -> Bound:
    return Bound(zone, site.app(zone, identifier, **body).app)


def error_of(response: httpx.Response) -> tuple[int, str]:
    """The status and the error of a refusal."""
    return response.status_code, response.json()["error"]


@pytest.fixture
def tool(site: Site) -> Bound:
    """A public client of a zone with Ada."""
    zone = site.zone()
    site.user(zone)
    return bound(site, zone, "tool", public=True)


@pytest.mark.standard("RFC 9449")
def test_access_tokens_of_a_sign_in_with_a_key_are_bound_to_it(tool: Bound, browser: Browser) -> None:
    """From the code and from a refresh token alike; a repeated refresh is answered as the first time."""
    first = tool.redeem_with(HOLDER, tool.code(browser)).json()
    assert first["token_type"] == "DPoP"
    assert claims(first["access_token"])["cnf"] == {"jkt": HOLDER.jkt}

    second = tool.refresh_with(HOLDER, first["refresh_token"])
    assert second.status_code == 200, second.text
    assert claims(second.json()["access_token"])["cnf"] == {"jkt": HOLDER.jkt}
    repeated = tool.refresh_with(HOLDER, first["refresh_token"])
    assert repeated.json()["refresh_token"] == second.json()["refresh_token"]


@pytest.mark.threat("19a", "19c")
@pytest.mark.standard("RFC 9449")
def test_a_public_clients_refresh_token_is_worth_nothing_without_its_key(
    tool: Bound, browser: Browser
) -> None:
    """A request without a proof is refused and ends nothing."""
    first = tool.redeem_with(HOLDER, tool.code(browser)).json()
    current = tool.refresh_with(HOLDER, first["refresh_token"]).json()["refresh_token"]

    assert error_of(tool.refresh_with(None, current)) == (400, "invalid_grant")
    assert tool.refresh_with(HOLDER, current).status_code == 200


@pytest.mark.threat("19a", "19c")
@pytest.mark.standard("RFC 9449")
def test_a_public_clients_refresh_token_with_another_key_ends_the_family(
    tool: Bound, browser: Browser
) -> None:
    """That is theft: neither the current token nor the one before it works any more, with the right key."""
    first = tool.redeem_with(HOLDER, tool.code(browser)).json()
    current = tool.refresh_with(HOLDER, first["refresh_token"]).json()["refresh_token"]
    assert tool.refresh_with(HOLDER, current).status_code == 200

    assert error_of(tool.refresh_with(THIEF, current)) == (400, "invalid_grant")

    assert tool.refresh_with(HOLDER, current).json()["error"] == "invalid_grant"
    assert tool.refresh_with(HOLDER, first["refresh_token"]).json()["error"] == "invalid_grant"


@pytest.mark.threat("19a", "19c")
@pytest.mark.standard("RFC 9449")
def test_a_public_client_that_begins_to_prove_a_key_is_bound_from_then_on(
    tool: Bound, browser: Browser
) -> None:
    """A refresh token that was issued without a key is followed by one that needs the key."""
    plain = tool.redeem_with(None, tool.code(browser)).json()
    assert plain["token_type"] == "Bearer"

    later = tool.refresh_with(HOLDER, plain["refresh_token"]).json()

    assert tool.refresh_with(None, later["refresh_token"]).json()["error"] == "invalid_grant"
    assert tool.refresh_with(HOLDER, later["refresh_token"]).status_code == 200


def test_confidential_clients_may_change_keys(site: Site, browser: Browser) -> None:
    """Their refresh token is bound to their own authentication; access tokens to the key of the day."""
    zone = site.zone()
    site.user(zone)
    web = bound(site, zone, "web")
    first = web.redeem_with(HOLDER, web.code(browser)).json()
    second = web.refresh_with(THIEF, first["refresh_token"]).json()
    assert claims(second["access_token"])["cnf"] == {"jkt": THIEF.jkt}
    third = web.refresh_with(None, second["refresh_token"]).json()
    assert third["token_type"] == "Bearer"


@pytest.mark.standard("RFC 9449")
@pytest.mark.parametrize("holder", [THIEF, None], ids=["another key", "no key"])
def test_a_code_asked_for_with_a_key_needs_that_key(
    tool: Bound, browser: Browser, holder: Holder | None
) -> None:
    """A stolen code is worth nothing to another key, or to none, and is gone after the attempt."""
    assert tool.redeem_with(HOLDER, tool.code(browser, dpop_jkt=HOLDER.jkt)).status_code == 200
    code = tool.code(browser, dpop_jkt=HOLDER.jkt)

    assert error_of(tool.redeem_with(holder, code)) == (400, "invalid_grant")
    assert tool.redeem_with(HOLDER, code).json()["error"] == "invalid_grant"


@pytest.mark.standard("RFC 9449")
def test_a_thumbprint_that_is_none_is_an_invalid_request(tool: Bound, browser: Browser) -> None:
    """`dpop_jkt` must have the form of a SHA-256 thumbprint."""
    wrong = browser.open(tool.url(dpop_jkt="short"))
    assert getattr(wrong, "values", {}).get("error") == "invalid_request"


@pytest.mark.standard("RFC 9449")
@pytest.mark.parametrize(("holder", "status"), [(HOLDER, 200), (THIEF, 400)], ids=["its key", "another key"])
def test_a_proof_with_a_pushed_request_binds_the_code(
    tool: Bound, browser: Browser, holder: Holder, status: int
) -> None:
    """As `dpop_jkt` does."""
    tool.code(browser)
    pushed = push(tool)
    assert pushed.status_code == 201, pushed.text
    place = browser.open(
        f"{tool.issuer}/oauth/authorize"
        f"?client_id={tool.app.client_id}&request_uri={pushed.json()['request_uri']}"
    )
    assert isinstance(place, Answer)
    assert tool.redeem_with(holder, place.code).status_code == status


@pytest.mark.standard("RFC 9449")
def test_a_pushed_request_names_the_key_of_its_proof_or_none(tool: Bound) -> None:
    """A `dpop_jkt` that is another key's makes the proof invalid."""
    assert error_of(push(tool, dpop_jkt=THIEF.jkt)) == (400, "invalid_dpop_proof")


def push(tool: Bound, **more: str) -> httpx.Response:
    """Push the application's request, with a proof."""
    uri = f"{tool.issuer}/oauth/par"
    query = {**dict(httpx.URL(tool.url()).params), **more}
    return httpx.post(uri, data=query, headers={"DPoP": HOLDER.proof(uri)})


class Userinfo:
    """The userinfo endpoint of a zone, and Ada's tokens: one bound to HOLDER's key, one of nobody's."""

    def __init__(self, tool: Bound, browser: Browser) -> None:
        self.tool, self.uri = tool, f"{tool.issuer}/openid/userinfo"
        self.token = tool.redeem_with(HOLDER, tool.code(browser)).json()["access_token"]
        self.plain = tool.redeem_with(None, tool.code(browser)).json()["access_token"]

    def ask(self, scheme: str, presented: str, *proofs: str, method: str = "GET") -> httpx.Response:
        headers = [("Authorization", f"{scheme} {presented}"), *(("DPoP", each) for each in proofs)]
        return httpx.request(method, self.uri, headers=headers)

    def proof(self, holder: Holder = HOLDER, **changes: Any) -> str:
        """A proof for the bound token and a GET, unless changed."""
        return holder.proof(self.uri, **{"method": "GET", "access_token": self.token, **changes})

    def replayed(self) -> httpx.Response:
        """The second answer to one proof."""
        once = self.proof()
        assert self.ask("DPoP", self.token, once).status_code == 200
        return self.ask("DPoP", self.token, once)


@pytest.fixture(scope="module")
def userinfo(site: Site) -> Userinfo:
    zone = site.zone()
    site.user(zone)
    return Userinfo(bound(site, zone, "tool", public=True), Browser())


@pytest.mark.threat("13m")
@pytest.mark.standard("RFC 9449")
def test_userinfo_takes_a_bound_token_with_a_proof_for_this_request(userinfo: Userinfo) -> None:
    """By GET and POST, however the scheme is written; a token that is bound to no key needs no proof."""
    token, ask, proof = userinfo.token, userinfo.ask, userinfo.proof
    assert ask("DPoP", token, proof()).json()["email"] == "ada@acme.example"
    assert ask("dpop", token, proof(method="POST"), method="POST").status_code == 200
    assert ask("Bearer", userinfo.plain).status_code == 200


NOT_PROVED: dict[str, tuple[Callable[[Userinfo], httpx.Response], str, str]] = {
    "bound token as bearer": (lambda at: at.ask("Bearer", at.token), "invalid_token", "Bearer"),
    "bound token as bearer, with a proof": (
        lambda at: at.ask("Bearer", at.token, at.proof()),
        "invalid_token",
        "Bearer",
    ),
    "bearer token as bound": (
        lambda at: at.ask("DPoP", at.plain, at.proof(access_token=at.plain)),
        "invalid_token",
        "DPoP",
    ),
    "no proof": (lambda at: at.ask("DPoP", at.token), "invalid_dpop_proof", "DPoP"),
    "two proofs": (
        lambda at: at.ask("DPoP", at.token, at.proof(), at.proof()),
        "invalid_dpop_proof",
        "DPoP",
    ),
    "used before": (lambda at: at.replayed(), "invalid_dpop_proof", "DPoP"),
    "another key": (lambda at: at.ask("DPoP", at.token, at.proof(THIEF)), "invalid_token", "DPoP"),
    "another method": (
        lambda at: at.ask("DPoP", at.token, at.proof(method="POST")),
        "invalid_dpop_proof",
        "DPoP",
    ),
    "another token": (
        lambda at: at.ask("DPoP", at.token, at.proof(access_token=at.plain)),
        "invalid_dpop_proof",
        "DPoP",
    ),
    "no token": (lambda at: at.ask("DPoP", at.token, at.proof(ath=None)), "invalid_dpop_proof", "DPoP"),
    "proof for the token endpoint": (
        lambda at: at.ask("DPoP", at.token, HOLDER.proof(at.tool.endpoint)),
        "invalid_dpop_proof",
        "DPoP",
    ),
}


@pytest.mark.threat("13m")
@pytest.mark.standard("RFC 9449")
@pytest.mark.parametrize("case", list(NOT_PROVED))
def test_userinfo_refuses_a_bound_token_without_its_proof(userinfo: Userinfo, case: str) -> None:
    """Never as a bearer token, and never with a proof for another request; the challenge has the reason.

    Only the challenge of the DPoP scheme names the algorithms.
    """
    present, error, scheme = NOT_PROVED[case]

    answer = present(userinfo)

    assert answer.status_code == 401
    challenge = answer.headers["www-authenticate"]
    assert challenge.startswith(f'{scheme} error="{error}"'), challenge
    assert ('algs="RS256 PS256 ES256 EdDSA"' in challenge) == (scheme == "DPoP")


@pytest.mark.standard("RFC 9449")
def test_the_token_endpoint_takes_one_proof(userinfo: Userinfo) -> None:
    """Two headers are refused, since two readers could look at different ones."""
    tool = userinfo.tool
    two = httpx.post(
        tool.endpoint,
        data={**tool.app.form, "grant_type": "refresh_token", "refresh_token": "x"},
        headers=[("DPoP", HOLDER.proof(tool.endpoint)), ("DPoP", HOLDER.proof(tool.endpoint))],
    )
    assert error_of(two) == (400, "invalid_dpop_proof")
    assert two.headers["cache-control"] == "no-store"


@pytest.mark.standard("RFC 9449")
def test_programs_in_a_browser_may_send_proofs(userinfo: Userinfo) -> None:
    """The preflight of the token endpoint allows the header from any origin."""
    headers = {"Origin": "null", "Access-Control-Request-Headers": "dpop"}
    preflight = httpx.options(userinfo.tool.endpoint, headers=headers)
    assert "DPoP" in preflight.headers["access-control-allow-headers"]


@pytest.mark.standard("RFC 9449")
def test_discovery_names_the_algorithms_of_proofs(userinfo: Userinfo) -> None:
    metadata = httpx.get(f"{userinfo.tool.issuer}/.well-known/oauth-authorization-server").json()
    assert metadata["dpop_signing_alg_values_supported"] == ["RS256", "PS256", "ES256", "EdDSA"]


class Nonces:
    """A zone that wants a nonce in every proof: those of this window and of earlier ones, and a client."""

    def __init__(self, site: Site, browser: Browser) -> None:
        self.site, self.browser = site, browser
        zone, other = site.zone(), site.zone()
        site.user(zone)
        self.tool = bound(site, zone, "tool", public=True)
        assert "dpop-nonce" not in self.tool.redeem_with(HOLDER, self.code()).headers
        for each in (zone, other):
            site.run(set_zone_setting(site.services, each.id, "require-dpop-nonce", "on"))
        view, foreign = (site.run(site.services.zones.get(each.id)) for each in (zone, other))
        now = site.services.clock()
        self.current, self.last, self.older = (
            dpop_verification.nonce(site.services, view, now, windows_ago=ago) for ago in (0, 1, 2)
        )
        self.of_another_zone = dpop_verification.nonce(site.services, foreign, now)

    def code(self) -> str:
        return self.tool.code(self.browser, scope="openid policy_bundle")

    def redeem(self, code: str, **claims: Any) -> httpx.Response:
        """Redeem a code with a proof that says this."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.tool.redirect_uri,
            "code_verifier": self.tool.verifier,
        }
        proof = HOLDER.proof(self.tool.endpoint, **claims)
        return httpx.post(self.tool.endpoint, data={**self.tool.app.form, **form}, headers={"DPoP": proof})


@pytest.fixture(scope="module")
def nonces(site: Site) -> Iterator[Nonces]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dpop_verification, "NONCE_SECONDS", 10**9)  # no window ends while the tests run
        yield Nonces(site, Browser())


@pytest.mark.standard("RFC 9449")
def test_a_proof_without_the_nonce_is_told_it_and_the_code_is_not_lost(nonces: Nonces) -> None:
    """One code through every wrong nonce, one after another: each answer has the one to use.

    None, malformed ones, one that is too old and another zone's; then the one that was told redeems the code.
    """
    code = nonces.code()
    wrong = (None, "", "x", 7, "\ud800", nonces.older, nonces.of_another_zone)
    asked = [nonces.redeem(code, nonce=nonce) for nonce in wrong]
    assert [error_of(each) for each in asked] == [(400, "use_dpop_nonce")] * len(wrong)
    assert {each.headers["dpop-nonce"] for each in asked} == {nonces.current}
    exposed = [each.headers["access-control-expose-headers"] for each in asked]
    assert not [headers for headers in exposed if "DPoP-Nonce" not in headers]

    assert nonces.redeem(code, nonce=nonces.current, htm="GET").json()["error"] == "invalid_dpop_proof"
    answer = nonces.redeem(code, nonce=asked[-1].headers["dpop-nonce"])
    assert (answer.status_code, answer.headers["dpop-nonce"]) == (200, nonces.current)


@pytest.mark.standard("RFC 9449")
def test_bearer_tokens_need_no_nonce(nonces: Nonces) -> None:
    """Whoever shows no proof is told none."""
    tool = nonces.tool
    assert "dpop-nonce" not in tool.redeem_with(None, tool.code(nonces.browser)).headers


@pytest.mark.standard("RFC 9449")
def test_a_pushed_request_needs_a_nonce(nonces: Nonces) -> None:
    """Refused without one; the one of the window before is taken; both answers have the current one."""
    par = f"{nonces.tool.issuer}/oauth/par"
    query = dict(httpx.URL(nonces.tool.url()).params)
    pushed = [
        httpx.post(par, data=query, headers={"DPoP": HOLDER.proof(par, nonce=nonce)})
        for nonce in (None, nonces.last)
    ]
    assert [each.status_code for each in pushed] == [400, 201]
    assert {each.headers["dpop-nonce"] for each in pushed} == {nonces.current}


@pytest.mark.standard("RFC 9449")
@pytest.mark.parametrize("path", ["openid/userinfo", "policy/bundle"])
def test_a_bound_token_needs_a_nonce_at_each_endpoint_that_takes_it(nonces: Nonces, path: str) -> None:
    """The challenge asks for one and has it; the one of the window before is taken."""
    base = nonces.tool.issuer if path.startswith("openid") else nonces.site.server.url
    uri = f"{base}/{path}"
    token = nonces.redeem(nonces.code(), nonce=nonces.current).json()["access_token"]

    def ask(nonce: str | None) -> httpx.Response:
        proof = HOLDER.proof(uri, "GET", access_token=token, nonce=nonce)
        return httpx.get(uri, headers={"Authorization": f"DPoP {token}", "DPoP": proof})

    asked = ask(None)
    assert asked.status_code == 401, asked.text
    assert asked.headers["www-authenticate"].startswith('DPoP error="use_dpop_nonce"')
    assert asked.headers["dpop-nonce"] == nonces.current
    taken = ask(nonces.last)
    assert taken.status_code == 200, taken.text
