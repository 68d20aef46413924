"""People act for several organizations; who administrates the one they are at home in has no power elsewhere.

Ada's account belongs to the organization `home`, and she acts for `away` too. Each test first sees her do so.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest
from tests.runtime.management.across import (
    GRANT_TYPE,
    Person,
    acts_for,
    application,
    assert_refused,
    bearer,
    company,
    connect,
    disconnect,
    federated,
    join,
    reconnect,
    swapped,
    through,
    token_in,
)
from tests.runtime.management.conftest import Api, caller
from tests.runtime.management.members.inviting import accept, address, token_of
from tests.runtime.management.signing_in import Someone, someone, status
from tests.support.oauth_site import PASSWORD, Answer, Browser, Page, claims
from tests.support.openid_server import OpenIDServer, openid_server

from runtime.domain.identifiers import new_id
from runtime.services.authority import users
from runtime.services.container import Services
from runtime.services.management.access.caller import TOKEN_TYPE


@pytest.fixture
def home(api: Api) -> Api:
    return company(api, "home")


@pytest.fixture
def away(api: Api) -> Api:
    return company(api, "away")


@pytest.fixture(scope="module")
def issuer() -> Iterator[OpenIDServer]:
    """The provider of the organization at home; nobody there can change what it says."""
    with openid_server() as running:
        yield running


@pytest.fixture(scope="module")
def impostor(issuer: OpenIDServer) -> Iterator[OpenIDServer]:
    """A server of the administrator's, which speaks in the provider's name with keys of its own."""
    with openid_server(issuer.issuer) as running:
        yield running


class TestConnection:
    """Changes of the connection at which the organization's people sign in."""

    @pytest.mark.threat("39a", "39c", "39h")
    def test_an_impostor_in_the_issuers_name_signs_in_nobody_who_acts_elsewhere(
        self, home: Api, away: Api, issuer: OpenIDServer, impostor: OpenIDServer
    ) -> None:
        """It signs in whom it likes at home; what stood before has ended; the issuer is believed again."""
        connect(home, issuer)
        ada, bob = federated(home, issuer, "ada"), federated(home, issuer, "bob")
        assert join(away, ada.who.email, ada.by(issuer)).status_code == 200
        before = ada.by(issuer)
        assert acts_for(before, away)

        reconnect(home, protocols={"oauth2": impostor.addresses})
        assert status(before) == 401
        assert status(bob.by(impostor)) == 200
        assert_refused(ada.signed_in_by(impostor))

        reconnect(home, protocols=None)
        assert acts_for(ada.by(issuer), away)

    @pytest.mark.threat("39a", "39c", "39h")
    def test_whom_an_impostor_signed_in_joins_no_other_organization(
        self, home: Api, away: Api, issuer: OpenIDServer, impostor: OpenIDServer
    ) -> None:
        """Neither is a membership that comes afterwards: 403; and the token ends with the impostor."""
        connect(home, issuer)
        bob = federated(home, issuer, "bob")
        reconnect(home, protocols={"oauth2": impostor.addresses})
        made_up = bob.by(impostor)
        refused = join(away, bob.who.email, made_up)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert not acts_for(made_up, away)

        reconnect(home, protocols=None)
        assert status(made_up) == 401

    @pytest.mark.threat("39a", "39c")
    @pytest.mark.parametrize(
        "member", ["authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"]
    )
    def test_one_address_by_hand(self, home: Api, away: Api, issuer: OpenIDServer, member: str) -> None:
        """Even the right one: it is the administrator who says where it is, and may say another later."""
        connect(home, issuer)
        ada, bob = federated(home, issuer, "ada"), federated(home, issuer, "bob")
        assert join(away, ada.who.email, ada.by(issuer)).status_code == 200
        assert acts_for(ada.by(issuer), away)

        if member == "userinfo_endpoint":
            reconnect(home, protocols={"openid": {member: f"{issuer.url}/userinfo"}})
        else:
            reconnect(home, protocols={"oauth2": {member: issuer.addresses[member]}})
        assert status(bob.by(issuer)) == 200
        assert_refused(ada.signed_in_by(issuer))

    @pytest.mark.threat("39a", "39c")
    def test_another_claim_as_the_subject(self, home: Api, away: Api, issuer: OpenIDServer) -> None:
        """A claim that people can choose themselves names nobody who acts elsewhere."""
        connect(home, issuer)
        ada, eve = federated(home, issuer, "ada"), federated(home, issuer, "eve")
        assert join(away, ada.who.email, ada.by(issuer)).status_code == 200
        assert acts_for(ada.by(issuer), away)

        reconnect(home, protocols={"openid": {"external_id_claim": "nickname"}})
        for whom, refused in ((eve, False), (ada, True)):
            issuer.says = {"sub": "eve", "email": eve.who.email, "nickname": whom.subject}
            url = ada.who.client.url(resources=[home.server.url], scope="openid", nonce=None)
            place = Browser().open(url)
            assert isinstance(place, Page) == refused, whom

    @pytest.mark.threat("39a", "39b")
    @pytest.mark.parametrize("change", ["update", "a new connection"])
    def test_the_same_person_of_another_issuer_is_somebody_else(
        self, home: Api, away: Api, issuer: OpenIDServer, change: str
    ) -> None:
        """Who is called and addressed like Ada there is somebody else: neither her account nor invited."""
        connect(home, issuer)
        ada = federated(home, issuer, "ada")
        assert join(away, ada.who.email, ada.by(issuer)).status_code == 200
        assert acts_for(ada.by(issuer), away)

        with openid_server() as evil:
            if change == "update":
                reconnect(home, identifier=evil.issuer)
            else:
                disconnect(home)
                connect(home, evil)
            place = ada.signed_in_by(evil)
            assert isinstance(place, Answer)
            token = ada.who.client.redeem(place.code).json()["access_token"]
            assert not acts_for(ada.who.with_token(token), away)
            assert status(ada.who.with_token(token)) == 401

    @pytest.mark.threat("39b")
    @pytest.mark.parametrize("named", ["its own name", "the zone's name"])
    def test_a_provider_that_was_let_in_before(self, home: Api, away: Api, named: str) -> None:
        """It bound Ada's account when that was at home alone; the others know her by her password."""
        ada = someone(home)
        zone_issuer = ada.client.issuer
        mine = ada.calling()
        with openid_server(zone_issuer if named == "the zone's name" else None) as evil:
            by_hand = {"protocols": {"oauth2": evil.addresses}} if named == "the zone's name" else {}
            connect(home, evil, **by_hand)
            known = Person(ada, f"ada-{new_id()}")
            planted = known.by(evil)
            assert status(planted) == status(mine) == 200

            assert join(away, ada.email, mine).status_code == 200
            assert acts_for(mine, away)
            assert not acts_for(planted, away)
            told = planted.ok("GET", "/organizations?limit=100")["items"]
            assert [one["id"] for one in told] == [home.organization_id]
            assert len(mine.ok("GET", "/organizations?limit=100")["items"]) == 2
            assert_refused(known.signed_in_by(evil))
            disconnect(home)
            connect(home, evil, **by_hand)
            assert_refused(known.signed_in_by(evil))
        disconnect(home)
        assert acts_for(mine, away)

    @pytest.mark.threat("39b", "22f")
    def test_who_founded_another_organization(self, home: Api) -> None:
        """Ada's new organization knows her by her password, so a provider does not take her over."""
        ada = someone(home, "org_admin")
        mine = ada.calling()
        second = mine.ok("POST", "/organizations", {"name": home.named("second")})["id"]
        assert acts_for(mine, caller(home.server, "", second))
        with openid_server() as evil:
            connect(home, evil)
            bob = someone(home)
            assert isinstance(Person(bob, f"bob-{new_id()}").signed_in_by(evil), Answer)
            assert_refused(Person(ada, f"ada-{new_id()}").signed_in_by(evil))


@dataclass
class Vouching:
    """Ada, who acts for two organizations, and Bob, who acts for his own, vouched for by assertions."""

    home: Api
    issuer: OpenIDServer
    impostor: OpenIDServer
    ada: Person
    bob: Person
    credential: dict[str, Any]

    def redeem(self, provider: OpenIDServer, subject: str) -> httpx.Response:
        """The answer to an assertion of a provider about somebody."""
        zone_issuer = self.ada.who.client.issuer
        form = {"grant_type": GRANT_TYPE, "assertion": provider.vouch(zone_issuer, sub=subject)}
        form |= {"client_id": self.credential["identifier"], "client_secret": self.credential["password"]}
        return httpx.post(f"{zone_issuer}/oauth/token", data={**form, "resource": self.home.server.url})

    def let_the_impostor_sign(self) -> None:
        """The administrator at home names the impostor's keys."""
        reconnect(self.home, protocols={"oauth2": {"jwks_uri": self.impostor.addresses["jwks_uri"]}})


@pytest.fixture
def vouching(home: Api, away: Api, issuer: OpenIDServer, impostor: OpenIDServer) -> Vouching:
    connect(home, issuer)
    ada, bob = federated(home, issuer, "ada"), federated(home, issuer, "bob")
    assert join(away, ada.who.email, ada.by(issuer)).status_code == 200
    assert acts_for(ada.by(issuer), away)
    return Vouching(home, issuer, impostor, ada, bob, application(home, public=False))


@pytest.mark.threat("39a", "39e")
@pytest.mark.parametrize("name", ["ada", "bob"])
def test_an_assertion_acts_in_the_applications_organization_alone(
    home: Api, away: Api, vouching: Vouching, name: str
) -> None:
    """Whomever it is about: the application that redeems it is one of the home organization's."""
    person: Person = getattr(vouching, name)
    vouched = vouching.redeem(vouching.issuer, person.subject)
    assert vouched.status_code == 200
    mine = vouching.ada.who.with_token(vouched.json()["access_token"])
    assert acts_for(mine, home)
    assert not acts_for(mine, away)


@pytest.mark.threat("39a", "39c")
def test_keys_that_the_administrator_names_vouch_for_who_acts_at_home(vouching: Vouching) -> None:
    """An assertion that is signed with them, about somebody who acts nowhere else."""
    vouching.let_the_impostor_sign()
    assert vouching.redeem(vouching.impostor, vouching.bob.subject).status_code == 200


@pytest.mark.threat("39a", "39c", "39e", "39h")
@pytest.mark.parametrize("whom", ["ada", "nobody"])
def test_keys_that_the_administrator_names_vouch_for_nobody_else(vouching: Vouching, whom: str) -> None:
    """Neither for who acts elsewhere, nor for somebody new."""
    vouching.let_the_impostor_sign()
    subject = vouching.ada.subject if whom == "ada" else whom
    refused = vouching.redeem(vouching.impostor, subject)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")


@pytest.mark.threat("39a", "39c")
def test_keys_that_are_named_no_more_vouch_for_nobody(vouching: Vouching) -> None:
    """The assertions of the provider that was connected before are refused."""
    assert vouching.redeem(vouching.issuer, vouching.ada.subject).status_code == 200
    vouching.let_the_impostor_sign()
    assert vouching.redeem(vouching.issuer, vouching.ada.subject).status_code == 400


@dataclass
class Guest:
    """Somebody who acts for two organizations, and the management API with a token from home."""

    ada: Someone
    mine: Api


class TestApplications:
    """Applications of the home zone, which the home organization's administrators have chosen."""

    @pytest.fixture
    def guest(self, home: Api, away: Api) -> Guest:
        """An administrator at home who acts for the other organization, by the service's own client."""
        ada = someone(home, "org_admin")
        mine = ada.calling()
        assert join(away, ada.email, mine).status_code == 200
        assert acts_for(mine, away)
        return Guest(ada, mine)

    @pytest.mark.threat("39d", "39f", "39g")
    @pytest.mark.parametrize("consent", ["implicit", "required"])
    def test_their_tokens_act_at_home_alone(self, home: Api, away: Api, guest: Guest, consent: str) -> None:
        """One click, or even the person's consent, hands them the organization at home and nothing else.

        Another one is 404 for them, as one that does not exist.
        """
        theirs = through(guest.ada, application(home, consent=consent))
        assert acts_for(theirs, home)
        assert not acts_for(theirs, away)
        refused = swapped(theirs, away)
        unknown = theirs("POST", f"/organizations/{new_id()}/token")
        assert refused.status_code == unknown.status_code == 404

    @pytest.mark.threat("39d", "39f", "39g")
    @pytest.mark.parametrize("consent", ["implicit", "required"])
    def test_their_tokens_list_the_organization_at_home_alone(
        self, home: Api, guest: Guest, consent: str
    ) -> None:
        """The person sees both with the service's own client."""
        theirs = through(guest.ada, application(home, consent=consent))
        at_home = theirs.ok("GET", "/organizations?limit=100&expand[]=permissions")["items"]
        assert [one["id"] for one in at_home] == [home.organization_id]
        assert len(guest.mine.ok("GET", "/organizations?limit=100")["items"]) == 2

    @pytest.mark.threat("39d", "39f", "39g")
    @pytest.mark.parametrize("consent", ["implicit", "required"])
    def test_their_tokens_make_no_organization(self, home: Api, guest: Guest, consent: str) -> None:
        """The refusal says to sign in with the service's own client, which may."""
        theirs = through(guest.ada, application(home, consent=consent))
        told = theirs.refused(403, "POST", "/organizations", {"name": "hers"})
        assert "sign in with `zonectl`" in told["message"]
        assert guest.mine.ok("POST", "/organizations", {"name": home.named("hers")})

    @pytest.mark.threat("39d", "39f", "39g")
    def test_they_accept_no_invitation_of_another_organization(self, home: Api, away: Api) -> None:
        """Of their own they do; another's invitation stays for the person with the service's own client."""
        email, zone_id = address("eve"), home.home_zone().id
        home.server.call(
            lambda services: users.create_local_user(services, zone_id, email, PASSWORD, verified=True)
        )
        ada, credential = someone(home), application(home)
        eve = replace(ada, email=email, browser=Browser())
        assert join(home, email, through(eve, credential)).status_code == 200

        theirs = through(ada, credential)
        away.invite(ada.email)
        invitation = token_of(away, ada.email)
        refused = accept(away, invitation, **bearer(token_in(theirs)))
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert "sign in with `zonectl`" in refused.json()["message"]
        assert accept(away, invitation, **bearer(token_in(ada.calling()))).status_code == 200

    @pytest.mark.threat("39c", "39g", "39h")
    def test_a_token_of_another_organization_is_the_services_own_clients(self, home: Api, away: Api) -> None:
        """However one has come about that names an application of the home organization, it is refused."""
        ada = someone(home)
        mine = ada.calling()
        assert join(away, ada.email, mine).status_code == 200
        credential = application(home)
        theirs = through(ada, credential)
        sid = claims(token_in(theirs))["sid"]

        def signed(organization: Api, **changes: str) -> Api:
            """A token of an organization with Ada's sign-in, changed and signed by its own key."""
            said = {**claims(swapped(mine, organization).json()["access_token"]), **changes, "jti": new_id()}
            zone_id = organization.home_zone().id

            async def sign(services: Services) -> str:
                zone = await services.zones.get(zone_id)
                return zone.signing(zone.access_token_algorithm).sign(said, typ=TOKEN_TYPE)

            return caller(home.server, home.server.call(sign), organization.organization_id)

        theirs_as = {"client_id": credential["identifier"], "sid": sid}
        assert status(signed(away)) == 200
        assert status(signed(away, **theirs_as)) == 401
        assert status(signed(home)) == status(signed(home, **theirs_as)) == 200

    @pytest.mark.threat("39d", "39g", "27l")
    def test_the_services_own_client_stays_its_own(self, home: Api) -> None:
        """No credential, redirect address or dependency is added to it; to another application they are."""
        zone, ada = home.home_zone(), someone(home)
        (app,) = home.ok("GET", zone.path("/applications?identifier=zonectl"))["items"]
        other = zone.make("applications")
        resource = zone.make("resources")
        assert zone.password(other["id"])
        home.ok("PUT", zone.path(f"/applications/{other['id']}/dependencies/{resource['id']}"))
        redirects = {"protocols": {"oauth2": {"redirect_uris": ["https://evil.example/callback"]}}}
        home.ok("PATCH", zone.path(f"/applications/{other['id']}"), redirects)

        home.refused(403, "PATCH", zone.path(f"/applications/{app['id']}"), redirects)
        path = zone.path(f"/applications/{app['id']}/dependencies/{resource['id']}")
        home.refused(403, "PUT", path)
        for kind in ("password", "public"):
            body = {"type": kind, "application_id": app["id"], "identifier": home.named("mine")}
            home.refused(403, "POST", zone.path("/application-credentials"), body)
        assert status(ada.calling()) == 200

    @pytest.mark.threat("39d", "39g", "27l")
    @pytest.mark.parametrize(("member", "value"), [("owner_type", "platform"), ("identifier", "zonectl")])
    def test_no_application_becomes_the_services_own_client(self, home: Api, member: str, value: str) -> None:
        """Neither by whose it is nor by what it is called."""
        zone = home.home_zone()
        other = zone.make("applications")
        refused = home("PATCH", zone.path(f"/applications/{other['id']}"), {member: value})
        assert refused.status_code in (400, 409), refused.text


class TestMembership:
    """What the other organization has decided on, as it is now."""

    @pytest.mark.threat("39h", "18c")
    @pytest.mark.parametrize("how", ["disabled", "removed", "stand-in disabled"])
    def test_it_ends_there(self, home: Api, away: Api, how: str) -> None:
        """At the very next request, with a token of before as well; at home nothing has changed."""
        ada = someone(home)
        mine = ada.calling()
        assert join(away, ada.email, mine).status_code == 200
        there = caller(home.server, swapped(mine, away).json()["access_token"], away.organization_id)
        assert status(there) == 200

        path = f"/organizations/{away.organization_id}/users/{ada.user.id}"
        if how == "disabled":
            away.ok("PATCH", path, {"status": "disabled"})
        elif how == "removed":
            away.ok("DELETE", path)
        else:
            zone = away.home_zone()
            found = away.ok("GET", zone.path("/users?limit=100"))["items"]
            (stand_in,) = [one for one in found if one["email"] == ada.email]
            away.ok("PATCH", zone.path(f"/users/{stand_in['id']}"), {"status": "disabled"})
        assert status(there) == 401
        assert not acts_for(mine, away)
        assert acts_for(mine, home)

    @pytest.mark.threat("39h")
    def test_it_ends_at_home(self, home: Api, away: Api) -> None:
        """An account that is disabled where it belongs acts nowhere."""
        ada = someone(home)
        mine = ada.calling()
        assert join(away, ada.email, mine).status_code == 200
        there = caller(home.server, swapped(mine, away).json()["access_token"], away.organization_id)
        assert status(there) == 200
        home.ok("PATCH", ada.path, {"status": "disabled"})
        assert (status(there), status(mine)) == (401, 401)

    @pytest.mark.threat("39h")
    def test_what_home_says_of_a_person_is_not_repeated_elsewhere(self, home: Api, away: Api) -> None:
        """Called by the name that the other organization knows, not by one that is changed at home."""
        ada = someone(home)
        mine = ada.calling()
        assert join(away, ada.email, mine).status_code == 200
        away.ok(
            "PATCH",
            f"/organizations/{away.organization_id}/users/{ada.user.id}",
            {"role": "org_admin"},
        )
        there = caller(home.server, swapped(mine, away).json()["access_token"], away.organization_id)
        for wanted in (ada.email, "chief@away.example"):
            home.ok("PATCH", home.home_zone().path(f"/users/{ada.user.zone_user_id}"), {"email": wanted})
            made = there.invite()
            preview = httpx.get(f"{home.server.url}/invitations/{token_of(away, made['email'])}").json()
            assert preview["created_by_name"] == ada.email
