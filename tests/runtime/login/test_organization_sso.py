"""Single sign-on: an organization's people sign in at its provider, a foreign one over real HTTP."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select
from tests.runtime.login.federation import Foreign, as_person, at_provider, running, sign_in, users_of
from tests.runtime.login.invitations import address, call, home_zone, invite, ok, people, zonectl
from tests.support.oauth_site import Answer, Browser, Client, Page, Site, assert_page, claims

from runtime.domain.identifiers import new_id
from runtime.domain.kinds.zone import Zone
from runtime.storage.sql.tables import METADATA

STORAGE = ("embedded", "servers")


@pytest.fixture(scope="module")
def foreign() -> Iterator[Foreign]:
    with running() as provider:
        yield provider


@pytest.fixture(scope="module")
def another() -> Iterator[Foreign]:
    with running() as provider:
        yield provider


@pytest.fixture
def zone(site: Site) -> Zone:
    return home_zone(site)


@pytest.fixture
def app(site: Site, zone: Zone) -> Client:
    """An application of the organization's home zone."""
    return site.app(zone, f"notes-{new_id()[:8]}")


@pytest.fixture(autouse=True)
def _disabled_afterwards(site: Site) -> Iterator[None]:
    yield
    call(site, "DELETE", "/sso-connection")


@pytest.fixture
def sso(site: Site, foreign: Foreign) -> dict[str, Any]:
    """The connection to the foreign provider."""
    return enable(site, foreign)


def enable(site: Site, provider: Foreign, **more: Any) -> dict[str, Any]:
    body = {"client_id": "organization", "client_secret": "canary-sso-secret", "identifier": provider.issuer}
    made: dict[str, Any] = ok(site, "POST", "/sso-connection", {**body, **more})
    return made


def known(provider: Foreign, email: str, *, verified: bool = True) -> str:
    """Somebody the provider knows; their subject there."""
    subject = new_id()
    told = {"email": email, "email_verified": verified, "name": "Somebody"}
    assert httpx.put(f"{provider.issuer}/users/{subject}", json=told).status_code == 204
    return subject


def standing(site: Site, invitation_id: str) -> str:
    return {one["id"]: str(one["status"]) for one in ok(site, "GET", "/invitations?limit=100")["items"]}[
        invitation_id
    ]


class TestConnection:
    """The connection itself, over the management API."""

    def test_life(self, site: Site, foreign: Foreign, zone: Zone) -> None:
        """Enabled once, read, changed with null meaning away, disabled; the organization says whether."""
        for method in ("GET", "DELETE"):
            assert call(site, method, "/sso-connection").status_code == 404
        assert call(site, "PATCH", "/sso-connection", {"client_id": "x"}).status_code == 404
        assert ok(site, "GET")["sso_enabled"] is False

        oauth2 = {"authorization_parameters": {"hd": "acme"}, "scopes_supported": ["openid"]}
        openid = {"scopes": ["groups"], "external_id_claim": "sub"}
        made = enable(site, foreign, protocols={"oauth2": oauth2, "openid": openid})
        assert made == {
            "id": made["id"],
            "client_id": "organization",
            "client_secret_set": True,
            "created_at": made["created_at"],
            "identifier": foreign.issuer,
            "protocols": {"oauth2": oauth2, "openid": openid},
            "updated_at": made["updated_at"],
        }
        assert ok(site, "GET")["sso_enabled"] is True
        assert ok(site, "GET", "/sso-connection") == made
        again = call(site, "POST", "/sso-connection", {"client_id": "x", "identifier": foreign.issuer})
        assert again.status_code == 409

        patch = {"client_secret": None, "protocols": {"oauth2": {"scopes_supported": None}, "openid": None}}
        changed = ok(site, "PATCH", "/sso-connection", patch)
        assert changed["client_secret_set"] is False
        assert changed["protocols"] == {"oauth2": {"authorization_parameters": {"hd": "acme"}}}
        moved = ok(site, "PATCH", "/sso-connection", {"identifier": "https://login.acme.example"})
        assert (moved["id"], moved["identifier"]) == (made["id"], "https://login.acme.example")
        provider = site.server.call(lambda services: _provider(services, zone))
        assert provider.protocols.oauth2.issuer == "https://login.acme.example"
        cleared = ok(site, "PATCH", "/sso-connection", {"protocols": None, "client_id": None})
        assert cleared["client_id"] is None
        assert "protocols" not in cleared

        for wrong in (
            {"identifier": None},
            {"identifier": "no address"},
            {"id": "x"},
            {"protocols": {"oauth2": {"issuer": "https://x.example"}}},
        ):
            refused = call(site, "PATCH", "/sso-connection", wrong)
            assert refused.status_code == 400, refused.text
        assert call(site, "DELETE", "/sso-connection").status_code == 204
        assert call(site, "GET", "/sso-connection").status_code == 404
        assert ok(site, "GET")["sso_enabled"] is False

        found = ok(site, "GET", f"/audit-events?filter[entity_id]={made['id']}")
        actions = [event["action"] for event in found["items"]]
        assert actions == ["sso_connection.disable", *["sso_connection.update"] * 3, "sso_connection.enable"]
        assert "canary-sso-secret" not in repr(found)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"client_id": None},
            {"identifier": None},
            {"identifier": "acme"},
            {"name": "x"},
            {"client_secret": ""},
        ],
    )
    def test_what_will_not_do(self, site: Site, foreign: Foreign, wrong: dict[str, Any]) -> None:
        body = {"client_id": "organization", "identifier": foreign.issuer}
        assert call(site, "POST", "/sso-connection", {**body, **wrong}).status_code == 400
        ok(site, "POST", "/sso-connection", body)
        assert call(site, "DELETE", "/sso-connection").status_code == 204

    @pytest.mark.threat("27l")
    def test_its_provider_is_the_services_own(self, site: Site, zone: Zone, sso: dict[str, Any]) -> None:
        """Nobody changes it, or the zone, behind the connection's back."""
        url = f"{site.server.url}/zones/{zone.id}"
        for path, body in (
            (f"/providers/{sso['id']}", {"client_id": "other"}),
            ("", {"user_identity_provider_id": None}),
        ):
            refused = httpx.patch(f"{url}{path}", json=body, headers=site.server.headers)
            assert refused.status_code == 403, refused.text
        assert httpx.delete(f"{url}/providers/{sso['id']}", headers=site.server.headers).status_code == 403


async def _provider(services: Any, zone: Zone) -> Any:
    view = await services.zones.get(zone.id)
    return await view.user_provider()


def test_who_is_invited_joins_by_signing_in(
    site: Site, app: Client, foreign: Foreign, sso: dict[str, Any]
) -> None:
    """With the invited address, in whatever case, as the provider vouches for it; nobody else does."""
    invited, uninvited = address("Ada"), address("Bob")
    invitation_id, _ = invite(site, invited.lower(), "org_viewer")
    for email in (invited, uninvited):
        answer = sign_in(Browser(), app, known(foreign, email))
        assert isinstance(answer, Answer)
        told = claims(app.redeem(answer.code).json()["id_token"])
        assert told["email"] == email

    there = people(site)
    assert uninvited not in there
    assert (there[invited]["role"], there[invited]["source"]) == ("org_viewer", foreign.issuer)
    assert standing(site, invitation_id) == "accepted"


def test_only_a_person_of_the_organization_gets_its_token(
    site: Site, foreign: Foreign, sso: dict[str, Any]
) -> None:
    """A sign-in alone opens nothing of the management API."""
    statuses = {}
    for email, is_invited in ((address(), True), (address(), False)):
        if is_invited:
            invite(site, email)
        client = zonectl(site)
        wanted: dict[str, Any] = {"resources": [site.server.url], "scope": "openid"}
        answer = sign_in(Browser(), client, known(foreign, email), **wanted)
        assert isinstance(answer, Answer)
        token = client.redeem(answer.code).json()["access_token"]
        url = f"{site.server.url}/organizations/{site.server.organization_id}/token"
        statuses[is_invited] = httpx.post(url, headers={"Authorization": f"Bearer {token}"}).status_code
    assert statuses[True] == 200
    assert statuses[False] in (401, 403, 404)


@pytest.mark.threat("22f")
def test_an_unverified_address_accepts_nothing(
    site: Site, app: Client, foreign: Foreign, sso: dict[str, Any], zone: Zone
) -> None:
    """Neither an invitation nor an account: whoever only claims an address is somebody new."""
    email, local = address(), address()
    invitation_id, _ = invite(site, email)
    account = site.user(zone, local)
    for one in (email, local):
        assert isinstance(sign_in(Browser(), app, known(foreign, one, verified=False)), Answer)
    assert email not in people(site)
    assert standing(site, invitation_id) == "pending"
    theirs = [user for user in users_of(site, zone) if user.email == local]
    assert [user.id for user in theirs if user.issuer is None] == [account.id]
    assert len(theirs) == 2

    assert isinstance(sign_in(Browser(), app, known(foreign, email)), Answer)
    assert standing(site, invitation_id) == "accepted"


def test_who_had_a_password_is_the_same_person(site: Site, app: Client, foreign: Foreign, zone: Zone) -> None:
    """Enabling keeps accounts, disabling gives the password back, and what the provider began ends."""
    email = address()
    account = site.user(zone, email)
    invite(site, email)
    browser = Browser()
    assert browser.sign_in(browser.open(app.url()), email).code
    assert people(site)[email]["id"] == account.id

    enable(site, foreign)
    subject = known(foreign, email.upper())
    visitor = Browser()
    answer = sign_in(visitor, app, subject, scope="openid offline_access")
    assert isinstance(answer, Answer)
    tokens = app.redeem(answer.code).json()
    assert claims(tokens["id_token"])["sub"] == account.identifier
    assert people(site)[email.upper()]["source"] == foreign.issuer
    assert app.refresh(tokens["refresh_token"]).status_code == 200

    trip = Browser()
    back = as_person(trip, at_provider(trip, app), subject)
    local = Browser().open(f"{app.issuer}/oauth/sign-in")
    assert isinstance(local, Page)
    assert_page(local.response, 403)
    ok(site, "DELETE", "/sso-connection")
    late = trip.open(back)
    assert isinstance(late, Page)
    assert_page(late.response, 400)

    page = visitor.open(app.url())
    assert isinstance(page, Page), "the session that the provider began has ended"
    assert visitor.sign_in(page, email).code
    assert app.userinfo(tokens["access_token"]).status_code == 401
    assert people(site)[email.upper()]["id"] == account.id


@pytest.mark.threat("22f")
def test_another_issuer_is_nobody_who_was_there(
    site: Site, app: Client, foreign: Foreign, another: Foreign, sso: dict[str, Any], zone: Zone
) -> None:
    """It may vouch for the same addresses and subjects: accounts stay with the issuer that made them."""
    email = address()
    subject = known(foreign, email)
    invite(site, email, "org_admin")
    assert isinstance(sign_in(Browser(), app, subject), Answer)
    owner = people(site)[email]["id"]

    told = {"email": email, "email_verified": True}
    assert httpx.put(f"{another.issuer}/users/{subject}", json=told).status_code == 204
    ok(site, "PATCH", "/sso-connection", {"identifier": another.issuer, "client_secret": "other"})
    answer = sign_in(Browser(), app, subject)
    assert isinstance(answer, Answer)
    assert claims(app.redeem(answer.code).json()["id_token"])["sub"] != owner
    assert people(site)[email]["id"] == owner

    ok(site, "DELETE", "/sso-connection")
    enable(site, foreign)
    answer = sign_in(Browser(), app, subject)
    assert isinstance(answer, Answer)
    assert claims(app.redeem(answer.code).json()["id_token"])["sub"] == owner


def test_without_a_session_of_before(site: Site, app: Client, foreign: Foreign) -> None:
    """Whoever accepted without signing in, and chose no password, signs in through the provider."""
    email = address()
    _, token = invite(site, email)
    done = httpx.post(f"{site.server.url}/invitations/{token}/accept").json()
    enable(site, foreign)
    assert isinstance(sign_in(Browser(), app, known(foreign, email)), Answer)
    assert people(site)[email]["id"] == done["user_id"]
    page = Browser().open(f"{app.issuer}/oauth/sign-up?invitation={invite(site, address())[1]}")
    assert isinstance(page, Page)
    assert_page(page.response, 200)
    assert "identity provider" in page.text


@pytest.mark.threat("18m", "22g")
@pytest.mark.parametrize(
    "change",
    [
        ("PATCH", {"identifier": "https://login.acme.example", "client_secret": "of another"}),
        ("DELETE", None),
    ],
)
def test_a_provider_that_is_changed_while_it_answers(
    site: Site,
    app: Client,
    foreign: Foreign,
    sso: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    change: tuple[str, dict[str, Any] | None],
) -> None:
    """What rests on it ends; somebody whom it had not finished telling about is not signed in afterwards."""
    subject = known(foreign, address())
    assert isinstance(sign_in(Browser(), app, subject), Answer)
    identify = site.services.openid.identify

    async def slowly(*arguments: Any, **named: Any) -> Any:
        found = await identify(*arguments, **named)
        changed = await asyncio.to_thread(call, site, change[0], "/sso-connection", change[1])
        assert changed.status_code < 300, changed.text
        return found

    monkeypatch.setattr(site.services.openid, "identify", slowly)
    browser = Browser()
    late = sign_in(browser, app, subject)
    assert isinstance(late, Page)
    assert_page(late.response, 403)
    assert "has just been changed" in late.text
    assert site.run(_standing_sessions(site, app)) == 0


async def _standing_sessions(site: Site, app: Client) -> int:
    """How many sessions of a zone stand."""
    sessions = METADATA.tables["sessions"]
    count = (
        select(func.count())
        .select_from(sessions)
        .where(sessions.c.zone_id == app.zone.id, sessions.c.status == "active")
        .where(sessions.c.provider_id.is_not(None))
    )
    async with site.services.database.reading() as conn:
        return int(await conn.scalar(count) or 0)
