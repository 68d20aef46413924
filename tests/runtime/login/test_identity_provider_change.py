"""Changing a zone's identity provider ends the sessions and sign-ins of the old provider."""

import asyncio
from typing import Any

import httpx
import pytest
from tests.support.oauth_site import PASSWORD, Browser, Chain, Page, Site, assert_page, chained

from runtime.domain.kinds import PROVIDER


def turn_to(site: Site, chain: Chain, provider_id: str | None) -> None:
    """Say where the product zone's users sign in from now on."""
    address = f"{site.server.url}/zones/{chain.product.id}"
    patch = {"user_identity_provider_id": provider_id}
    httpx.patch(address, json=patch, headers=site.server.headers, timeout=30).raise_for_status()


def another(site: Site, chain: Chain) -> str:
    issuer = "https://other.example"
    made = site.company.create(PROVIDER, chain.product.id, identifier=issuer, name="Other", client_id="door")
    return site.run(made).id


@pytest.mark.threat("18p")
@pytest.mark.parametrize("to_another", [True, False])
def test_what_it_signed_in_ends(site: Site, to_another: bool) -> None:
    """Also what would have lasted: it could not even say any more that a session of its own has ended."""
    chain = chained(site)
    app = site.app(chain.product)
    tokens = app.sign_in(scope="openid offline_access")
    tokens = app.refresh(tokens["refresh_token"]).json()
    httpx.patch(
        f"{site.server.url}/zones/{chain.product.id}",
        json={"name": "Renamed", "user_identity_provider_id": chain.product.user_identity_provider_id},
        headers=site.server.headers,
        timeout=30,
    ).raise_for_status()
    tokens = app.refresh(tokens["refresh_token"]).json()
    assert app.userinfo(tokens["access_token"]).status_code == 200

    turn_to(site, chain, another(site, chain) if to_another else None)

    assert app.userinfo(tokens["access_token"]).status_code == 401
    refused = app.refresh(tokens["refresh_token"])
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")

    turn_to(site, chain, chain.product.user_identity_provider_id)
    assert app.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert app.sign_in(scope="openid")["access_token"]


@pytest.mark.threat("22h")
def test_whoever_is_on_the_way_back(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider still says who it is; the zone asks another one by now."""
    chain = chained(site)
    app, other = site.app(chain.product), another(site, chain)
    assert app.sign_in(scope="openid")["access_token"]
    identify = site.services.openid.identify

    async def slowly(*arguments: Any, **named: Any) -> Any:
        found = await identify(*arguments, **named)
        await asyncio.to_thread(turn_to, site, chain, other)
        return found

    monkeypatch.setattr(site.services.openid, "identify", slowly)
    browser = Browser()
    late = browser.send(browser.open(app.url()), email="ada@acme.example", password=PASSWORD)  # type: ignore[arg-type]

    assert isinstance(late, Page), late
    assert_page(late.response, 403)
    assert "has just been changed" in late.text
