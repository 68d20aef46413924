"""Single sign-on: an organization's people sign in at its provider, a foreign one over real HTTP."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select
from tests.runtime.login.federation import (
    Foreign,
    as_person,
    at_provider,
    changed_query,
    running,
    sign_in,
    users_of,
)
from tests.runtime.login.invitations import address, call, home_zone, invite, ok, people, zonectl
from tests.support.oauth_site import Answer, Browser, Client, Page, Site, assert_page, claims

from runtime.domain.identifiers import new_id
from runtime.domain.kinds.role import User
from runtime.domain.kinds.zone import Zone
from runtime.storage.sql.tables import METADATA

STORAGE = ("embedded", "servers")
PROTOCOLS = {
    "oauth2": {
        "authorization_parameters": {"hd": "acme"},
        "distinct_redirect_uri": True,
        "scopes_supported": ["openid"],
    },
    "openid": {"scopes": ["groups"], "external_id_claim": "sub"},
}


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

    @pytest.mark.parametrize(
        ("method", "body"),
        [("GET", None), ("DELETE", None), ("PATCH", {"client_id": "x"})],
        ids=["read", "disable", "change"],
    )
    def test_is_not_found_before_it_is_enabled(
        self, site: Site, method: str, body: dict[str, str] | None
    ) -> None:
        """An organization without a connection answers 404, and says that single sign-on is off."""
        assert call(site, method, "/sso-connection", body).status_code == 404
        assert ok(site, "GET")["sso_enabled"] is False

    def test_enabling_answers_with_all_that_was_set_but_the_secret(
        self, site: Site, foreign: Foreign
    ) -> None:
        """The client secret is only said to be set; reading the connection later gives the same members."""
        made = enable(site, foreign, protocols=PROTOCOLS)

        assert made == {
            "id": made["id"],
            "client_id": "organization",
            "client_secret_set": True,
            "created_at": made["created_at"],
            "identifier": foreign.issuer,
            "protocols": PROTOCOLS,
            "updated_at": made["updated_at"],
        }
        assert ok(site, "GET", "/sso-connection") == made
        assert ok(site, "GET")["sso_enabled"] is True

    def test_an_organization_has_one_connection(
        self, site: Site, foreign: Foreign, sso: dict[str, Any]
    ) -> None:
        """Enabling a second one is a conflict, and the first one stays."""
        again = call(site, "POST", "/sso-connection", {"client_id": "x", "identifier": foreign.issuer})

        assert again.status_code == 409
        assert ok(site, "GET", "/sso-connection") == sso

    def test_null_in_a_change_takes_a_member_away(self, site: Site, foreign: Foreign) -> None:
        """At every depth: a secret, one protocol, one setting of a protocol; later all protocols at once."""
        enable(site, foreign, protocols=PROTOCOLS)

        gone = {"distinct_redirect_uri": None, "scopes_supported": None}
        patch = {"client_secret": None, "protocols": {"oauth2": gone, "openid": None}}
        changed = ok(site, "PATCH", "/sso-connection", patch)
        assert changed["client_secret_set"] is False
        assert changed["protocols"] == {"oauth2": {"authorization_parameters": {"hd": "acme"}}}

        cleared = ok(site, "PATCH", "/sso-connection", {"protocols": None, "client_id": None})
        assert cleared["client_id"] is None
        assert "protocols" not in cleared

    def test_another_identifier_is_another_issuer_of_the_same_connection(
        self, site: Site, zone: Zone, foreign: Foreign
    ) -> None:
        """The connection keeps its id, and the home zone's provider gets the new issuer."""
        sso = enable(site, foreign, protocols=PROTOCOLS)
        ok(site, "PATCH", "/sso-connection", {"client_secret": None})
        moved = ok(site, "PATCH", "/sso-connection", {"identifier": "https://login.acme.example"})

        assert (moved["id"], moved["identifier"]) == (sso["id"], "https://login.acme.example")
        provider = site.server.call(lambda services: _provider(services, zone))
        assert provider.protocols.oauth2.issuer == "https://login.acme.example"

    @pytest.mark.parametrize(
        "wrong",
        [
            {"identifier": None},
            {"identifier": "no address"},
            {"id": "x"},
            {"protocols": {"oauth2": {"issuer": "https://x.example"}}},
        ],
        ids=["no identifier", "identifier that is no URL", "another id", "issuer beside the identifier"],
    )
    def test_a_change_that_it_cannot_take_is_refused(
        self, site: Site, sso: dict[str, Any], wrong: dict[str, Any]
    ) -> None:
        """The answer is 400, and the connection is as it was."""
        refused = call(site, "PATCH", "/sso-connection", wrong)

        assert refused.status_code == 400, refused.text
        assert ok(site, "GET", "/sso-connection") == sso

    def test_disabling_removes_it(self, site: Site, sso: dict[str, Any]) -> None:
        """Afterwards it is not found, and the organization says that single sign-on is off."""
        assert call(site, "DELETE", "/sso-connection").status_code == 204

        assert call(site, "GET", "/sso-connection").status_code == 404
        assert ok(site, "GET")["sso_enabled"] is False

    def test_the_audit_trail_names_each_step_and_no_secret(self, site: Site, sso: dict[str, Any]) -> None:
        """Enabled, changed and disabled are one event each, the latest first; a refused change is none."""
        ok(site, "PATCH", "/sso-connection", {"client_secret": None})
        ok(site, "PATCH", "/sso-connection", {"identifier": "https://login.acme.example"})
        ok(site, "PATCH", "/sso-connection", {"client_id": None})
        assert call(site, "PATCH", "/sso-connection", {"id": "x"}).status_code == 400
        assert call(site, "DELETE", "/sso-connection").status_code == 204

        found = ok(site, "GET", f"/audit-events?filter[entity_id]={sso['id']}")

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
        ids=["no client id", "no identifier", "identifier that is no URL", "unknown member", "empty secret"],
    )
    def test_enabling_with_a_wrong_member_is_refused(
        self, site: Site, foreign: Foreign, wrong: dict[str, Any]
    ) -> None:
        """The answer is 400; the same without what is wrong is taken."""
        body = {"client_id": "organization", "identifier": foreign.issuer}
        assert call(site, "POST", "/sso-connection", {**body, **wrong}).status_code == 400
        ok(site, "POST", "/sso-connection", body)
        assert call(site, "DELETE", "/sso-connection").status_code == 204

    @pytest.mark.threat("27l")
    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [
            ("PATCH", "/providers/{provider}", {"client_id": "other"}),
            ("DELETE", "/providers/{provider}", None),
            ("PATCH", "", {"user_identity_provider_id": None}),
        ],
        ids=["change the provider", "delete the provider", "take it from the zone"],
    )
    def test_its_provider_is_the_services_own(
        self,
        site: Site,
        zone: Zone,
        sso: dict[str, Any],
        method: str,
        path: str,
        body: dict[str, Any] | None,
    ) -> None:
        """Nobody changes it, or the zone, behind the connection's back."""
        url = f"{site.server.url}/zones/{zone.id}{path.format(provider=sso['id'])}"
        refused = httpx.request(method, url, json=body, headers=site.server.headers)
        assert refused.status_code == 403, refused.text


async def _provider(services: Any, zone: Zone) -> Any:
    view = await services.zones.get(zone.id)
    return await view.user_provider()


@pytest.mark.threat("4g")
@pytest.mark.standard("RFC 9700")
@pytest.mark.parametrize("answered_by", [None, "other"])
def test_an_answer_at_another_redirect_uri(
    site: Site, browser: Browser, app: Client, foreign: Foreign, answered_by: str | None
) -> None:
    """A connection with a redirect URI of its own is answered there alone; nothing is redeemed."""
    made = enable(site, foreign, protocols={"oauth2": {"distinct_redirect_uri": True}})
    somebody = known(foreign, f"{new_id()}@acme.example")
    assert isinstance(sign_in(Browser(), app, somebody), Answer)
    back = as_person(browser, at_provider(browser, app), somebody)
    assert f"/oauth/callback?answered_by={made['id']}&" in back
    foreign.asked.clear()

    refused = browser.http.get(changed_query(back, answered_by=answered_by))

    assert_page(refused, 403)
    assert foreign.asked == []


@pytest.mark.threat("4g")
def test_the_redirect_uri_that_is_shared_is_the_connections_until_it_has_its_own(
    site: Site, browser: Browser, app: Client, foreign: Foreign
) -> None:
    """Switched on by a change, it is of the next request; the answer to one from before is refused."""
    enable(site, foreign)
    somebody = known(foreign, f"{new_id()}@acme.example")
    assert isinstance(sign_in(Browser(), app, somebody), Answer)
    back = as_person(browser, at_provider(browser, app), somebody)
    assert "answered_by" not in back

    ok(site, "PATCH", "/sso-connection", {"protocols": {"oauth2": {"distinct_redirect_uri": True}}})

    assert_page(browser.http.get(back), 403)
    assert "answered_by" in as_person(browser, at_provider(browser, app), somebody)


def test_who_is_invited_joins_by_signing_in(
    site: Site, app: Client, foreign: Foreign, sso: dict[str, Any]
) -> None:
    """With the invited address, in whatever case, as the provider vouches for it; nobody else does."""
    invited, uninvited = address("Ada"), address("Bob")
    invitation_id, _ = invite(site, invited.lower(), "org_viewer")

    told = {}
    for email in (invited, uninvited):
        answer = sign_in(Browser(), app, known(foreign, email))
        assert isinstance(answer, Answer)
        told[email] = claims(app.redeem(answer.code).json()["id_token"])["email"]

    assert told == {invited: invited, uninvited: uninvited}
    there = people(site)
    assert uninvited not in there
    assert (there[invited]["role"], there[invited]["source"]) == ("org_viewer", foreign.issuer)
    assert standing(site, invitation_id) == "accepted"


@pytest.mark.parametrize(
    ("is_invited", "statuses"), [(True, (200,)), (False, (401, 403, 404))], ids=["invited", "a stranger"]
)
def test_only_a_person_of_the_organization_gets_its_token(
    site: Site, foreign: Foreign, sso: dict[str, Any], is_invited: bool, statuses: tuple[int, ...]
) -> None:
    """A sign-in alone opens nothing of the management API."""
    email = address()
    if is_invited:
        invite(site, email)
    client = zonectl(site)
    wanted: dict[str, Any] = {"resources": [site.server.url], "scope": "openid"}
    answer = sign_in(Browser(), client, known(foreign, email), **wanted)
    assert isinstance(answer, Answer)
    token = client.redeem(answer.code).json()["access_token"]

    url = f"{site.server.url}/organizations/{site.server.organization_id}/token"
    assert httpx.post(url, headers={"Authorization": f"Bearer {token}"}).status_code in statuses


@pytest.mark.threat("22f")
def test_an_unverified_address_accepts_nothing(
    site: Site, app: Client, foreign: Foreign, sso: dict[str, Any], zone: Zone
) -> None:
    """Neither an invitation nor an account: whoever only claims an address is somebody new."""
    email, local = address(), address()
    invitation_id, _ = invite(site, email)
    account = site.user(zone, local)
    assert not [
        one
        for one in (email, local)
        if not isinstance(sign_in(Browser(), app, known(foreign, one, verified=False)), Answer)
    ]
    assert email not in people(site)
    assert standing(site, invitation_id) == "pending"
    theirs = [user for user in users_of(site, zone) if user.email == local]
    assert [user.id for user in theirs if user.issuer is None] == [account.id]
    assert len(theirs) == 2

    assert isinstance(sign_in(Browser(), app, known(foreign, email)), Answer)
    assert standing(site, invitation_id) == "accepted"


@dataclass
class Member:
    """A member who had a password, and has signed in at the provider since it was connected.

    Attributes:
        account: the user of the home zone, from before the connection.
        email: the address that the provider vouches for, in another case than the account's.
        subject: who they are at the provider.
        browser: where they are signed in by the provider's word.
        tokens: what the application got at that.
    """

    account: User
    email: str
    subject: str
    browser: Browser
    tokens: dict[str, Any]


@pytest.fixture
def member(site: Site, app: Client, foreign: Foreign, zone: Zone) -> Member:
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
    return Member(account, email.upper(), subject, visitor, app.redeem(answer.code).json())


def test_enabling_keeps_the_account_of_who_had_a_password(
    site: Site, app: Client, foreign: Foreign, member: Member
) -> None:
    """A verified address in whatever case is the same user, who is listed with the provider as source."""
    assert claims(member.tokens["id_token"])["sub"] == member.account.identifier
    assert people(site)[member.email]["source"] == foreign.issuer
    assert app.refresh(member.tokens["refresh_token"]).status_code == 200


def test_no_password_is_taken_while_a_provider_is_connected(app: Client, member: Member) -> None:
    """The home zone's own sign-in page is refused."""
    local = Browser().open(f"{app.issuer}/oauth/sign-in")

    assert isinstance(local, Page)
    assert_page(local.response, 403)


def test_disabling_ends_what_the_provider_began(site: Site, app: Client, member: Member) -> None:
    """Sign-ins that are under way at the provider, its sessions, and their tokens."""
    trip = Browser()
    back = as_person(trip, at_provider(trip, app), member.subject)

    ok(site, "DELETE", "/sso-connection")

    late = trip.open(back)
    assert isinstance(late, Page)
    assert_page(late.response, 400)
    page = member.browser.open(app.url())
    assert isinstance(page, Page), "the session that the provider began has ended"
    assert app.userinfo(member.tokens["access_token"]).status_code == 401


def test_disabling_gives_the_password_back(site: Site, app: Client, member: Member) -> None:
    """Whoever had a password signs in with it again, as the same person."""
    ok(site, "DELETE", "/sso-connection")

    assert member.browser.sign_in(member.browser.open(app.url()), member.email).code
    assert people(site)[member.email]["id"] == member.account.id


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
