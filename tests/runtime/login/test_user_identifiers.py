"""User identifiers from a provider's claim: unique, never reused, and given back to the same user."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from oidc_provider_mock import User as MockUser
from tests.runtime.login.federation import Foreign, federated, running, sign_in, users_of
from tests.support.oauth_site import Answer, Browser, Client, Page, Site, assert_page, claims

from runtime.domain.kinds import APPLICATION, USER
from runtime.domain.kinds.role import User
from runtime.domain.kinds.zone import Zone

STORAGE = ("embedded", "servers")


@pytest.fixture(scope="module")
def foreign() -> Iterator[Foreign]:
    """A provider that calls several people so that one may be taken for another."""
    names = {
        "ada": "ada",
        "shouting": "ADA",
        "wide": "\uff41da",
        "clerk": "Billing",
        "heir": "ada",
        "bob": "bob",
    }
    with running(
        *(
            MockUser(sub=sub, claims={"email": f"{sub}@acme.example", "email_verified": True, "upn": name})
            for sub, name in names.items()
        )
    ) as provider:
        yield provider


@pytest.fixture
def zone(site: Site, foreign: Foreign) -> Zone:
    """A zone in which the provider says what people are called."""
    openid = {"openid": {"user_identifier_claim": "upn"}, "oauth2": {"issuer": foreign.issuer}}
    return federated(site, foreign.issuer, protocols=openid)


@pytest.fixture
def client(site: Site, zone: Zone) -> Client:
    """An application that they sign in to."""
    return site.app(zone, "billing")


def refused(client: Client, sub: str) -> None:
    page = sign_in(Browser(), client, sub)
    assert isinstance(page, Page)
    assert_page(page.response, 403)


@pytest.mark.threat("40h")
def test_somebody_new_is_not_called_as_an_application_or_another_user(
    site: Site, zone: Zone, client: Client
) -> None:
    """Case and form make no difference; who is called otherwise gets in."""
    assert isinstance(sign_in(Browser(), client, "ada"), Answer)

    for sub in ("clerk", "shouting", "wide", "heir"):
        refused(client, sub)

    assert isinstance(sign_in(Browser(), client, "bob"), Answer)
    assert {user.identifier for user in users_of(site, zone)} == {"ada", "bob"}


@dataclass
class Deleted:
    """Ada, who had signed in to an application and was deleted since.

    Attributes:
        before: the user that she was.
        browser: where she has the cookie of that time.
        tokens: what the application had got.
    """

    before: User
    browser: Browser
    tokens: dict[str, Any]


@pytest.fixture
def deleted(site: Site, zone: Zone, client: Client) -> Deleted:
    browser = Browser()
    answer = sign_in(browser, client, "ada", scope="openid offline_access")
    assert isinstance(answer, Answer)
    tokens = client.redeem(answer.code).json()
    assert client.userinfo(tokens["access_token"]).status_code == 200
    (before,) = users_of(site, zone)
    site.run(site.company.delete(USER, zone.id, before.id))
    return Deleted(before, browser, tokens)


@pytest.mark.threat("47e", "47i")
def test_the_name_of_a_user_who_is_gone_goes_to_nobody_else(
    site: Site, zone: Zone, client: Client, deleted: Deleted
) -> None:
    """Somebody new whom the provider calls so is called by an id; no application may have the name."""
    assert isinstance(sign_in(Browser(), client, "heir"), Answer)

    (heir,) = users_of(site, zone)
    assert heir.identifier == heir.id
    with pytest.raises(Exception, match="was the name of another User"):
        site.run(site.company.create(APPLICATION, zone.id, identifier="Ada", name="Ada"))


@pytest.mark.threat("47e", "47i")
def test_who_comes_back_has_the_name_again_and_nothing_else(
    site: Site, zone: Zone, client: Client, deleted: Deleted
) -> None:
    """Another user under the same name: neither the tokens of before nor the cookie are good."""
    assert isinstance(sign_in(Browser(), client, "heir"), Answer)
    (heir,) = users_of(site, zone)
    # The cookie of before is nobody's: the provider is asked again.
    again = sign_in(deleted.browser, client, "ada", scope="openid offline_access")

    assert isinstance(again, Answer)
    renewed = client.redeem(again.code).json()
    (after,) = [user for user in users_of(site, zone) if user.id != heir.id]
    assert after.id != deleted.before.id
    assert after.identifier == deleted.before.identifier == claims(renewed["access_token"])["sub"]
    assert client.userinfo(renewed["access_token"]).status_code == 200
    assert client.userinfo(deleted.tokens["access_token"]).status_code == 401
    assert client.refresh(deleted.tokens["refresh_token"]).status_code == 400
