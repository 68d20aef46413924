"""Accepting an invitation as somebody who is signed in, at home here or in another organization."""

from collections.abc import Iterator

import httpx
import pytest
from tests.runtime.login.federation import running, sign_in
from tests.runtime.management.conftest import Api
from tests.runtime.management.members.inviting import accept, address, path, stranger, token_of
from tests.runtime.management.signing_in import Someone, someone
from tests.support.connections import Connections
from tests.support.oauth_site import PASSWORD, Answer, Browser, Page

from runtime.domain.identifiers import new_id
from runtime.services.authority import users
from runtime.services.container import Services


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def access_token(person: Someone) -> str:
    return person.tokens()["access_token"]


def test_an_account_of_another_organization(api: Api, other: Api) -> None:
    """The same account acts for both, with a token of each, and signs in at home."""
    ada = someone(other)
    api.invite(ada.email.upper(), "org_viewer")
    token = token_of(api, ada.email.upper())
    access = access_token(ada)

    done = accept(api, token, **bearer(access))
    assert done.status_code == 200, done.text
    assert done.json()["user_id"] == ada.user.id
    person = api.ok("GET", f"/organizations/{api.organization_id}/users/{ada.user.id}")
    home = other.home_zone().body["protocols"]["oauth2"]["issuer"]
    assert (person["email"], person["role"], person["source"]) == (ada.email, "org_viewer", home)

    theirs = ada.exchanged(ada.with_token(access), api.organization_id)
    assert theirs.ok("GET", f"/organizations/{api.organization_id}")["id"] == api.organization_id
    theirs.refused(403, "POST", path(api), {"email": address(), "role": "org_viewer"})
    assert accept(api, token, **bearer(access)).status_code == 409


def test_an_account_that_was_there_before_the_invitation(api: Api) -> None:
    """Somebody who can sign in to the organization's home zone, and is no user of the organization yet."""
    ada = someone(api)
    bob = address("bob")
    zone_id = api.home_zone().id

    async def make(services: Services) -> str:
        return (await users.create_local_user(services, zone_id, bob, PASSWORD, verified=True)).id

    user_id = api.server.call(make)
    visitor = Someone(api, bob, ada.user, ada.client)
    access = access_token(visitor)
    api.invite(bob, "org_admin")
    token = token_of(api, bob)

    assert accept(api, token).status_code == 409
    assert accept(api, token, **bearer(access)).json()["user_id"] == user_id
    person = api.ok("GET", f"/organizations/{api.organization_id}/users/{user_id}")
    assert (person["email"], person["role"]) == (bob, "org_admin")


@pytest.mark.threat("26k")
def test_somebody_else_is_refused(api: Api, other: Api) -> None:
    """An account of another address, whoever's token it holds; the invitation stays for whom it was meant."""
    ada, eve = someone(other), someone(other)
    api.invite(ada.email)
    token = token_of(api, ada.email)
    refused = accept(api, token, **bearer(access_token(eve)))
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert stranger(api, "GET", f"/{token}").json()["status"] == "pending"
    assert accept(api, token, **bearer(access_token(ada))).status_code == 200


class Federated:
    """Somebody of another organization whom its provider signs in, and the connection to that.

    An administrator of that organization who describes the provider by hand could be anybody it knows.
    """

    def __init__(self, other: Api, issuer: str, by_hand: str) -> None:
        self.other = other
        self.path = f"/organizations/{other.organization_id}/sso-connection"
        self.subject = new_id()
        keys = httpx.get(f"{issuer}/.well-known/openid-configuration").json()["jwks_uri"]
        self.by_hand = {
            "jwks_uri": {"oauth2": {"jwks_uri": keys}},
            "external_id_claim": {"openid": {"external_id_claim": "nickname"}},
        }[by_hand]
        who, email = someone(other), address()
        body = {"client_id": "organization", "client_secret": "s", "identifier": issuer}
        other.ok("POST", self.path, body)
        told = {"email": email, "email_verified": True, "nickname": self.subject}
        assert httpx.put(f"{issuer}/users/{self.subject}", json=told).status_code == 204
        other.invite(email)
        assert token_of(other, email)  # this mail has left before the next one to the address
        self.ada = Someone(other, email, who.user, who.client)

    def describe_by_hand(self) -> None:
        self.other.ok("PATCH", self.path, {"protocols": self.by_hand, "client_secret": "s"})

    def describe_by_the_issuer(self) -> None:
        self.other.ok("PATCH", self.path, {"protocols": None, "client_secret": "s"})

    def sign_in(self, browser: Browser | None = None) -> "Answer | Page":
        return sign_in(browser or self.ada.browser, self.ada.client, self.subject)

    def access_token(self) -> str:
        """The token of a sign-in, which succeeds."""
        assert isinstance(self.sign_in(), Answer)
        return access_token(self.ada)


@pytest.fixture(params=["jwks_uri", "external_id_claim"])
def federated(request: pytest.FixtureRequest, other: Api) -> Iterator[Federated]:
    with running() as provider:
        try:
            yield Federated(other, provider.issuer, request.param)
        finally:
            other("DELETE", f"/organizations/{other.organization_id}/sso-connection")


def test_accepting_takes_one_connection_at_a_time(api: Api, federated: Federated) -> None:
    """How the account's home zone signs people in is read in the transaction that accepts."""
    connections, email = Connections(), federated.ada.email
    api.invite(email)
    token, access = token_of(api, email), federated.access_token()

    with connections.watched():
        done = accept(api, token, **bearer(access))

    assert done.status_code == 200, done.text
    assert connections.taken > 0
    assert connections.inside_another == []


@pytest.mark.threat("22f")
def test_a_change_of_the_connection_ends_what_it_signed_in(api: Api, federated: Federated) -> None:
    """In both directions: to a description by hand, and back to what the issuer says."""
    by_issuer = federated.access_token()
    assert accept(api, "x" * 43, **bearer(by_issuer)).status_code == 404
    federated.describe_by_hand()
    assert accept(api, "x" * 43, **bearer(by_issuer)).status_code == 401
    by_hand = federated.access_token()
    assert accept(api, "x" * 43, **bearer(by_hand)).status_code == 404
    federated.describe_by_the_issuer()
    assert accept(api, "x" * 43, **bearer(by_hand)).status_code == 401


@pytest.mark.threat("22f")
def test_who_a_provider_described_by_hand_signed_in_accepts_nothing_elsewhere(
    api: Api, federated: Federated
) -> None:
    """403, and the invitation waits for the sign-in of the issuer itself."""
    federated.describe_by_hand()
    made_up = federated.access_token()
    api.invite(federated.ada.email)
    token = token_of(api, federated.ada.email)
    assert accept(api, token, **bearer(made_up)).status_code == 403
    federated.describe_by_the_issuer()
    assert accept(api, token, **bearer(federated.access_token())).status_code == 200


@pytest.mark.threat("22f")
def test_a_provider_described_by_hand_does_not_sign_in_who_acts_elsewhere(
    api: Api, federated: Federated
) -> None:
    """The issuer itself does; the refusal is a page that says why."""
    access = federated.access_token()
    api.invite(federated.ada.email)
    assert accept(api, token_of(api, federated.ada.email), **bearer(access)).status_code == 200
    assert isinstance(federated.sign_in(Browser()), Answer)
    federated.describe_by_hand()
    refused = federated.sign_in(Browser())
    assert isinstance(refused, Page)
    assert refused.response.status_code == 403
    assert "other organizations" in refused.text


@pytest.mark.threat("13i")
@pytest.mark.parametrize("wrong", ["an API key", "a token of one organization", "nonsense", "Basic"])
def test_only_a_users_token_accepts_an_invitation(api: Api, other: Api, wrong: str) -> None:
    """Another credential is refused with 401; its bearer is not taken for somebody without any."""
    ada = someone(other)
    api.invite(ada.email)
    token, access = token_of(api, ada.email), access_token(ada)
    mine = ada.with_token(access)
    headers = {
        "an API key": bearer(api.server.api_key),
        "a token of one organization": bearer(
            mine.ok("POST", f"/organizations/{other.organization_id}/token")["access_token"]
        ),
        "nonsense": bearer("nonsense"),
        "Basic": {"Authorization": "Basic Zm9vOmJhcg=="},
    }
    assert accept(api, token, **headers[wrong]).status_code == 401
    assert accept(api, token, **bearer(access)).status_code == 200


@pytest.mark.threat("22f")
def test_single_sign_on_does_not_take_over_who_acts_elsewhere(api: Api, other: Api) -> None:
    """Another organization has trusted the account by its password, not by the provider that is new."""
    ada = someone(other)
    api.invite(ada.email)
    assert accept(api, token_of(api, ada.email), **bearer(access_token(ada))).status_code == 200

    with running() as provider:
        connection = f"/organizations/{other.organization_id}/sso-connection"
        body = {"client_id": "organization", "client_secret": "s", "identifier": provider.issuer}
        other.ok("POST", connection, body)
        told = {"email": ada.email, "email_verified": True}
        assert httpx.put(f"{provider.issuer}/users/ada", json=told).status_code == 204
        place = sign_in(Browser(), ada.client, "ada")
        other.ok("DELETE", connection)
    assert isinstance(place, Page)
    assert place.response.status_code == 403
    assert "other organizations" in place.text
    assert ada.calling()
