"""Signing in with a key: what is issued is bound to it, from the authorize request to userinfo."""

from typing import Any

import httpx
import pytest
from tests.support.oauth_site import Browser, Client, Site, claims
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


@pytest.mark.threat("19a", "19c")
@pytest.mark.standard("RFC 9449")
def test_refresh_tokens_of_public_clients(site: Site, browser: Browser) -> None:
    """They are worth nothing without the key; with another one, the family is theft and ends."""
    zone = site.zone()
    site.user(zone)
    tool = bound(site, zone, "tool", public=True)

    first = tool.redeem_with(HOLDER, tool.code(browser)).json()
    assert first["token_type"] == "DPoP"
    assert claims(first["access_token"])["cnf"] == {"jkt": HOLDER.jkt}
    second = tool.refresh_with(HOLDER, first["refresh_token"])
    assert second.status_code == 200, second.text
    assert claims(second.json()["access_token"])["cnf"] == {"jkt": HOLDER.jkt}
    repeated = tool.refresh_with(HOLDER, first["refresh_token"])
    assert repeated.json()["refresh_token"] == second.json()["refresh_token"]
    current = second.json()["refresh_token"]

    without = tool.refresh_with(None, current)
    assert (without.status_code, without.json()["error"]) == (400, "invalid_grant")
    assert tool.refresh_with(HOLDER, current).status_code == 200
    thief = tool.refresh_with(THIEF, current)
    assert (thief.status_code, thief.json()["error"]) == (400, "invalid_grant")
    for token in (current, first["refresh_token"]):
        assert tool.refresh_with(HOLDER, token).json()["error"] == "invalid_grant"

    # Who begins to prove later is bound from then on.
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
def test_codes_asked_for_with_a_key(site: Site, browser: Browser) -> None:
    """A stolen code is worth nothing to another key, or to none; pushed requests bind it the same way."""
    zone = site.zone()
    site.user(zone)
    tool = bound(site, zone, "tool", public=True)
    assert tool.redeem_with(HOLDER, tool.code(browser, dpop_jkt=HOLDER.jkt)).status_code == 200
    for holder in (THIEF, None):
        code = tool.code(browser, dpop_jkt=HOLDER.jkt)
        refused = tool.redeem_with(holder, code)
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")
        assert tool.redeem_with(HOLDER, code).json()["error"] == "invalid_grant"
    wrong = browser.open(tool.url(dpop_jkt="short"))
    assert getattr(wrong, "values", {}).get("error") == "invalid_request"

    par = f"{tool.issuer}/oauth/par"
    query = httpx.URL(tool.url()).params
    pushed = httpx.post(par, data=dict(query), headers={"DPoP": HOLDER.proof(par)})
    assert pushed.status_code == 201, pushed.text
    for holder, status in ((HOLDER, 200), (THIEF, 400)):
        pushed = httpx.post(par, data=dict(query), headers={"DPoP": HOLDER.proof(par)}).json()
        place = browser.open(
            f"{tool.issuer}/oauth/authorize?client_id={tool.app.client_id}&request_uri={pushed['request_uri']}"
        )
        assert tool.redeem_with(holder, place.code).status_code == status
    differs = httpx.post(
        par, data={**dict(query), "dpop_jkt": THIEF.jkt}, headers={"DPoP": HOLDER.proof(par)}
    )
    assert (differs.status_code, differs.json()["error"]) == (400, "invalid_dpop_proof")


@pytest.mark.threat("13m")
@pytest.mark.standard("RFC 9449")
def test_at_the_zones_own_api(site: Site, browser: Browser) -> None:
    """Userinfo takes a bound token with a proof for it and for this request, and never as a bearer token."""
    zone = site.zone()
    site.user(zone)
    tool = bound(site, zone, "tool", public=True)
    code = tool.code(browser)
    token = tool.redeem_with(HOLDER, code).json()["access_token"]
    plain = tool.redeem_with(None, tool.code(browser)).json()["access_token"]
    uri = f"{tool.issuer}/openid/userinfo"

    def ask(scheme: str, presented: str, *proofs: str, method: str = "GET") -> httpx.Response:
        headers = [("Authorization", f"{scheme} {presented}"), *(("DPoP", each) for each in proofs)]
        return httpx.request(method, uri, headers=headers)

    def proof(holder: Holder = HOLDER, **changes: Any) -> str:
        return holder.proof(uri, **{"method": "GET", "access_token": token, **changes})

    assert ask("DPoP", token, proof()).json()["email"] == "ada@acme.example"
    assert ask("dpop", token, proof(method="POST"), method="POST").status_code == 200
    assert ask("Bearer", plain).status_code == 200
    once = proof()
    assert ask("DPoP", token, once).status_code == 200
    for answer, error, scheme in (
        (ask("Bearer", token), "invalid_token", "Bearer"),
        (ask("Bearer", token, proof()), "invalid_token", "Bearer"),
        (ask("DPoP", plain, proof(access_token=plain)), "invalid_token", "DPoP"),
        (ask("DPoP", token), "invalid_dpop_proof", "DPoP"),
        (ask("DPoP", token, proof(), proof()), "invalid_dpop_proof", "DPoP"),
        (ask("DPoP", token, once), "invalid_dpop_proof", "DPoP"),
        (ask("DPoP", token, proof(THIEF)), "invalid_token", "DPoP"),
        (ask("DPoP", token, proof(method="POST")), "invalid_dpop_proof", "DPoP"),
        (ask("DPoP", token, proof(access_token=plain)), "invalid_dpop_proof", "DPoP"),
        (ask("DPoP", token, proof(ath=None)), "invalid_dpop_proof", "DPoP"),
        (ask("DPoP", token, tool_proof(tool)), "invalid_dpop_proof", "DPoP"),
    ):
        assert answer.status_code == 401
        challenge = answer.headers["www-authenticate"]
        assert challenge.startswith(f'{scheme} error="{error}"'), challenge
        assert ('algs="RS256 PS256 ES256 EdDSA"' in challenge) == (scheme == "DPoP")

    two = httpx.post(
        tool.endpoint,
        data={**tool.app.form, "grant_type": "refresh_token", "refresh_token": "x"},
        headers=[("DPoP", HOLDER.proof(tool.endpoint)), ("DPoP", HOLDER.proof(tool.endpoint))],
    )
    assert (two.status_code, two.json()["error"]) == (400, "invalid_dpop_proof")
    assert two.headers["cache-control"] == "no-store"
    preflight = httpx.options(
        tool.endpoint, headers={"Origin": "null", "Access-Control-Request-Headers": "dpop"}
    )
    assert "DPoP" in preflight.headers["access-control-allow-headers"]
    metadata = httpx.get(f"{tool.issuer}/.well-known/oauth-authorization-server").json()
    assert metadata["dpop_signing_alg_values_supported"] == ["RS256", "PS256", "ES256", "EdDSA"]


@pytest.mark.standard("RFC 9449")
def test_nonces_where_a_zone_wants_them(
    site: Site, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proof without one, or with another, is answered with the one to use; no code is lost by that."""
    monkeypatch.setattr(dpop_verification, "NONCE_SECONDS", 10**9)  # no window ends while the test runs
    zone, other = site.zone(), site.zone()
    site.user(zone)
    tool = bound(site, zone, "tool", public=True)
    scope = "openid policy_bundle"
    assert "dpop-nonce" not in tool.redeem_with(HOLDER, tool.code(browser, scope=scope)).headers
    for each in (zone, other):
        site.run(set_zone_setting(site.services, each.id, "require-dpop-nonce", "on"))
    view, foreign = (site.run(site.services.zones.get(each.id)) for each in (zone, other))
    now = site.services.clock()
    current, last, older = (
        dpop_verification.nonce(site.services, view, now, windows_ago=ago) for ago in (0, 1, 2)
    )
    form = {
        "grant_type": "authorization_code",
        "code": tool.code(browser, scope=scope),
        "redirect_uri": tool.redirect_uri,
        "code_verifier": tool.verifier,
    }

    def redeem(**claims: Any) -> httpx.Response:
        proof = HOLDER.proof(tool.endpoint, **claims)
        return httpx.post(tool.endpoint, data={**tool.app.form, **form}, headers={"DPoP": proof})

    of_another_zone = dpop_verification.nonce(site.services, foreign, now)
    for nonce in (None, "", "x", 7, "\ud800", older, of_another_zone):
        asked = redeem(nonce=nonce)
        assert (asked.status_code, asked.json()["error"]) == (400, "use_dpop_nonce")
        assert asked.headers["dpop-nonce"] == current
        assert "DPoP-Nonce" in asked.headers["access-control-expose-headers"]
    assert redeem(nonce=current, htm="GET").json()["error"] == "invalid_dpop_proof"
    answer = redeem(nonce=asked.headers["dpop-nonce"])
    assert (answer.status_code, answer.headers["dpop-nonce"]) == (200, current)
    token = answer.json()["access_token"]
    assert "dpop-nonce" not in tool.redeem_with(None, tool.code(browser)).headers  # bearer tokens need none

    par = f"{tool.issuer}/oauth/par"
    query = dict(httpx.URL(tool.url()).params)
    pushed = [
        httpx.post(par, data=query, headers={"DPoP": HOLDER.proof(par, nonce=nonce)})
        for nonce in (None, last)
    ]
    assert [each.status_code for each in pushed] == [400, 201]
    assert {each.headers["dpop-nonce"] for each in pushed} == {current}

    userinfo = f"{tool.issuer}/openid/userinfo"
    bundle = f"{site.server.url}/policy/bundle"
    for uri in (userinfo, bundle):
        for nonce, status in ((None, 401), (last, 200)):
            proof = HOLDER.proof(uri, "GET", access_token=token, nonce=nonce)
            told = httpx.get(uri, headers={"Authorization": f"DPoP {token}", "DPoP": proof})
            assert told.status_code == status, told.text
            if status == 401:
                assert told.headers["www-authenticate"].startswith('DPoP error="use_dpop_nonce"')
                assert told.headers["dpop-nonce"] == current


def tool_proof(tool: Bound) -> str:
    """A proof that was made for the token endpoint."""
    return HOLDER.proof(tool.endpoint)
