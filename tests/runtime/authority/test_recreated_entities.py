"""Deleted and made again under the same name: nothing that the old one had works for the new one."""

from typing import Any

import httpx
import pytest
from tests.runtime.authority.session_scenes import let_a_second_pass
from tests.support.factories import App
from tests.support.oauth_site import PASSWORD, Answer, Browser, Client, Page, Site, claims

from runtime.domain.kinds import APPLICATION, APPLICATION_CREDENTIAL, RESOURCE, USER, ZONE, Verb
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE

ADA = "ada@acme.example"
FILES = "https://files.example"
SCOPE = "openid read"


def asking(site: Site, zone: Zone, client_id: str, *resources: Resource) -> Client:
    """An application that asks for consent, under names that it is told."""

    async def make() -> App:
        company, addresses = site.company, {"redirect_uris": ["https://app.example/callback"]}
        app = await company.create(
            APPLICATION,
            zone.id,
            identifier="notes",
            name="Notes",
            consent="required",
            dependencies=[{"id": each.id} for each in resources],
            protocols={"oauth2": addresses},
        )
        made = await company.create(
            APPLICATION_CREDENTIAL, zone.id, application_id=app.id, type="public", identifier=client_id
        )
        return App(app, made.identifier, None, made.id)

    return Client(zone, site.run(make()))


def files_of(site: Site, zone: Zone) -> Resource:
    return site.run(site.company.resource(zone, FILES, scopes=["read"]))


def agreed(client: Client, browser: Browser, **asked: Any) -> dict[str, Any]:
    """Tokens for the files, or for what else is asked for, once Ada has said yes to that."""
    place = browser.open(client.url(**(asked or {"resources": [FILES], "scope": SCOPE})))
    if isinstance(place, Page) and place.action.endswith("/oauth/sign-in"):
        place = browser.send(place, email=ADA, password=PASSWORD)
    if isinstance(place, Page):
        place = browser.send(place, decision="allow")
    assert isinstance(place, Answer), place.text
    redeemed = client.redeem(place.code)
    assert redeemed.status_code == 200, redeemed.text
    tokens: dict[str, Any] = redeemed.json()
    return tokens


def is_asked(client: Client, browser: Browser) -> bool:
    """Whether the user, who is signed in, sees the consent page."""
    place = browser.open(client.url(resources=[FILES], scope=SCOPE))
    return isinstance(place, Page) and place.action.endswith("/oauth/consent")


def grants(site: Site, zone: Zone) -> list[dict[str, Any]]:
    url = f"{site.server.url}/zones/{zone.id}/delegated-grants?limit=100"
    listed: list[dict[str, Any]] = httpx.get(url, headers=site.server.headers).json()["items"]
    return [each for each in listed if each["status"] == "active"]


@pytest.mark.threat("47c", "47d", "47g", "47h")
def test_an_application_and_its_client_id(site: Site, browser: Browser) -> None:
    """Its tokens, its codes and what the user agreed to go with it; the new one is asked about."""
    zone = site.zone()
    site.user(zone)
    files = files_of(site, zone)
    old = asking(site, zone, "notes-client", files)
    tokens = agreed(old, browser)
    own = agreed(old, browser, scope="openid email")
    waiting = browser.open(old.url(resources=[FILES], scope=SCOPE))
    assert isinstance(waiting, Answer), "agreed to before, so not asked"
    assert old.userinfo(own["access_token"]).status_code == 200
    tokens = old.refresh(tokens["refresh_token"], resource=FILES).json()

    site.run(site.company.delete(APPLICATION, zone.id, old.app.id))
    new = asking(site, zone, "notes-client", files)
    new.verifier = old.verifier

    assert {
        (refused.status_code, refused.json()["error"])
        for refused in (
            new.refresh(tokens["refresh_token"], resource=FILES),
            new.refresh(own["refresh_token"]),
            new.redeem(waiting.code),
        )
    } == {(400, "invalid_grant")}
    assert new.userinfo(own["access_token"]).status_code == 401
    assert is_asked(new, browser)
    assert agreed(new, browser)["access_token"]


@pytest.mark.threat("47h")
def test_consent_to_a_resource_ends_with_it(site: Site, browser: Browser) -> None:
    """What the user agreed to was for the resource that is gone."""
    zone = site.zone()
    site.user(zone)
    files = files_of(site, zone)
    client = asking(site, zone, "reader", files)
    tokens = agreed(client, browser)
    assert not is_asked(client, browser)
    assert client.refresh(tokens["refresh_token"], resource=FILES).status_code == 200

    _dependency(site, zone, client, files, "DELETE")
    site.run(site.company.delete(RESOURCE, zone.id, files.id))
    _dependency(site, zone, client, files_of(site, zone), "PUT")

    assert grants(site, zone) == []
    assert is_asked(client, browser)


@pytest.mark.threat("47l")
@pytest.mark.parametrize("deleted", [True, False])
def test_tokens_for_a_resource(site: Site, deleted: bool) -> None:
    """Whoever provides the next one of the identifier is no audience of them; the revocation list says so."""
    zone = site.zone()
    site.user(zone)
    files = files_of(site, zone)
    former, next_one = site.app(zone, "former"), site.app(zone, "next")
    provide(site, files, former)
    client = site.app(zone, "caller", dependencies=[files])
    tokens = [
        client.token(grant_type="client_credentials", resource=FILES).json()["access_token"],
        client.sign_in(resources=[FILES], scope=SCOPE)["access_token"],
    ]
    assert [is_told(former, each) for each in tokens] == [True, True]
    assert [exchanged(former, each).json()["error"] for each in tokens] == ["invalid_target"] * 2
    let_a_second_pass(site)

    if deleted:
        _dependency(site, zone, client, files, "DELETE")
        site.run(site.company.delete(RESOURCE, zone.id, files.id))
    else:
        site.run(site.company.update(RESOURCE, zone.id, files.id, identifier="https://moved.example"))
    other = files_of(site, zone)
    provide(site, other, next_one)
    _dependency(site, zone, client, other, "PUT")
    fresh = client.token(grant_type="client_credentials", resource=FILES).json()["access_token"]

    assert is_told(next_one, fresh), "of the same second"
    assert [is_told(next_one, each) for each in tokens] == [False, False]
    assert [exchanged(next_one, each).json()["error"] for each in tokens] == ["invalid_grant"] * 2
    gone = httpx.get(f"{client.issuer}/.well-known/revocations").json()["revocations"]
    assert [each.keys() for each in gone] == [{"aud#S256", "issued_until"}]


def provide(site: Site, resource: Resource, client: Client) -> None:
    site.run(site.company.update(RESOURCE, client.zone.id, resource.id, application_id=client.app.id))


def is_told(client: Client, token: str) -> bool:
    form = {"token": token, **client.app.form}
    return bool(httpx.post(f"{client.issuer}/oauth/introspect", data=form).json()["active"])


def exchanged(client: Client, token: str) -> httpx.Response:
    """The answer to an exchange for something that is nothing here, if the token is good for one."""
    return client.token(
        grant_type=GRANT_TYPE,
        subject_token=token,
        subject_token_type=ACCESS_TOKEN,
        resource="https://nowhere.example",
    )


def _dependency(site: Site, zone: Zone, client: Client, resource: Resource, method: str) -> None:
    path = f"/zones/{zone.id}/applications/{client.app.id}/dependencies/{resource.id}"
    httpx.request(method, f"{site.server.url}{path}", headers=site.server.headers).raise_for_status()


@pytest.mark.threat("47e", "47i")
def test_a_user_and_the_cookie_of_a_browser(site: Site, browser: Browser) -> None:
    """The browser of before is nobody's, at this zone and with its cookie at another one."""
    zone = site.zone()
    user, client = site.user(zone), site.app(zone)
    client.sign_in(browser)
    assert isinstance(browser.open(client.url(prompt="none")), Answer)
    assert "code" in browser.open(client.url(prompt="none")).values  # type: ignore[union-attr]

    site.run(site.company.delete(USER, zone.id, user.id))
    site.user(zone)

    again = browser.open(client.url(prompt="none"))
    assert isinstance(again, Answer)
    assert again.values["error"] == "login_required"
    page = browser.open(client.url())
    assert isinstance(page, Page)
    assert isinstance(browser.send(page, email=ADA, password=PASSWORD), Answer)


@pytest.mark.threat("47a", "47i", "47j", "47k")
def test_a_zone_its_cookies_and_its_keys(site: Site, browser: Browser) -> None:
    """Another issuer, other keys and another cookie; the old ones open nothing there."""
    first = site.zone("Again")
    site.user(first)
    client = site.app(first)
    tokens = client.sign_in(browser)
    cookie = browser.http.cookies[f"zw_session_{first.id}"]
    published = {key["kid"]: key for key in _keys(client)}
    zone = site.run(site.services.zones.get(first.id))
    key, said = zone.signing(zone.access_token_algorithm), claims(tokens["access_token"])

    site.run(site.company.run(ZONE, Verb.DELETE, {}, first.id))
    second = site.zone("Again")
    site.user(second)
    other = site.app(second)
    assert httpx.get(f"{client.issuer}/.well-known/jwks.json").status_code == 404
    own = other.sign_in()

    assert other.issuer != client.issuer
    assert not published.keys() & {each["kid"] for each in _keys(other)}
    assert not {each.get("n", each.get("x")) for each in published.values()} & {
        each.get("n", each.get("x")) for each in _keys(other)
    }
    assert other.userinfo(own["access_token"]).status_code == 200
    moved = {**claims(own["access_token"]), "sid": said["sid"]}
    assert {
        other.userinfo(key.sign(forged, typ="at+jwt")).status_code
        for forged in (moved, claims(own["access_token"]))
    } == {401}
    assert other.userinfo(tokens["access_token"]).status_code == 401
    stale = Browser()
    stale.http.cookies.set(f"zw_session_{second.id}", cookie, domain="127.0.0.1", path=f"/z/{second.id}")
    heard = stale.open(other.url(prompt="none"))
    assert isinstance(heard, Answer)
    assert heard.values["error"] == "login_required"


def _keys(client: Client) -> list[dict[str, Any]]:
    keys: list[dict[str, Any]] = httpx.get(f"{client.issuer}/.well-known/jwks.json").json()["keys"]
    return keys
