"""Connected accounts on the account page and in the management API: shown, and disconnected."""

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from sqlalchemy import update
from tests.runtime.connect.conftest import REQUIRED, Account
from tests.runtime.connect.test_policies import FORBID, PERMIT, decide
from tests.support.oauth_site import Page, assert_page

from runtime.storage.sql.tables import delegated_grants, vault_tokens

REFRESHED = datetime(2026, 3, 4, 5, 6, tzinfo=UTC)
FAR = datetime(2100, 2, 3, 4, 5, tzinfo=UTC)


def page_of(account: Account) -> Page:
    """Ada's account page."""
    return account.desk.page(f"{account.desk.issuer}/account")


def grant_of(account: Account) -> dict[str, Any]:
    """The grant of the account, as the management API has it."""
    response = api(account, "GET", f"?resource_id={account.issues.id}")
    assert response.status_code == 200, response.text
    (grant,) = response.json()["items"]
    found: dict[str, Any] = grant
    return found


def api(account: Account, method: str, path: str, body: dict[str, str] | None = None) -> httpx.Response:
    """The answer to a request about the zone's delegated grants."""
    site = account.desk.site
    address = f"{site.server.url}/zones/{account.desk.zone.id}/delegated-grants{path}"
    key = {"Authorization": f"Bearer {site.server.api_key}"}
    return httpx.request(method, address, json=body, headers=key, timeout=30)


def test_the_page_lists_the_account_with_provider_resource_and_scopes(account: Account) -> None:
    """Apart from what applications use of the zone's own."""
    assert "Connected accounts" not in page_of_signed_in(account).text
    account.connect(account.desk.sign_in(account.agent), scope="read")

    page = page_of(account)

    assert_page(page.response, 200)
    accounts = page.text.partition("Connected accounts")[2]
    assert "Tracker Disconnect" in accounts
    assert "For https://issues.example , since" in accounts
    assert "not refreshed yet read" in accounts


def page_of_signed_in(account: Account) -> Page:
    """The same, after Ada has signed in."""
    account.desk.sign_in(account.agent)
    return page_of(account)


def test_the_page_says_when_the_tokens_were_last_refreshed(account: Account) -> None:
    """In words, by the grant's `refreshed_at`."""
    account.connect(account.desk.sign_in(account.agent))
    grant_id = grant_of(account)["id"]

    async def refresh() -> None:
        async with account.desk.site.services.database.transaction() as conn:
            mine = delegated_grants.c.id == grant_id
            await conn.execute(update(delegated_grants).where(mine).values(refreshed_at=REFRESHED))

    account.desk.site.run(refresh())

    assert "last refreshed 4 March, 05:06 UTC" in page_of(account).text


def tokens_are(account: Account, **values: object) -> None:
    """Let the account's row of the vault say that."""

    async def write() -> None:
        async with account.desk.site.services.database.transaction() as conn:
            mine = vault_tokens.c.zone_id == account.desk.zone.id
            await conn.execute(update(vault_tokens).where(mine).values(**values))

    account.desk.site.run(write())


@pytest.mark.parametrize(
    "values",
    [{"state": "dead"}, {"refresh_token": None, "refresh_at": None, "expires_at": REFRESHED}],
    ids=["dead", "expired"],
)
def test_an_account_without_valid_tokens_is_connected_again_on_the_page(
    account: Account, values: dict[str, object]
) -> None:
    """The page says that no application can use it, and leads to the connect page of one that may."""
    token = account.desk.sign_in(account.agent)
    account.connect(token, scope="read")
    page = page_of(account)
    assert "Connect this account again" not in page.text
    assert "reconnect" not in page.response.text
    tokens_are(account, **values)

    page = page_of(account)
    assert "Connect this account again. Its tokens are no longer valid" in page.text
    assert "not refreshed yet" not in page.text
    question = account.desk.browser.send(page, reconnect=grant_of(account)["id"])
    assert isinstance(question, Page)
    assert "Allow Tracker Agent to act for you?" in question.text
    assert "may now use" in _text(account.desk.allow(question))

    assert "Connect this account again" not in page_of(account).text
    assert grant_of(account)["scopes"] == ["read"]
    assert account.exchange(token)["access_token"] == account.tracker.issued[-1]


@pytest.mark.parametrize(("policies", "status"), [(PERMIT, 200), (FORBID, 403)])
def test_policies_are_asked_when_an_account_is_connected_again(
    account: Account, policies: str, status: int
) -> None:
    """By the link that the account page leads to: nothing is connected that they forbid."""
    account.connect(account.desk.sign_in(account.agent))
    tokens_are(account, state="dead")
    page = page_of(account)
    decide(account.desk, policies)

    question = account.desk.browser.send(page, reconnect=grant_of(account)["id"])

    assert isinstance(question, Page)
    assert question.response.status_code == status
    assert ("Allow Tracker Agent to act for you?" in question.text) == (status == 200)


def test_an_account_that_no_application_may_use_is_not_offered_again(account: Account) -> None:
    """Which application it would be for is not known; the one that needs it asks."""
    account.connect(account.desk.sign_in(account.agent))
    account.desk.browser.send(page_of(account), application=account.agent.app.id)
    tokens_are(account, state="dead")

    page = page_of(account)

    assert "The application that needs it asks you when you use it next." in page.text
    assert "Connect again" not in page.text
    same = account.desk.browser.send(page, reconnect=grant_of(account)["id"])
    assert isinstance(same, Page)
    assert "Connected accounts" in same.text


def test_an_account_is_not_connected_again_for_who_may_use_less_of_it(account: Account) -> None:
    """Connecting would widen that application's consent to all that the account is connected for."""
    desk = account.desk
    token = desk.sign_in(account.agent)
    account.connect(token, scope="read")
    other = desk.site.app(desk.zone, "Other", consent="required", dependencies=[account.issues])
    account.connect(desk.sign_in(other), other, scope="write")
    tokens_are(account, state="dead")
    question = desk.browser.send(page_of(account), reconnect=grant_of(account)["id"])
    assert isinstance(question, Page)
    assert "Allow Other to act for you?" in question.text

    desk.browser.send(page_of(account), application=other.app.id)

    assert "Connect again" not in page_of(account).text


def test_tokens_that_nothing_refreshes_have_their_end_on_the_page(account: Account) -> None:
    """Neither do they need a refresh, nor is one to come."""
    account.connect(account.desk.sign_in(account.agent))
    tokens_are(account, refresh_token=None, refresh_at=None, expires_at=FAR)
    assert "until 3 February, 04:05 UTC" in page_of(account).text

    tokens_are(account, expires_at=None)

    assert "refreshed" not in page_of(account).text


def test_disconnecting_ends_it_for_every_application(account: Account) -> None:
    """The tokens are forgotten, and the next exchange leads to the provider again."""
    token = account.desk.sign_in(account.agent)
    account.connect(token)
    grant_id = grant_of(account)["id"]

    done = account.desk.browser.send(page_of(account), disconnect=grant_id)

    assert isinstance(done, Page)
    assert "The account is disconnected." in done.text
    assert "Connected accounts" not in done.text
    assert account.rows("vault_tokens") == []
    assert account.exchange(token)["reason"] == REQUIRED
    assert "Continue to Tracker" in account.desk.page(account.link(token)).text


def test_an_application_without_access_leaves_the_account_connected(account: Account) -> None:
    """It is Ada's, and other applications may go on using it."""
    account.connect(account.desk.sign_in(account.agent))

    page = account.desk.browser.send(page_of(account), application=account.agent.app.id)

    assert isinstance(page, Page)
    assert "Connected accounts" in page.text


def test_the_api_shows_the_grant_and_no_token(account: Account) -> None:
    """Its scopes, its provider, and whether there is a refresh token."""
    account.connect(account.desk.sign_in(account.agent), scope="read")

    response = api(account, "GET", f"/{grant_of(account)['id']}")

    grant = response.json()
    assert (grant["status"], grant["scopes"], grant["refresh_token_set"]) == ("active", ["read"], True)
    assert (grant["provider_id"], grant["user_id"]) == (account.provider.id, account.desk.ada.id)
    assert account.tracker.issued[0] not in response.text
    assert "rt-" not in response.text


@pytest.mark.parametrize(
    ("method", "body", "status"), [("PATCH", {"status": "revoked"}, 200), ("DELETE", None, 204)]
)
def test_ending_it_by_the_api_forgets_the_tokens(
    account: Account, method: str, body: dict[str, str] | None, status: int
) -> None:
    """The next exchange is refused, and its link is offered anew."""
    token = account.desk.sign_in(account.agent)
    account.connect(token)

    assert api(account, method, f"/{grant_of(account)['id']}", body).status_code == status

    assert account.rows("vault_tokens") == []
    assert account.exchange(token)["reason"] == REQUIRED
    assert "may now use" in _text(account.connect(token))
    assert account.exchange(token)["access_token"] == account.tracker.issued[1]


def _text(place: object) -> str:
    assert isinstance(place, Page)
    return place.text
