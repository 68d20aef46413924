"""Accepting an invitation as somebody who is signed in, at home here or in another organization."""

import httpx
import pytest
from tests.runtime.login.federation import running, sign_in
from tests.runtime.management.conftest import Api
from tests.runtime.management.members.inviting import accept, address, path, stranger, token_of
from tests.runtime.management.signing_in import Someone, someone
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


@pytest.mark.threat("22f")
@pytest.mark.parametrize("protocols", [{"oauth2": "jwks_uri"}, {"openid": "external_id_claim"}], ids=str)
def test_who_acts_elsewhere_is_signed_in_by_the_issuer_itself(
    api: Api, other: Api, protocols: dict[str, str]
) -> None:
    """An administrator who describes the provider by hand could be anybody it knows, elsewhere too."""
    place = someone(other).client
    email, subject = address(), new_id()
    with running() as provider:
        keys = httpx.get(f"{provider.issuer}/.well-known/openid-configuration").json()["jwks_uri"]
        values = {"jwks_uri": keys, "external_id_claim": "nickname"}
        by_hand = {part: {name: values[name]} for part, name in protocols.items()}
        connection = f"/organizations/{other.organization_id}/sso-connection"
        body = {"client_id": "organization", "client_secret": "s", "identifier": provider.issuer}
        other.ok("POST", connection, body)
        told = {"email": email, "email_verified": True, "nickname": subject}
        assert httpx.put(f"{provider.issuer}/users/{subject}", json=told).status_code == 204
        try:
            other.invite(email)
            assert token_of(other, email)  # this mail has left before the next one to the address
            ada = Someone(other, email, someone(other).user, place)
            assert isinstance(sign_in(ada.browser, place, subject), Answer)
            access = access_token(ada)
            other.ok("PATCH", connection, {"protocols": by_hand, "client_secret": "s"})
            assert accept(api, "x" * 43, **bearer(access)).status_code == 401, "ended by the change"
            assert isinstance(sign_in(ada.browser, place, subject), Answer)
            api.invite(email)
            token, made_up = token_of(api, email), access_token(ada)
            assert accept(api, token, **bearer(made_up)).status_code == 403
            other.ok("PATCH", connection, {"protocols": None, "client_secret": "s"})
            assert isinstance(sign_in(ada.browser, place, subject), Answer)
            assert accept(api, token, **bearer(access_token(ada))).status_code == 200
            assert accept(api, token, **bearer(made_up)).status_code == 401, "ended by the change"
            assert isinstance(sign_in(Browser(), place, subject), Answer)
            other.ok("PATCH", connection, {"protocols": by_hand, "client_secret": "s"})
            refused = sign_in(Browser(), place, subject)
        finally:
            other.ok("DELETE", connection)
    assert isinstance(refused, Page)
    assert refused.response.status_code == 403
    assert "other organizations" in refused.text


@pytest.mark.threat("13i")
def test_credentials_that_are_no_users_token(api: Api, other: Api) -> None:
    """A key, a token of one organization, and nonsense are refused; they are not taken for nobody."""
    ada = someone(other)
    api.invite(ada.email)
    token, access = token_of(api, ada.email), access_token(ada)
    mine = ada.with_token(access)
    organization_token = mine.ok("POST", f"/organizations/{other.organization_id}/token")["access_token"]
    for wrong in (api.server.api_key, organization_token, "nonsense"):
        assert accept(api, token, **bearer(wrong)).status_code == 401
    assert accept(api, token, Authorization="Basic Zm9vOmJhcg==").status_code == 401
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
