"""A zone that is moved is answered at its former and at its new address: at each in the words of that one."""

from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest
from tests.runtime.moving.conftest import CALENDAR, World
from tests.support.oauth_site import Browser, Page, claims
from tests.support.scene import acting

STORAGE = ("embedded", "nodes")
PLACES = ["former", "present"]
OTHER = {"former": "present", "present": "former"}


@pytest.mark.standard("RFC 8414", "OpenID Connect Discovery")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ["oauth-authorization-server", "openid-configuration"])
def test_metadata_is_of_the_address_that_was_asked(world: World, place: str, name: str) -> None:
    """`issuer` is what the document was fetched from, every endpoint is below it; the keys are the same."""
    before = world.get("former", f"/.well-known/{name}").json()
    world.move()

    answer = world.get(place, f"/.well-known/{name}")

    issuer = world.at(place).issuer
    assert answer.json() == {
        member: value.replace(before["issuer"], issuer) if isinstance(value, str) else value
        for member, value in before.items()
    }
    assert answer.json()["issuer"] == issuer
    path = urlsplit(issuer).path
    inserted = issuer.removesuffix(path) + f"/.well-known/{name}{path}"
    assert httpx.get(inserted).content == answer.content
    assert (
        world.get(place, "/.well-known/jwks.json").json()
        == world.get(OTHER[place], "/.well-known/jwks.json").json()
    )


@pytest.mark.parametrize("place", PLACES)
def test_the_other_documents_are_of_the_address_too(world: World, place: str) -> None:
    """Protected resource metadata, the revocation list, and the signed one."""
    world.move()
    issuer = world.at(place).issuer

    resource = world.get(place, "/.well-known/oauth-protected-resource").json()
    plain = world.get(place, "/.well-known/revocations").json()
    signed = [
        world.get(
            each, "/.well-known/revocations", headers={"Accept": "application/revocation-list+jwt"}
        ).text
        for each in (OTHER[place], place)
    ]

    assert (resource["resource"], resource["authorization_servers"]) == (issuer, [issuer])
    assert plain["issuer"] == issuer
    assert [claims(each)["iss"] for each in signed] == [world.at(OTHER[place]).issuer, issuer]


@pytest.mark.standard("RFC 9207")
@pytest.mark.parametrize("place", PLACES)
def test_people_sign_in_at_either(world: World, place: str) -> None:
    """`iss` of the answer and of every token is the issuer that the client knows."""
    world.move()
    client, browser = world.at(place), Browser()

    answer = browser.sign_in(browser.open(client.url()))
    tokens = client.redeem(answer.code).json()

    assert answer.values["iss"] == client.issuer
    assert claims(tokens["id_token"])["iss"] == client.issuer
    assert claims(tokens["access_token"])["iss"] == client.issuer
    assert claims(tokens["access_token"])["aud"] == client.issuer
    assert client.userinfo(tokens["access_token"]).json()["email"] == "ada@acme.example"
    keys = jwt.PyJWKSet.from_dict(world.get(place, "/.well-known/jwks.json").json())
    token = tokens["id_token"]
    key = keys[jwt.get_unverified_header(token)["kid"]].key
    assert jwt.decode(token, key, ["RS256"], issuer=client.issuer, audience=client.app.client_id)
    refused = browser.open(client.url(prompt="none", max_age="0"))
    assert parse_qs(urlsplit(refused.location).query)["iss"] == [client.issuer]  # type: ignore[union-attr]


@pytest.mark.parametrize("place", PLACES)
def test_what_was_issued_before_goes_on_at_either(world: World, place: str) -> None:
    """The access token, the refresh token and the ID token as a hint; a refresh speaks of that address."""
    world.move()
    client, token = world.at(place), world.tokens["access_token"]

    assert client.userinfo(token).json()["email"] == "ada@acme.example"
    refreshed = client.refresh(world.tokens["refresh_token"]).json()
    assert claims(refreshed["access_token"])["iss"] == client.issuer
    assert claims(refreshed["id_token"])["iss"] == client.issuer
    named = client.refresh(refreshed["refresh_token"], resource=world.client.issuer)
    assert claims(named.json()["access_token"])["aud"] == client.issuer
    hint = {"id_token_hint": world.tokens["id_token"], "client_id": client.app.client_id}
    assert world.get(place, "/openid/logout", params=hint).status_code in (200, 303)


@pytest.mark.parametrize("place", PLACES)
def test_chains_go_on_across_the_move(world: World, place: str) -> None:
    """A token of one address is exchanged at the other, twice: the actors are those of the address asked."""
    world.move()
    other = OTHER[place]

    first = world.exchange(other, world.tokens["access_token"]).json()["access_token"]
    second = world.exchange(place, first, app=world.server, resource=CALENDAR).json()["access_token"]

    issuer = world.at(place).issuer
    assert claims(first)["iss"] == claims(first)["act"]["iss"] == world.at(other).issuer
    assert claims(second)["iss"] == issuer
    assert acting(claims(second)) == ("tool-server", "notes")
    assert [claims(second)["act"]["iss"], claims(second)["act"]["act"]["iss"]] == [issuer, issuer]


@pytest.mark.threat("47o")
def test_no_token_of_one_address_is_handed_out_at_the_other(world: World) -> None:
    """The same request, again and again at both: each address has its own answers, however they are kept."""
    world.move()
    token = world.tokens["access_token"]

    told = [
        claims(world.exchange(place, token).json()["access_token"])["iss"]
        for place in ("former", "present", "former", "present", "present", "former") * 2
    ]

    former, present = world.at("former").issuer, world.at("present").issuer
    assert told == [former, present, former, present, present, former] * 2


@pytest.mark.parametrize("place", PLACES)
def test_introspection_knows_the_tokens_of_both(world: World, place: str) -> None:
    """It says of a token what the token says; its `iss` is where it was issued."""
    world.move()
    issued = {each: world.exchange(each, world.tokens["access_token"]).json() for each in PLACES}

    told = {each: world.introspect(place, issued[each]["access_token"]) for each in PLACES}

    assert {each: (said["active"], said["iss"]) for each, said in told.items()} == {
        each: (True, world.at(each).issuer) for each in PLACES
    }


@pytest.mark.parametrize("place", PLACES)
def test_a_token_of_either_is_revoked_at_either(world: World, place: str) -> None:
    """And is worth nothing at both."""
    world.move()
    token = world.exchange(OTHER[place], world.tokens["access_token"]).json()["access_token"]
    assert world.introspect(place, token)["active"]
    client = world.at(place)

    done = httpx.post(f"{client.issuer}/oauth/revoke", data={**client.app.form, "token": token})

    assert done.status_code == 200
    assert [world.introspect(each, token) for each in PLACES] == [{"active": False}] * 2


@pytest.mark.parametrize("place", PLACES)
def test_pushed_requests_and_pages_stay_at_the_address(world: World, place: str) -> None:
    """A pushed request is used where it was pushed; the sign-in page and its form are there, too."""
    world.move()
    client, browser = world.at(place), Browser()
    query = dict(part.split("=") for part in urlsplit(client.url()).query.split("&"))
    pushed = client.request(
        "POST",
        f"{client.issuer}/oauth/par",
        data={name: parse_qs(f"x={value}")["x"][0] for name, value in query.items()}
        | {"client_secret": client.app.secret},
    )
    assert pushed.status_code == 201, pushed.text
    named = {"client_id": client.app.client_id, "request_uri": pushed.json()["request_uri"]}

    page = browser.open(f"{client.issuer}/oauth/authorize?{httpx.QueryParams(named)}")

    assert isinstance(page, Page)
    assert page.action.startswith(f"{client.issuer}/oauth/")
    assert browser.sign_in(page).values["iss"] == client.issuer


def test_a_form_of_one_address_is_not_taken_at_the_other(world: World) -> None:
    """To a browser they are two sites; so they are to the zone."""
    world.move()
    browser, client = Browser(), world.at("present")
    page = browser.open(client.url())
    assert isinstance(page, Page)
    said = {
        place: browser.post(
            page,
            headers={"Origin": world.at(place).issuer.partition("/z/")[0]},
            email="ada@acme.example",
            password="x",
        ).text
        for place in PLACES
    }

    assert {place: "another site" in text for place, text in said.items()} == {
        "former": True,
        "present": False,
    }


def test_who_is_signed_in_at_the_former_address_is_asked_at_the_new_one(world: World) -> None:
    """Cookies are of a host: the session of the browser stays behind, the tokens do not."""
    browser = Browser()
    world.client.sign_in(browser)
    world.move()

    assert not isinstance(browser.open(world.at("former").url(prompt="none")), Page)
    again = browser.open(world.at("former").url(prompt="none"))
    assert "code" in again.values  # type: ignore[union-attr]
    asked = browser.open(world.at("present").url(prompt="none"))
    assert asked.values["error"] == "login_required"  # type: ignore[union-attr]


@pytest.mark.parametrize("place", PLACES)
def test_what_a_user_has_to_authorize_is_at_the_address(world: World, place: str) -> None:
    """The link of a refused exchange leads to the address that was asked."""
    asking = world.site.app(world.zone, "asking", consent="required", dependencies=[world.tools])
    tokens = replace(asking).sign_in(Browser())
    world.move()

    refused: dict[str, Any] = world.exchange(place, tokens["access_token"], app=asking.app).json()

    assert refused["error"] == "access_denied"
    assert refused["error_uri"].startswith(f"{world.at(place).issuer}/oauth/connect?")
