"""An account at the issuer where the zone's users sign in is connected by the user whose it is."""

import re
from collections.abc import Iterator

import pytest
from tests.runtime.connect.conftest import SCOPES, Account, Desk
from tests.runtime.login.federation import federated
from tests.support.account_provider import AccountProvider
from tests.support.oauth_site import Answer, Browser, Client, Page, Site, assert_page
from tests.support.openid_server import OpenIDServer, openid_server

from runtime.domain.kinds import DELEGATED_GRANT, PROVIDER
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE

STORAGE = ("embedded", "servers")


class Workforce:
    """A zone whose users sign in at a provider that also issues the tokens of a resource."""

    def __init__(self, site: Site, provider: OpenIDServer, *, separate: bool) -> None:
        self.site, self.provider = site, provider
        self.zone = federated(site, provider.issuer)
        issuing = str(self.zone.user_identity_provider_id)
        if separate:
            body = {"identifier": "files", "name": "Files", "client_id": "files", "client_secret": "another"}
            oauth2 = {"issuer": provider.issuer, **provider.addresses}
            protocols = {"protocols": {"oauth2": oauth2}}
            issuing = site.run(site.company.create(PROVIDER, self.zone.id, **body, **protocols)).id
        self.files: Resource = site.run(
            site.company.resource(
                self.zone, "https://files.example", scopes=SCOPES, credential_provider_id=issuing
            )
        )
        self.agent: Client = site.app(self.zone, "Agent", consent="required", dependencies=[self.files])

    def sign_in(self, browser: Browser, sub: str) -> str:
        """Somebody signs in; the agent's access token."""
        email = f"{sub}@acme.example"
        self.provider.says = {"sub": sub, "email": email, "email_verified": True}
        place = browser.open(self.agent.url())
        if isinstance(place, Page):
            place = browser.send(place, decision="allow")
        assert isinstance(place, Answer)
        token: str = self.agent.redeem(place.code).json()["access_token"]
        return token

    def exchange(self, token: str) -> dict[str, str]:
        answer: dict[str, str] = self.agent.token(
            grant_type=GRANT_TYPE,
            subject_token=token,
            subject_token_type=ACCESS_TOKEN,
            resource=self.files.identifier,
        ).json()
        return answer

    def connect(self, browser: Browser, token: str, **says: object) -> Page:
        """Connect the account of whom the provider names."""
        self.provider.says = says
        page = browser.open(self.exchange(token)["error_uri"])
        assert isinstance(page, Page)
        place = browser.send(page, decision="allow")
        assert isinstance(place, Page)
        return place


@pytest.fixture
def provider() -> Iterator[OpenIDServer]:
    """A running OpenID provider."""
    with openid_server() as running:
        yield running


@pytest.fixture(params=[False, True], ids=["same provider", "another client at the same issuer"])
def workforce(request: pytest.FixtureRequest, site: Site, provider: OpenIDServer) -> Workforce:
    return Workforce(site, provider, separate=request.param)


def test_the_users_own_account_is_connected(workforce: Workforce, browser: Browser) -> None:
    """The provider's ID token says that it is hers."""
    token = workforce.sign_in(browser, "ada")

    done = workforce.connect(browser, token, sub="ada")

    assert "may now use" in done.text
    assert "access_token" in workforce.exchange(token)


def test_an_account_that_nobody_signs_in_with_is_connected(workforce: Workforce, browser: Browser) -> None:
    """It may well be hers."""
    token = workforce.sign_in(browser, "ada")

    assert "may now use" in workforce.connect(browser, token, sub="ada-private").text


@pytest.mark.threat("45e")
def test_another_users_account_is_refused(
    workforce: Workforce, browser: Browser, other_browser: Browser
) -> None:
    """Nothing is linked; her own account is connected with the next link."""
    workforce.sign_in(other_browser, "eve")
    token = workforce.sign_in(browser, "ada")

    done = workforce.connect(browser, token, sub="eve")

    assert_page(done.response, 403)
    assert "another user" in done.text
    assert not re.search(r"\beve\b", done.text, re.IGNORECASE)
    assert workforce.exchange(token)["error"] == "access_denied"
    assert "may now use" in workforce.connect(browser, token, sub="ada").text


@pytest.mark.threat("45e")
@pytest.mark.parametrize("claim", [{"aud": "another-client"}, {"nonce": "another"}, {"iss": "https://evil"}])
def test_an_id_token_that_is_not_for_this_connection_is_refused(
    workforce: Workforce, browser: Browser, claim: dict[str, str]
) -> None:
    """Whose account it is, is what the provider says to this client, now."""
    token = workforce.sign_in(browser, "ada")

    assert_page(workforce.connect(browser, token, sub="ada", **claim).response, 403)
    assert workforce.exchange(token)["error"] == "access_denied"
    assert "may now use" in workforce.connect(browser, token, sub="ada").text


def test_two_users_connect_one_account_where_nobody_signs_in(
    account: Account, desk: Desk, other_browser: Browser
) -> None:
    """The provider does not say whose it is: each has a grant and tokens of their own, and ends these."""
    bob = desk.site.user(desk.zone, "bob@acme.example")
    token = desk.sign_in(account.agent)
    account.connect(token)
    page = other_browser.open(account.agent.url())
    assert isinstance(page, Page)
    bobs = account.agent.redeem(other_browser.sign_in(page, "bob@acme.example").code).json()["access_token"]
    done = desk.allow(desk.page(account.link(bobs), other_browser), other_browser)
    assert isinstance(done, Page)
    assert "may now use" in done.text
    first, second = account.tracker.issued
    assert (account.exchange(token)["access_token"], account.exchange(bobs)["access_token"]) == (
        first,
        second,
    )

    (grant,) = [row for row in account.rows("delegated_grants") if row["user_id"] == bob.id]
    desk.update(DELEGATED_GRANT, grant["id"], status="revoked")

    assert account.exchange(bobs)["error"] == "access_denied"
    assert account.exchange(token)["access_token"] == first


def test_a_provider_without_users_of_the_zone_is_not_asked_who_it_is(
    account: Account, desk: Desk, tracker: AccountProvider
) -> None:
    """Its accounts are nobody's in the zone, so `openid` is not requested."""
    account.connect(desk.sign_in(account.agent))

    assert tracker.asked[0]["scope"] == "read write"
