"""Applications share the account that a user has connected, and never the consent to use it."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx
import pytest
from tests.runtime.connect.conftest import REQUIRED, Account
from tests.support.account_provider import account_provider
from tests.support.oauth_site import Answer, Client, Page

from runtime.domain.kinds import PROVIDER, RESOURCE, ZONE, Verb
from runtime.domain.kinds.user_agent import ClientMetadata, Registration
from runtime.services.clients import dynamic_registration

SORTS = ("managed", "registered", "described")


@dataclass
class Asker:
    """A client of one sort that wants to use the resource for Ada.

    Attributes:
        token: the managed one's, to exchange; the others have no token but by signing Ada in.
    """

    account: Account
    sort: str
    client: Client
    token: str = ""

    def authorize(self) -> None:
        """Ada lets it use the resource: by its connect link, or where it signs her in."""
        browser, desk = self.account.desk.browser, self.account.desk
        if self.sort == "managed":
            done = desk.allow(desk.page(self.account.link(self.token, self.client)))
            assert isinstance(done, Page)
            assert "may now use" in done.text
            return
        place = browser.open(self._url())
        assert isinstance(place, Page), place
        assert isinstance(browser.send(place, decision="allow"), Answer)

    def is_authorized(self) -> bool:
        """Whether it may use the resource without asking her."""
        if self.sort == "managed":
            answer = self.account.exchange(self.token, self.client)
            assert "access_token" in answer or answer["reason"] == REQUIRED
            return "access_token" in answer
        place = self.account.desk.browser.open(self._url(prompt="none"))
        values = place.values if isinstance(place, Answer) else {}
        return "code" in values

    def _url(self, **changes: Any) -> str:
        return self.client.url(resources=[self.account.issues.identifier], **changes)


def asker(account: Account, sort: str, name: str) -> Asker:
    """A new client of that sort."""
    desk = account.desk
    if sort == "managed":
        client = desk.site.app(desk.zone, name, consent="required", dependencies=[account.issues])
        return Asker(account, sort, client, desk.sign_in(client))
    redirect_uri = f"https://{name}.example/callback"
    if sort == "registered":
        body = {"client_name": name, "redirect_uris": [redirect_uri]}
        registered = httpx.post(f"{desk.issuer}/oauth/register", json=body).json()
        return Asker(account, sort, desk.site.stranger(desk.zone, registered["client_id"], redirect_uri))
    listed = {"cimd": {"enabled": True, "allowed_client_ids": ["*"]}}
    patch = {"protocols": {"oauth2": listed}}
    desk.site.run(desk.site.company.run(ZONE, Verb.UPDATE, {}, desk.zone.id, patch))
    return Asker(account, sort, desk.site.run(_described(account, name, redirect_uri)))


async def _described(account: Account, name: str, redirect_uri: str) -> Client:
    """A client that its metadata document describes, which was read a moment ago."""
    desk = account.desk
    services, client_id = desk.site.services, f"https://{name}.example/client.json"
    zone = await services.zones.get(desk.zone.id)
    metadata = ClientMetadata(redirect_uris=[redirect_uri], client_name=name)
    until = services.clock() + timedelta(days=1)
    sort = Registration.METADATA_DOCUMENT
    await dynamic_registration.store_client(services, zone, client_id, metadata, sort, fresh_until=until)
    return desk.site.stranger(desk.zone, client_id, redirect_uri)


@pytest.mark.threat("44a", "44b", "44c")
@pytest.mark.parametrize("second", SORTS)
@pytest.mark.parametrize("first", SORTS)
def test_each_asks_for_itself(account: Account, first: str, second: str) -> None:
    """Ada has connected the account; what she lets one client do, the other is refused until she agrees."""
    account.connect(account.desk.sign_in(account.agent))
    one, other = asker(account, first, "one"), asker(account, second, "other")
    assert not one.is_authorized()

    one.authorize()

    assert one.is_authorized()
    assert not other.is_authorized()
    other.authorize()
    assert other.is_authorized()
    assert len(account.tracker.asked) == 1
    assert len(account.rows("vault_tokens")) == 1


def test_a_second_application_is_asked_about_without_another_visit_to_the_provider(account: Account) -> None:
    """The page asks for consent alone, for all that the account's token can do."""
    account.connect(account.desk.sign_in(account.agent))
    other = asker(account, "managed", "other")

    page = account.desk.page(account.link(other.token, other.client))

    assert "Continue to Tracker" not in page.text
    assert "read write" in page.text
    account.desk.allow(page)
    assert account.exchange(other.token, other.client)["access_token"] == account.tracker.issued[0]


def test_an_application_is_asked_about_again_when_the_account_can_do_more(account: Account) -> None:
    """Another one has connected it for more, and the token cannot be narrowed."""
    token = account.desk.sign_in(account.agent)
    account.connect(token, scope="read")
    other = asker(account, "managed", "other")
    account.connect(other.token, other.client, scope="write")

    page = account.desk.page(account.link(token))

    assert "read write" in page.text
    account.desk.allow(page)
    assert account.exchange(token)["scope"] == "read write"


def test_a_grant_that_is_withdrawn_ends_for_all_and_is_connected_anew(account: Account) -> None:
    """The next link leads to the provider again."""
    token = account.desk.sign_in(account.agent)
    account.connect(token)
    (grant,) = account.rows("delegated_grants")

    account.desk.browser.send(account.desk.page(f"{account.desk.issuer}/account"), grant=grant["id"])

    page = account.desk.page(account.link(token))
    assert "Continue to Tracker" in page.text
    account.desk.allow(page)
    assert account.exchange(token)["access_token"] == account.tracker.issued[1]


def test_a_provider_that_the_resource_had_before_says_nothing(account: Account) -> None:
    """Its grant has ended with it; the account at the one that the resource has now is what counts."""
    desk, token = account.desk, account.desk.sign_in(account.agent)
    account.connect(token)
    with account_provider() as other:
        body = {**other.settings, "name": "Other tracker"}
        made = desk.site.run(desk.site.company.create(PROVIDER, desk.zone.id, **body))
        desk.update(RESOURCE, account.issues.id, credential_provider_id=made.id)

        done = account.connect(token)

        assert isinstance(done, Page)
        assert "may now use" in done.text
        assert account.exchange(token)["access_token"] == other.issued[0]
