"""Each connection, withdrawal, registration and refused userinfo request is a decision record."""

from typing import Any

import httpx
import pytest
from tests.runtime.connect.conftest import Account, Desk
from tests.support.oauth_site import Page

from runtime.domain.kinds import SESSION
from runtime.services.container import Services

STORAGE = ("embedded", "servers")


def records(desk: Desk, **filters: str) -> list[dict[str, Any]]:
    """The decision records of the zone, as the management API lists them, the newest first."""
    site = desk.site
    flush(desk)
    answer = httpx.get(
        f"{site.server.url}/zones/{desk.zone.id}/decisions",
        params={f"filter[{name}]": value for name, value in filters.items()},
        headers=site.server.headers,
        timeout=30,
    )
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def flush(desk: Desk) -> None:
    """Have everything written that was decided."""

    async def write(services: Services) -> None:
        await services.decisions.flush()

    desk.site.server.call(write)


def of(desk: Desk, response: httpx.Response) -> list[dict[str, Any]]:
    """The decision records of a request."""
    return records(desk, request_id=response.headers["X-Request-ID"])


def test_a_consent_by_link_is_recorded(desk: Desk) -> None:
    """With the user, the application and the resource, under the id of the request."""
    done = desk.allow(desk.page(desk.link(desk.sign_in(), desk.documents)))

    assert isinstance(done, Page)
    (record,) = of(desk, done.response)
    assert (record["event"], record["outcome"]) == ("connect", "connected")
    assert record["user_id"] == desk.ada.id
    assert record["application_id"] == desk.agent.app.id
    assert record["resource"] == desk.documents.identifier


def test_a_connected_account_is_recorded(account: Account) -> None:
    """The application's authorization, and the credential that is stored, under one request id."""
    done = account.connect(account.desk.sign_in(account.agent))

    assert isinstance(done, Page)
    found = {(each["event"], each["outcome"]): each for each in of(account.desk, done.response)}
    assert set(found) == {("connect", "connected"), ("credential", "connected")}
    assert found["connect", "connected"]["application_id"] == account.agent.app.id
    assert {each["resource_id"] for each in found.values()} == {account.issues.id}


def test_a_pasted_key_is_recorded_without_the_key(desk: Desk) -> None:
    """By the page of the link, as by the account page."""
    done = desk.allow(desk.page(desk.link(desk.sign_in(), desk.tickets)), credential="sk-of-ada")

    assert isinstance(done, Page)
    found = of(desk, done.response)
    assert {(each["event"], each["outcome"]) for each in found} == {
        ("connect", "connected"),
        ("credential", "stored"),
    }
    assert "sk-of-ada" not in str(found)


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        ((400, {"error": "invalid_grant"}), "provider_failed", "`invalid_grant`, HTTP status 400"),
        ((503, {}), "provider_unavailable", "`unavailable`, HTTP status 503"),
        (
            (200, {"error": "bad_verification_code", "error_description": "x" * 9_000}),
            "provider_failed",
            "`unknown_error`, the provider's error `bad_verification_code`, HTTP status 200",
        ),
        ((400, {"error": "x\n" * 9_000}), "provider_failed", "`unknown_error`, HTTP status 400"),
        ((400, {"error": "q7_Zs-9f0a"}), "provider_failed", "`unknown_error`, HTTP status 400"),
    ],
    ids=["code", "away", "plain words", "long", "like a secret"],
)
def test_a_connection_that_the_provider_refuses_is_recorded(
    account: Account, answer: tuple[int, Any], error: str, said: str
) -> None:
    """Under the same event: which provider, at which step, and with which error."""
    account.tracker.token_answer = answer

    done = account.connect(account.desk.sign_in(account.agent))

    assert isinstance(done, Page)
    (record,) = of(account.desk, done.response)
    assert (record["event"], record["outcome"], record["error"]) == ("connect", "refused", error)
    assert record["reason"] == f"provider `{account.provider.identifier}`: the token endpoint: {said}"
    assert record["application_id"] == account.agent.app.id


def test_a_link_that_is_only_opened_leaves_no_record(desk: Desk) -> None:
    """The user has decided nothing yet."""
    page = desk.page(desk.link(desk.sign_in(), desk.documents))

    assert of(desk, page.response) == []


def test_disconnecting_is_recorded(account: Account) -> None:
    """The withdrawal is found by the id of the account page's request."""
    account.connect(account.desk.sign_in(account.agent))
    page = account.desk.page(f"{account.desk.issuer}/account")
    (grant,) = [row for row in account.rows("delegated_grants") if row["resource_id"] == account.issues.id]

    answer = account.desk.browser.post(page, disconnect=grant["id"])

    (record,) = of(account.desk, answer)
    assert (record["event"], record["outcome"]) == ("withdrawal", "ended")
    assert (record["user_id"], record["resource_id"]) == (account.desk.ada.id, account.issues.id)


def test_a_refused_userinfo_request_is_recorded(desk: Desk) -> None:
    """With the reason that its sender is not told; one that is answered is no decision."""
    token = desk.sign_in()
    fine = desk.agent.userinfo(token)
    assert fine.status_code == 200

    for session in desk.rows("sessions"):
        desk.update(SESSION, session["id"], status="revoked")
    refused = desk.agent.userinfo(token)

    assert refused.status_code == 401
    (record,) = of(desk, refused)
    assert (record["event"], record["outcome"], record["error"]) == ("userinfo", "refused", "invalid_token")
    assert record["reason"]
    assert of(desk, fine) == []


def test_a_userinfo_request_without_the_scope_is_recorded_with_its_user(desk: Desk) -> None:
    """Who it is about is known by then, and which application has asked."""
    client = desk.site.app(desk.zone, "Plain")
    answer = desk.browser.sign_in(desk.browser.open(client.url(scope="email")))
    refused = client.userinfo(client.redeem(answer.code).json()["access_token"])

    assert refused.status_code == 403
    (record,) = of(desk, refused)
    assert record["error"] == "insufficient_scope"
    assert (record["user_id"], record["application_id"]) == (desk.ada.id, client.app.id)


@pytest.mark.threat("41a")
def test_refused_userinfo_requests_beyond_the_limit_are_counted(desk: Desk) -> None:
    """100 of a stranger leave 60 rows a minute at most, and one that says how many more there were."""
    for _ in range(100):
        desk.agent.userinfo("no.token.atall")

    flush(desk)
    found = [row for row in desk.rows("token_events") if row["event"] == "userinfo"]
    assert len([row for row in found if row["requests"] is None]) <= 2 * 60
    assert sum(row["requests"] or 1 for row in found) == 100


def register(desk: Desk, **metadata: Any) -> httpx.Response:
    """The answer to a registration."""
    return httpx.post(f"{desk.issuer}/oauth/register", json=metadata, timeout=30)


def test_a_registration_is_recorded(desk: Desk) -> None:
    """With the client that came of it."""
    made = register(desk, client_name="Notes", redirect_uris=["https://notes.example/callback"])

    assert made.status_code == 201
    (record,) = of(desk, made)
    assert (record["event"], record["outcome"]) == ("registration", "registered")
    (client,) = desk.rows("user_agents")
    assert record["user_agent_id"] == client["id"]


def test_a_refused_registration_is_recorded(desk: Desk) -> None:
    """With the error code."""
    refused = register(desk, redirect_uris=["javascript:alert(1)"])

    assert refused.status_code == 400
    (record,) = of(desk, refused)
    assert (record["event"], record["outcome"]) == ("registration", "refused")
    assert record["error"] == refused.json()["error"]
    assert desk.rows("user_agents") == []
