"""Libraries that know nothing of a move: of clients, and the one for resource servers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from authlib.integrations.httpx_client import OAuth2Client
from tests.runtime.authorization.test_client_libraries import (
    LIBRARIES,
    certificate,
    is_ada,
    prepared,
    started,
)
from tests.runtime.moving.conftest import TOOLS, World
from tests.support.factories import App
from tests.support.oauth_site import Browser, Client, Site, claims
from tests.support.waiting import wait_until

from zonewright import AccessToken, TokenRefused, Verifier

__all__ = ["certificate"]

PLACES = ["former", "present"]
_T = TypeVar("_T")


@pytest.mark.parametrize("place", PLACES)
def test_a_sign_in_of_authlib_goes_on_through_the_move(
    site: Site, browser: Browser, place: str, request: pytest.FixtureRequest
) -> None:
    """It has read the metadata before the move, or the new address's after it, and checks each `iss`."""
    library = LIBRARIES["Authlib"]
    places, resource = prepared(site, library)
    zone = site.run(_zone(site, resource.zone_id))
    app = App(None, places["client_id"], None, "")  # type: ignore[arg-type]
    world = World(site, zone, Client(zone, app), app, resource, resource)
    if place == "present":
        world.move()
        places["issuer"] = world.new_issuer

    with started("Authlib", library.filled({**library.settings, **library.http}, places), request) as ask:
        url = ask()["url"]
        assert url.startswith(f"{places['issuer']}/oauth/authorize?")
        if place == "former":
            world.move()
        told = ask(browser.sign_in(browser.open(url)).location)

    assert is_ada(told)
    assert claims(told["access_token"])["iss"] == places["issuer"]


async def _zone(site: Site, zone_id: str) -> Any:
    return (await site.services.zones.get(zone_id)).entity


def test_a_session_of_authlib_is_refreshed_at_either_address(world: World) -> None:
    """With the token that it has stored before the move: nobody signs in again."""
    world.move()
    stored: dict[str, Any] = {**world.tokens, "expires_at": 1}
    heard = []
    for place in PLACES:
        issuer = world.at(place).issuer
        with OAuth2Client(
            world.client.app.client_id,
            world.client.app.secret,
            token=stored,
            token_endpoint=f"{issuer}/oauth/token",
            update_token=lambda token, refresh_token=None: stored.update(token),
        ) as client:
            heard.append(client.get(f"{issuer}/openid/userinfo").json()["email"])
        assert claims(stored["access_token"])["iss"] == claims(stored["id_token"])["iss"] == issuer
        stored["expires_at"] = 1

    assert heard == ["ada@acme.example"] * 2


# --- zonewright


def _with(issuer: str, work: Callable[[Verifier], Awaitable[_T]], **settings: Any) -> _T:
    async def run() -> _T:
        verifier = Verifier(issuer, TOOLS, revocations_max_age_seconds=0, **settings)
        try:
            return await work(verifier)
        finally:
            await verifier.aclose()

    return asyncio.run(run())


def _tokens(world: World) -> dict[str, str]:
    """An exchanged token of each address."""
    return {
        place: world.exchange(place, world.tokens["access_token"]).json()["access_token"] for place in PLACES
    }


def _accepted(issuer: str, tokens: dict[str, str], **settings: Any) -> list[str]:
    """Which of the tokens a resource server accepts."""

    async def work(verifier: Verifier) -> list[str]:
        found = []
        for place, token in tokens.items():
            try:
                verified: AccessToken = await verifier.verify(token)
            except TokenRefused:
                continue
            assert verified.issuer == claims(token)["iss"]
            found.append(place)
        return found

    return _with(issuer, work, **settings)


def test_a_resource_server_accepts_both_issuers_during_the_move(world: World) -> None:
    """That knows the new one with the former one besides; who knows one accepts that one's tokens alone."""
    world.move()
    tokens, former, present = _tokens(world), world.client.issuer, world.new_issuer

    assert _accepted(former, tokens) == ["former"]
    assert _accepted(present, tokens) == ["present"]
    assert _accepted(present, tokens, former_issuers=[former]) == PLACES
    assert _accepted(present, tokens, former_issuers=["https://other.example"]) == ["present"]


def test_a_revoked_token_of_the_former_issuer_is_on_the_list_of_the_new_one(world: World) -> None:
    """One list for both: a resource server that has changed over misses nothing."""
    world.move()
    tokens, former = _tokens(world), world.client.issuer
    assert _accepted(world.new_issuer, tokens, former_issuers=[former]) == PLACES

    revoked = world.at("former").request(
        "POST", f"{former}/oauth/revoke", data={**world.client.app.form, "token": tokens["former"]}
    )

    assert revoked.status_code == 200
    # A worker answers with the list of half a second ago.
    wait_until(
        lambda: _accepted(world.new_issuer, tokens, former_issuers=[former]) == ["present"], seconds=10
    )


def test_former_issuers_are_a_list() -> None:
    """One text would be compared letter by letter."""
    with pytest.raises(TypeError):
        Verifier("https://zone.example", TOOLS, former_issuers="https://former.example")
    assert Verifier("https://zone.example", TOOLS, former_issuers=["https://former.example"])
