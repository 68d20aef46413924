"""docs/admission.md, cell by cell: each way to become a user of a zone, with each condition met and not."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
from sqlalchemy import select
from tests.runtime.login.federation import federated as federated_zone
from tests.runtime.login.federation import users_of
from tests.runtime.management.across import (
    GRANT_TYPE,
    Person,
    acts_for,
    application,
    assert_refused,
    bearer,
    company,
    connect,
    federated,
    join,
    reconnect,
    through,
    token_in,
)
from tests.runtime.management.conftest import Api, caller
from tests.runtime.management.members.inviting import accept, expire, token_of
from tests.runtime.management.signing_in import someone, status
from tests.support.oauth_site import PASSWORD, Answer, Browser, Client, Page, Site, claims
from tests.support.openid_server import OpenIDServer, openid_server

from runtime.domain.identifiers import new_id
from runtime.domain.kinds import PROVIDER, USER, ZONE, Verb
from runtime.domain.kinds.role import Group, User
from runtime.domain.kinds.zone import Zone
from runtime.services import rate_limits
from runtime.services.authority import admission
from runtime.services.management.people import groups
from runtime.services.management.unit_of_work import unit_of_work
from runtime.storage.sql.tables import METADATA

STORAGE = ("embedded", "servers")
DOCUMENT = Path(__file__).parents[3] / "docs" / "admission.md"
ADA = "ada@acme.example"

Cell = Callable[["Scene"], None]
CELLS: dict[tuple[str, str], Cell] = {}
# What the ways are called in the document.
WAYS = {
    "PasswordSignIn": "password",
    "PasswordRegistration": "registration",
    "InvitedRegistration": "invitation",
    "InvitedMember": "invitation",
    "FirstPassword": "invitation",
    "UpstreamSignIn": "upstream sign-in",
    "UserAssertion": "JWT bearer assertion",
    "ManagementToken": "management token",
    "JoiningAccount": "joining another organization",
}


def cell(way: str, condition: str) -> Callable[[Cell], Cell]:
    """Mark what tries a condition of a way in."""

    def mark(tries: Cell) -> Cell:
        CELLS[way, condition] = tries
        return tries

    return mark


def documented() -> list[tuple[str, str]]:
    """Each way with each of its conditions."""
    part = DOCUMENT.read_text("utf-8").partition("<!-- ways -->")[2].partition("<!-- /ways -->")[0]
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]+) \|$", part, re.MULTILINE)
    return [(way, condition) for way, condition in rows if way not in ("Way in", "---")]


class Scene:
    """A site, and a provider that says what it is told to."""

    def __init__(self, site: Site, issuer: OpenIDServer, impostor: OpenIDServer) -> None:
        self.site, self.issuer, self.impostor = site, issuer, impostor
        self.api = caller(site.server, site.server.api_key, site.server.organization_id)

    def federated(self, **provider: Any) -> tuple[Zone, Client]:
        """A zone whose people sign in at the provider, and an application."""
        zone = federated_zone(self.site, self.issuer.issuer, f"zone-{new_id()[:8]}", **provider)
        return zone, self.site.app(zone)

    def says(self, **claims: Any) -> None:
        """Whom the provider signs in from now on."""
        self.issuer.says = {"sub": "ada", "email": ADA, "email_verified": True, **claims}

    def sub(self, client: Client) -> str:
        """Who somebody is after a new sign-in."""
        answer = Browser().open(client.url())
        assert isinstance(answer, Answer), answer.text
        return str(claims(client.redeem(answer.code).json()["id_token"])["sub"])

    def vouched(self, zone: Zone, client: Client, **said: Any) -> httpx.Response:
        """What a token request is answered that carries an assertion of the provider's."""
        assertion = self.issuer.vouch(str(zone.protocols.oauth2.issuer), **{"sub": "ada", **said})
        return client.token(grant_type=GRANT_TYPE, assertion=assertion)

    def group(self, zone: Zone, email: str) -> Group:
        """A group that waits for an address."""

        async def make() -> Group:
            made = await self.site.company.group(zone, f"group-{new_id()[:8]}")
            async with unit_of_work(self.site.services, self.site.company.caller, new_id()) as unit:
                await groups.set_members(unit, made, [email])
            return made

        return self.site.run(make())

    def members(self, group: Group) -> set[str]:
        table = METADATA.tables["group_members"]

        async def read() -> set[str]:
            async with self.site.services.database.reading() as conn:
                return set(await conn.scalars(select(table.c.user_id).where(table.c.group_id == group.id)))

        return self.site.run(read())

    def credentials(self, zone: Zone) -> int:
        table = METADATA.tables["user_credentials"]

        async def count() -> int:
            async with self.site.services.database.reading() as conn:
                found = await conn.scalars(select(table.c.id).where(table.c.zone_id == zone.id))
                return len(list(found))

        return self.site.run(count())

    def disable(self, zone: Zone, user: User) -> None:
        self.site.run(self.site.company.update(USER, zone.id, user.id, status="disabled"))

    def change_zone(self, zone: Zone, **patch: Any) -> None:
        self.site.run(self.site.company.run(ZONE, Verb.UPDATE, {}, zone.id, patch))

    def two(self) -> tuple[Api, Api]:
        """Two organizations that share people."""
        return company(self.api, "home"), company(self.api, "away")


@pytest.fixture(scope="module")
def issuer() -> Iterator[OpenIDServer]:
    with openid_server() as running:
        yield running


@pytest.fixture(scope="module")
def impostor(issuer: OpenIDServer) -> Iterator[OpenIDServer]:
    with openid_server(issuer.issuer) as running:
        yield running


def refused(place: "Page | Answer", status: int = 403) -> None:
    assert isinstance(place, Page), place
    assert place.response.status_code == status, place.text


def sign_up(client: Client) -> tuple[Browser, Page]:
    """The registration page, as an application's sign-in leads to it."""
    browser = Browser()
    page = browser.open(client.url())
    assert isinstance(page, Page)
    form = browser.open(page.action.replace("sign-in", "sign-up") + f"?request={page.fields['request']}")
    assert isinstance(form, Page)
    return browser, form


def register(form: tuple[Browser, Page], email: str, password: str = PASSWORD) -> "Page | Answer":
    browser, page = form
    return browser.send(page, email=email, password=password)


# --- password


@cell("password", "the zone has no identity provider")
def _(scene: Scene) -> None:
    zone = scene.site.zone()
    scene.site.user(zone)
    client = scene.site.app(zone)
    assert client.sign_in()
    browser = Browser()
    page = browser.open(client.url())
    assert isinstance(page, Page)
    body = {"client_id": "zone", "name": "Sign-in", "identifier": scene.issuer.issuer}
    made = scene.site.run(scene.site.company.create(PROVIDER, zone.id, **body))
    scene.change_zone(zone, user_identity_provider_id=made.id)
    refused(browser.send(page, email=ADA, password=PASSWORD))
    scene.change_zone(zone, user_identity_provider_id=None)
    assert client.sign_in()


@cell("password", "the user is not disabled")
def _(scene: Scene) -> None:
    zone = scene.site.zone()
    ada = scene.site.user(zone)
    client, browser = scene.site.app(zone), Browser()
    assert client.sign_in()
    page = browser.open(client.url())
    assert isinstance(page, Page)
    scene.disable(zone, ada)
    refused(browser.send(page, email=ADA, password=PASSWORD))


@cell("password", "within the rate limits")
def _(scene: Scene) -> None:
    zone = scene.site.zone()
    scene.site.user(zone)
    client, browser = scene.site.app(zone), Browser()
    assert client.sign_in()
    page: Page | Answer = browser.open(client.url())
    for _ in range(rate_limits.FREE_PASSWORD_TRIES + 1):
        assert isinstance(page, Page)
        last, page = page, browser.send(page, email=ADA, password="not the password")
    assert isinstance(page, Page)
    again = browser.open(client.url())
    assert isinstance(again, Page)
    refused(browser.send(again, email=ADA, password=PASSWORD), 429)
    assert last.response.status_code == 400


# --- registration


@cell("registration", "the zone has no identity provider")
def _(scene: Scene) -> None:
    zone = scene.site.zone(requires_invitation=False)
    client = scene.site.app(zone)
    assert isinstance(register(sign_up(client), "new@acme.example"), Answer)
    form = sign_up(client)
    body = {"client_id": "zone", "name": "Sign-in", "identifier": scene.issuer.issuer}
    made = scene.site.run(scene.site.company.create(PROVIDER, zone.id, **body))
    scene.change_zone(zone, user_identity_provider_id=made.id)
    refused(register(form, "newer@acme.example"))
    assert len(users_of(scene.site, zone)) == 1


@cell("registration", "an invitation, where the zone requires one")
def _(scene: Scene) -> None:
    zone = scene.site.zone(requires_invitation=False)
    client = scene.site.app(zone)
    assert isinstance(register(sign_up(client), "new@acme.example"), Answer)
    form = sign_up(client)
    scene.change_zone(zone, requires_invitation=True)
    refused(register(form, "newer@acme.example"))
    invited = f"guest-{new_id()[:8]}@acme.example"
    scene.api.invite(invited)
    link = f"{client.issuer}/oauth/sign-up?invitation={token_of(scene.api, invited)}"
    browser = Browser()
    page = browser.open(link)
    assert isinstance(page, Page)
    done = browser.send(page, password=PASSWORD)
    assert isinstance(done, Page)
    assert done.response.status_code == 200
    assert {one.email for one in users_of(scene.site, zone)} == {"new@acme.example", invited}


@cell("registration", "no user of the zone has a password for the address")
def _(scene: Scene) -> None:
    zone = scene.site.zone(requires_invitation=False)
    client = scene.site.app(zone)
    assert isinstance(register(sign_up(client), "new@acme.example"), Answer)
    refused(register(sign_up(client), "NEW@acme.example", "another long password"), 400)
    assert len(users_of(scene.site, zone)) == 1


@cell("registration", "the unverified address grants no membership and links no account")
def _(scene: Scene) -> None:
    zone = scene.site.zone(requires_invitation=False)
    client, waiting = scene.site.app(zone), f"boss-{new_id()[:8]}@acme.example"
    group = scene.group(zone, waiting)
    assert isinstance(register(sign_up(client), waiting), Answer)
    assert scene.members(group) == set()
    other = f"chief-{new_id()[:8]}@acme.example"
    vouched = scene.group(zone, other)
    assert scene.members(vouched) == set()
    user = scene.site.user(zone, other)
    assert scene.members(vouched) == {user.id}


# --- invitation


@cell("invitation", "pending, and not expired")
def _(scene: Scene) -> None:
    home = company(scene.api, "home")
    zone_id = home.home_zone().id
    links = {}
    for name in ("good", "used", "revoked", "expired"):
        made = home.invite(f"{name}-{new_id()[:8]}@acme.example")
        links[name] = (made, token_of(home, made["email"]))
    assert accept(home, links["used"][1]).status_code == 200
    elsewhere = home.zone()
    page = Browser().open(f"{home.server.url}/z/{zone_id}/oauth/sign-up?invitation={links['good'][1]}")
    assert isinstance(page, Page)
    assert page.response.status_code == 200
    home.ok("DELETE", f"/organizations/{home.organization_id}/invitations/{links['revoked'][0]['id']}")
    expire(home, links["expired"][0]["id"])
    places = {
        (zone, name): Browser().open(f"{home.server.url}/z/{zone}/oauth/sign-up?invitation={token}")
        for zone in (zone_id, elsewhere.id)
        for name, (_, token) in links.items()
    }
    opened = {key for key, place in places.items() if isinstance(place, Page) and place.response.is_success}
    waits_for_password = (zone_id, "used")
    assert opened == {(zone_id, "good"), (elsewhere.id, "good"), waits_for_password}
    closed = [place for key, place in places.items() if key not in opened]
    assert {each.response.status_code for each in closed if isinstance(each, Page)} == {403}
    assert accept(home, links["good"][1]).status_code == 200
    assert {accept(home, links[name][1]).status_code for name in ("used", "revoked", "expired")} == {409}


@cell("invitation", "the inviter is still permitted to invite")
def _(scene: Scene) -> None:
    home = company(scene.api, "home")
    elsewhere = home.zone()
    key_id, key = home.key()
    tokens = [token_of(home, key.invite(f"new-{new_id()[:8]}@acme.example")["email"]) for _ in range(2)]
    links = [f"{home.server.url}/z/{elsewhere.id}/oauth/sign-up?invitation={token}" for token in tokens]
    opened = [Browser().open(link) for link in links]
    assert [each.response.status_code for each in opened if isinstance(each, Page)] == [200] * len(links)
    assert accept(home, tokens[0]).status_code == 200

    home.ok("DELETE", f"/organizations/{home.organization_id}/api-keys/{key_id}")

    place = Browser().open(links[1])
    assert isinstance(place, Page)
    assert place.response.status_code == 403
    assert accept(home, tokens[1]).status_code == 409


@cell("invitation", "only for the invited address")
def _(scene: Scene) -> None:
    home, away = scene.two()
    ada, eve = someone(home), someone(home)
    away.invite(ada.email)
    token = token_of(away, ada.email)
    assert accept(away, token, **bearer(token_in(eve.calling()))).status_code == 403
    assert accept(away, token, **bearer(token_in(ada.calling()))).status_code == 200


@cell("invitation", "no user is created where an account with the address exists")
def _(scene: Scene) -> None:
    home = company(scene.api, "home")
    fresh = home.invite(f"new-{new_id()[:8]}@acme.example")
    assert accept(home, token_of(home, fresh["email"])).status_code == 200
    known = home.home_zone().user(f"known-{new_id()[:8]}@acme.example")
    home.invite(known.email.upper())
    assert accept(home, token_of(home, known.email.upper())).status_code == 409


@cell("invitation", "the password is set once")
def _(scene: Scene) -> None:
    home = company(scene.api, "home")
    made = home.invite(f"new-{new_id()[:8]}@acme.example")
    token = token_of(home, made["email"])
    assert accept(home, token).status_code == 200
    link = f"{home.home_zone().body['protocols']['oauth2']['issuer']}/oauth/sign-up?invitation={token}"
    first, second = Browser(), Browser()
    pages = [browser.open(link) for browser in (first, second)]
    assert isinstance(pages[0], Page)
    assert isinstance(pages[1], Page)
    done = first.send(pages[0], password=PASSWORD)
    assert isinstance(done, Page)
    assert done.response.status_code == 200
    refused(second.send(pages[1], password="another long password"))


# --- upstream sign-in


@cell("upstream sign-in", "the provider is as stored")
def _(scene: Scene) -> None:
    zone, client = scene.federated()
    scene.says()
    first = scene.sub(client)
    provider_id = str(scene.site.run(scene.site.services.zones.get(zone.id)).entity.user_identity_provider_id)
    identify = scene.site.services.openid.identify

    async def slowly(*arguments: Any, **named: Any) -> Any:
        found = await identify(*arguments, **named)
        patch = {"client_id": f"other-{new_id()[:4]}"}
        await scene.site.company.update(PROVIDER, zone.id, provider_id, **patch)
        return found

    scene.site.services.openid.identify = slowly  # type: ignore[method-assign]
    try:
        refused(Browser().open(client.url()))
    finally:
        scene.site.services.openid.identify = identify  # type: ignore[method-assign]
    assert scene.sub(client) == first


@cell("upstream sign-in", "a verified address, where the address identifies the user or grants a membership")
def _(scene: Scene) -> None:
    by_address = {"protocols": {"openid": {"external_id_claim": "email"}}}
    zone, client = scene.federated(**by_address)
    waiting = f"boss-{new_id()[:8]}@acme.example"
    scene.says(email=waiting)
    first = scene.sub(client)
    scene.says(email=waiting, email_verified=False)
    refused(Browser().open(client.url()))
    scene.says(email=waiting)
    assert scene.sub(client) == first

    zone, client = scene.federated()
    group = scene.group(zone, waiting)
    scene.says(sub="eve", email=waiting, email_verified=False)
    scene.sub(client)
    assert scene.members(group) == set()
    scene.says(sub="boss", email=waiting)
    boss = scene.sub(client)
    assert scene.members(group) == {one.id for one in users_of(scene.site, zone) if one.identifier == boss}


@cell("upstream sign-in", "the user is not disabled")
def _(scene: Scene) -> None:
    zone, client = scene.federated()
    scene.says()
    assert scene.sub(client)
    (ada,) = users_of(scene.site, zone)
    scene.disable(zone, ada)
    refused(Browser().open(client.url()))


@cell("upstream sign-in", "the identifier does not belong to another user")
def _(scene: Scene) -> None:
    _, client = scene.federated(protocols={"openid": {"user_identifier_claim": "nickname"}})
    scene.says(sub="ada", nickname="ada")
    assert scene.sub(client) == "ada"
    scene.says(sub="bob", email="bob@acme.example", nickname="bob")
    assert scene.sub(client) == "bob"
    scene.says(sub="eve", email="eve@acme.example", nickname="ada")
    refused(Browser().open(client.url()))
    scene.says(sub="ada", nickname="bob")
    assert scene.sub(client) == "ada"


@cell("upstream sign-in", "for other organizations: an issuer that they know the account by")
def _(scene: Scene) -> None:
    home, away = scene.two()
    connect(home, scene.issuer)
    ada, bob = federated(home, scene.issuer, "ada"), federated(home, scene.issuer, "bob")
    assert join(away, ada.who.email, ada.by(scene.issuer)).status_code == 200
    assert acts_for(ada.by(scene.issuer), away)
    reconnect(home, protocols={"oauth2": scene.impostor.addresses})
    assert status(bob.by(scene.impostor)) == 200
    assert_refused(ada.signed_in_by(scene.impostor))


# --- JWT bearer assertion


@cell("JWT bearer assertion", "the provider is as stored")
def _(scene: Scene) -> None:
    zone, client = scene.federated()
    scene.says()
    assert scene.sub(client)
    assert scene.vouched(zone, client).status_code == 200
    provider_id = str(scene.site.run(scene.site.services.zones.get(zone.id)).entity.user_identity_provider_id)
    check = scene.site.services.openid.check_signature

    async def slowly(*arguments: Any, **named: Any) -> None:
        await check(*arguments, **named)
        await scene.site.company.update(PROVIDER, zone.id, provider_id, client_id=f"other-{new_id()[:4]}")

    scene.site.services.openid.check_signature = slowly  # type: ignore[method-assign]
    try:
        answer = scene.vouched(zone, client)
    finally:
        scene.site.services.openid.check_signature = check  # type: ignore[method-assign]
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
    assert scene.vouched(zone, client).status_code == 200


@cell("JWT bearer assertion", "a verified address, where the address identifies the user")
def _(scene: Scene) -> None:
    zone, client = scene.federated(protocols={"openid": {"external_id_claim": "email"}})
    scene.says()
    assert scene.sub(client)
    assert scene.vouched(zone, client, email=ADA, email_verified=True).status_code == 200
    claims = ({"email": ADA}, {"email": ADA, "email_verified": False})
    answers = [scene.vouched(zone, client, **said) for said in claims]
    assert {(each.status_code, each.json()["error"]) for each in answers} == {(400, "invalid_grant")}


@cell("JWT bearer assertion", "the user is not disabled")
def _(scene: Scene) -> None:
    zone, client = scene.federated()
    scene.says()
    assert scene.sub(client)
    assert scene.vouched(zone, client).status_code == 200
    scene.disable(zone, users_of(scene.site, zone)[0])
    assert scene.vouched(zone, client).json()["error"] == "invalid_grant"


@cell("JWT bearer assertion", "the user has signed in before: no user is created, no account is linked")
def _(scene: Scene) -> None:
    """Neither in a zone of its own, nor where a sign-in would take over who has that verified address."""
    zone, client = scene.federated()
    known = {"email": ADA, "email_verified": True}
    assert scene.vouched(zone, client, **known).json()["error"] == "invalid_grant"
    assert users_of(scene.site, zone) == []
    scene.says()
    assert scene.sub(client)
    assert scene.vouched(zone, client, **known).status_code == 200

    home = company(scene.api, "home")
    ada, credential = someone(home), application(home, public=False)
    own = ada.client.zone
    app = Client(own, ada.client.app)
    before = scene.credentials(own)
    connect(home, scene.issuer)
    form = {"client_id": credential["identifier"], "client_secret": credential["password"]}
    person = Person(ada, f"ada-{new_id()}")

    def redeem() -> httpx.Response:
        said = {"sub": person.subject, "email": ada.email, "email_verified": True}
        assertion = scene.issuer.vouch(app.issuer, **said)
        return app.token(authenticate=False, grant_type=GRANT_TYPE, assertion=assertion, **form)

    assert redeem().json()["error"] == "invalid_grant"
    assert scene.credentials(own) == before
    assert status(person.by(scene.issuer)) == 200
    assert scene.credentials(own) == before + 1
    assert redeem().status_code == 200


@cell("JWT bearer assertion", "for other organizations: an issuer that they know the account by")
def _(scene: Scene) -> None:
    home, away = scene.two()
    connect(home, scene.issuer)
    ada, bob = federated(home, scene.issuer, "ada"), federated(home, scene.issuer, "bob")
    assert join(away, ada.who.email, ada.by(scene.issuer)).status_code == 200
    credential = application(home, public=False)
    form = {"client_id": credential["identifier"], "client_secret": credential["password"]}

    def redeem(provider: OpenIDServer, subject: str) -> int:
        assertion = provider.vouch(ada.who.client.issuer, sub=subject)
        asked = {"grant_type": GRANT_TYPE, "assertion": assertion, **form}
        return ada.who.client.token(authenticate=False, **asked).status_code

    assert (redeem(scene.issuer, ada.subject), redeem(scene.issuer, bob.subject)) == (200, 200)
    reconnect(home, protocols={"oauth2": {"jwks_uri": scene.impostor.addresses["jwks_uri"]}})
    assert (redeem(scene.impostor, ada.subject), redeem(scene.impostor, bob.subject)) == (400, 200)


# --- accounts of organizations


@cell("management token", "for another organization: issued to the service's own client")
def _(scene: Scene) -> None:
    home, away = scene.two()
    ada = someone(home)
    mine = ada.calling()
    assert join(away, ada.email, mine).status_code == 200
    theirs = through(ada, application(home))
    assert (acts_for(mine, home), acts_for(mine, away)) == (True, True)
    assert (acts_for(theirs, home), acts_for(theirs, away)) == (True, False)


@cell("management token", "for another organization: a sign-in that it knows the account by")
def _(scene: Scene) -> None:
    home, away = scene.two()
    ada = someone(home)
    mine = ada.calling()
    connect(home, scene.issuer)
    planted = Person(ada, f"ada-{new_id()}").by(scene.issuer)
    assert join(away, ada.email, mine).status_code == 200
    assert (acts_for(mine, away), acts_for(planted, home), acts_for(planted, away)) == (True, True, False)


@cell("management token", "currently a member of that organization and of the home organization")
def _(scene: Scene) -> None:
    home, away = scene.two()
    ada, bob = someone(home), someone(home)
    calls = {one.email: one.calling() for one in (ada, bob)}
    assert not [one for one in (ada, bob) if acts_for(calls[one.email], away)]
    assert {join(away, one.email, calls[one.email]).status_code for one in (ada, bob)} == {200}
    assert not [one for one in (ada, bob) if not acts_for(calls[one.email], away)]
    away.ok("DELETE", f"/organizations/{away.organization_id}/users/{ada.user.id}")
    assert (acts_for(calls[ada.email], away), acts_for(calls[ada.email], home)) == (False, True)
    home.ok("DELETE", bob.path)
    assert not acts_for(calls[bob.email], away)


@cell("joining another organization", "issued to the service's own client")
def _(scene: Scene) -> None:
    home, away = scene.two()
    ada = someone(home)
    theirs = through(ada, application(home))
    away.invite(ada.email)
    token = token_of(away, ada.email)
    assert accept(away, token, **bearer(token_in(theirs))).status_code == 403
    assert accept(away, token, **bearer(token_in(ada.calling()))).status_code == 200


@cell("joining another organization", "the verified address is the invited one")
def _(scene: Scene) -> None:
    home, away = scene.two()
    ada = someone(home)
    mine = ada.calling()
    wanted = f"chief-{new_id()[:8]}@acme.example"
    home.ok("PATCH", home.home_zone().path(f"/users/{ada.user.zone_user_id}"), {"email": wanted})
    assert join(away, wanted, mine).status_code == 403
    bob = someone(home)
    assert join(away, bob.email, bob.calling()).status_code == 200


@cell(
    "joining another organization",
    "a provider whose assertions no administrator of the home organization can control",
)
def _(scene: Scene) -> None:
    home, away = scene.two()
    connect(home, scene.issuer)
    bob = federated(home, scene.issuer, "bob")
    reconnect(home, protocols={"oauth2": scene.impostor.addresses})
    away.invite(bob.who.email)
    token = token_of(away, bob.who.email)
    assert accept(away, token, **bearer(token_in(bob.by(scene.impostor)))).status_code == 403
    reconnect(home, protocols=None)
    assert accept(away, token, **bearer(token_in(bob.by(scene.issuer)))).status_code == 200


# --- the table


@pytest.mark.threat("39h")
@pytest.mark.parametrize(("way", "condition"), documented(), ids=" - ".join)
@pytest.mark.usefixtures("one_window")
def test_only_who_meets_the_condition_is_admitted(
    site: Site, issuer: OpenIDServer, impostor: OpenIDServer, way: str, condition: str
) -> None:
    """Met, somebody is admitted; not met, nobody is."""
    CELLS[way, condition](Scene(site, issuer, impostor))


def test_the_document_has_every_way_and_no_other() -> None:
    """A new way in needs its row, and each row is tried."""
    assert {each.__name__ for each in get_args(admission.AdmissionRequest)} == WAYS.keys()
    assert {way for way, _ in documented()} == set(WAYS.values())
    assert set(documented()) == CELLS.keys()


# What tells users by something from outside, or lets them in by it; and who else may ask for it.
_OUTSIDE = re.compile(
    r"\b(find_by_subject|find_by_password|local_with_verified|without_credential|has_verified"
    r"|add_federation|add_password|renew_provider|bind_invitations)\("
)
ASKS = {
    "authority/admission/account_linking.py": "identities of the zone's provider, for `admit`",
    "authority/admission/checks.py": "a new user joins what waits for their verified address, for `admit`",
    "authority/admission/password_accounts.py": "accounts with a password, for `admit`",
    "connect/upstream.py": "refuses an account that another user signs in with; nobody is let in by it",
    "login/password_reset.py": "sends a link to who has a password and that address; lets nobody in",
    "login/password.py": "compares a password with its hash; does not decide whether its owner may sign in",
}


def test_no_other_module_makes_users_of_what_comes_from_outside() -> None:
    """Whoever looks up a user by a subject, an address or a password decides who somebody is."""
    services = Path(admission.__file__).parents[2]
    found = {
        str(path.relative_to(services))
        for path in services.rglob("*.py")
        if _OUTSIDE.search(path.read_text("utf-8"))
    }
    assert found == ASKS.keys()
