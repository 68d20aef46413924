"""People call the management API with tokens that are bound to a key."""

from typing import Any

import httpx
import pytest
from tests.runtime.management.conftest import Api
from tests.runtime.management.signing_in import someone
from tests.support.oauth_site import Answer, claims
from tests.support.possession import Holder

from runtime.services.zone_settings import set_zone_setting

HOLDER, THIEF = Holder(), Holder()


def signed_in(api: Api, resource: str) -> str:
    """An access token, bound to the holder's key, of somebody who has just signed in."""
    ada = someone(api)
    scope = "openid" if resource else "openid policy_bundle"
    url = ada.client.url(resources=[resource] if resource else [], scope=scope, nonce=None)
    place = ada.browser.open(url)
    answer = place if isinstance(place, Answer) else ada.browser.sign_in(place, ada.email)
    endpoint = f"{ada.client.issuer}/oauth/token"
    form = {
        **ada.client.app.form,
        "grant_type": "authorization_code",
        "code": answer.code,
        "redirect_uri": ada.client.redirect_uri,
        "code_verifier": ada.client.verifier,
    }
    redeemed = httpx.post(endpoint, data=form, headers={"DPoP": HOLDER.proof(endpoint)})
    assert redeemed.json()["token_type"] == "DPoP", redeemed.text
    token: str = redeemed.json()["access_token"]
    return token


def ask(
    api: Api, path: str, token: str, proof: str | None, *, method: str = "GET", scheme: str = "DPoP"
) -> httpx.Response:
    headers = {"Authorization": f"{scheme} {token}"} | ({"DPoP": proof} if proof else {})
    return httpx.request(method, f"{api.server.url}{path}", headers=headers)


def check(api: Api, path: str, token: str) -> None:
    """That the token works with a proof for it, for this request and once, and not otherwise."""
    uri = f"{api.server.url}{path}"

    def proof(holder: Holder = HOLDER, **changes: Any) -> str:
        return holder.proof(uri, **{"method": "GET", "access_token": token, **changes})

    once = proof()
    assert ask(api, path, token, once).status_code == 200
    answers = (
        ask(api, path, token, once),
        ask(api, path, token, None),
        ask(api, path, token, None, scheme="Bearer"),
        ask(api, path, token, proof(), scheme="Bearer"),
        ask(api, path, token, proof(THIEF)),
        ask(api, path, token, proof(method="DELETE")),
        ask(api, path, token, proof(access_token="another")),
        ask(api, path, token, HOLDER.proof(f"{uri}/x", "GET", access_token=token)),
    )
    assert {(each.status_code, each.json()["code"]) for each in answers} == {(401, "unauthorized")}
    assert ask(api, f"{path}?limit=1" if path == "/zones" else path, token, proof()).status_code == 200


@pytest.mark.threat("13m")
@pytest.mark.standard("RFC 9449")
@pytest.mark.deviation("token-type")
def test_a_bound_token_and_what_it_is_swapped_for(api: Api) -> None:
    """Neither is a bearer token: the token of one organization is bound to the same key."""
    token = signed_in(api, api.server.url)
    check(api, "/zones", token)

    path = f"/organizations/{api.organization_id}/token"
    proof = HOLDER.proof(f"{api.server.url}{path}", "POST", access_token=token)
    swapped = ask(api, path, token, proof, method="POST")
    assert swapped.json()["token_type"] == "DPoP", swapped.text
    assert claims(swapped.json()["access_token"])["cnf"] == {"jkt": HOLDER.jkt}
    check(api, "/zones", swapped.json()["access_token"])

    own = api.client.headers["Authorization"].partition(" ")[2]
    assert ask(api, "/zones", own, None, scheme="Bearer").status_code == 200
    by_key = HOLDER.proof(f"{api.server.url}/zones", "GET", access_token=own)
    assert ask(api, "/zones", own, by_key).status_code == 401


def test_one_proof_is_enough_for_a_request_that_is_looked_at_twice(api: Api) -> None:
    """Who sends a changeset is looked at before its body is read and after; another needs another proof."""
    token = signed_in(api, api.server.url)
    path = f"/organizations/{api.organization_id}/changesets?dry_run=true"
    proof = HOLDER.proof(f"{api.server.url}{path.partition('?')[0]}", "POST", access_token=token)
    step = {"op": "create", "kind": "Zone", "name": api.named(), "spec": {"name": "Zone"}}
    body = {"base_revision": api.revision(), "owner": "acme", "plan_digest": api.named()}

    def send(shown: str) -> httpx.Response:
        headers = {"Authorization": f"DPoP {token}", "DPoP": shown}
        return httpx.post(f"{api.server.url}{path}", json={**body, "operations": [step]}, headers=headers)

    first = send(proof)
    assert first.status_code not in (400, 401), first.text
    assert send(proof).status_code == 401


@pytest.mark.standard("RFC 9449")
def test_the_challenge_tells_the_nonce_to_use(api: Api) -> None:
    """Where the organization's home zone wants them, the challenge tells which to use."""
    token, path = signed_in(api, api.server.url), "/zones"
    zone_id = str(claims(token)["iss"]).rpartition("/")[2]
    api.server.call(lambda services: set_zone_setting(services, zone_id, "require-dpop-nonce", "on"))
    try:
        answers, nonce = [], None
        for _ in range(2):
            proof = HOLDER.proof(f"{api.server.url}{path}", "GET", access_token=token, nonce=nonce)
            answers.append(ask(api, path, token, proof))
            nonce = answers[0].headers["dpop-nonce"]
    finally:
        api.server.call(lambda services: set_zone_setting(services, zone_id, "require-dpop-nonce", "off"))
    assert [each.status_code for each in answers] == [401, 200]
    assert answers[0].headers["www-authenticate"].startswith('DPoP error="use_dpop_nonce", Bearer ')


@pytest.mark.threat("13m")
def test_the_bundle_of_a_user(api: Api) -> None:
    """The policy bundle takes a bound token of the zone itself in the same way."""
    check(api, "/policy/bundle", signed_in(api, ""))
