"""`examples/tracker.py`, the outside provider of the demo: it refuses what a real provider would refuse."""

import base64
import hashlib
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from tracker import Tracker

CALLBACK = "https://zone.example/oauth/callback"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
REQUEST = {
    "response_type": "code",
    "client_id": "zonewright",
    "redirect_uri": CALLBACK,
    "scope": "issues.read",
    "state": "s-1",
    "code_challenge": CHALLENGE,
    "code_challenge_method": "S256",
}


@pytest.fixture
def tracker() -> Iterator[Tracker]:
    made = Tracker(redirect_uris=(CALLBACK,))
    made.start()
    yield made
    made.stop()


@pytest.fixture
def http(tracker: Tracker) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=tracker.url, trust_env=False) as client:
        yield client


def decide(http: httpx.Client, decision: str = "allow", **members: str) -> dict[str, str]:
    """What the client is sent after the decision on the page that a request leads to."""
    page = http.get("/authorize", params=REQUEST | members)
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)">\n', page.text))
    answer = http.post("/authorize", data=fields | {"decision": decision})
    assert answer.status_code == 303
    query = parse_qs(urlsplit(answer.headers["location"]).query)
    return {name: values[0] for name, values in query.items()}


def token(http: httpx.Client, tracker: Tracker, **form: str) -> httpx.Response:
    """The token endpoint's answer to the client."""
    return http.post("/token", data=form, auth=(tracker.client_id, tracker.client_secret))


def redeem(http: httpx.Client, tracker: Tracker, code: str, **form: str) -> httpx.Response:
    """The answer to a code."""
    members = {"code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER} | form
    return token(http, tracker, grant_type="authorization_code", **members)


def refresh(http: httpx.Client, tracker: Tracker, refresh_token: str) -> httpx.Response:
    """The answer to a refresh token."""
    return token(http, tracker, grant_type="refresh_token", refresh_token=refresh_token)


def api(http: httpx.Client, access_token: str) -> int:
    """The status of the API's answer."""
    return http.get("/api/issues", headers={"Authorization": f"Bearer {access_token}"}).status_code


@pytest.fixture
def tokens(http: httpx.Client, tracker: Tracker) -> dict[str, Any]:
    """What a code was redeemed for."""
    answer: dict[str, Any] = redeem(http, tracker, decide(http)["code"]).json()
    return answer


def test_the_api_accepts_a_live_access_token(http: httpx.Client, tokens: dict[str, Any]) -> None:
    assert api(http, tokens["access_token"]) == 200


def test_the_api_refuses_any_other_token(http: httpx.Client) -> None:
    assert api(http, "unknown") == 401


def test_the_api_refuses_an_expired_token(http: httpx.Client, tracker: Tracker) -> None:
    tracker.expires_in = 0
    expired = redeem(http, tracker, decide(http)["code"]).json()
    assert (expired["expires_in"], api(http, expired["access_token"])) == (0, 401)


def test_the_api_requires_its_scope(http: httpx.Client, tracker: Tracker) -> None:
    answer = redeem(http, tracker, decide(http, scope="issues.write")["code"]).json()
    assert api(http, answer["access_token"]) == 403


def test_a_denied_request_returns_an_error_with_its_state(http: httpx.Client) -> None:
    assert decide(http, "deny") == {"error": "access_denied", "state": "s-1"}


@pytest.mark.parametrize(
    ("member", "value", "error"),
    [
        ("response_type", "token", "invalid_request"),
        ("code_challenge_method", "plain", "invalid_request"),
        ("scope", "issues.delete", "invalid_scope"),
    ],
)
def test_a_wrong_request_is_sent_back_with_an_error(
    http: httpx.Client, member: str, value: str, error: str
) -> None:
    assert decide(http, **{member: value})["error"] == error


@pytest.mark.parametrize("member", ["client_id", "redirect_uri"])
def test_an_unknown_client_or_redirect_uri_is_answered_with_a_page(http: httpx.Client, member: str) -> None:
    """Such a request must not redirect the browser. Spec: RFC 6749 section 4.1.2.1."""
    assert http.get("/authorize", params=REQUEST | {member: "https://evil.example"}).status_code == 400


@pytest.mark.parametrize("member", ["code_verifier", "redirect_uri"])
def test_a_code_needs_its_verifier_and_redirect_uri(
    http: httpx.Client, tracker: Tracker, member: str
) -> None:
    answer = redeem(http, tracker, decide(http)["code"], **{member: "another"})
    assert answer.json()["error"] == "invalid_grant"


def test_a_code_is_redeemed_once(http: httpx.Client, tracker: Tracker) -> None:
    code = decide(http)["code"]
    assert [redeem(http, tracker, code).status_code for _ in range(2)] == [200, 400]


def test_a_client_needs_its_secret(http: httpx.Client, tracker: Tracker) -> None:
    answer = http.post("/token", data={"grant_type": "refresh_token"}, auth=(tracker.client_id, "wrong"))
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")


def test_a_refresh_replaces_the_refresh_token(
    http: httpx.Client, tracker: Tracker, tokens: dict[str, Any]
) -> None:
    refreshed = refresh(http, tracker, tokens["refresh_token"]).json()
    assert refreshed["refresh_token"] != tokens["refresh_token"]
    assert api(http, refreshed["access_token"]) == 200


def test_a_refresh_token_that_is_used_twice_ends_the_grant(
    http: httpx.Client, tracker: Tracker, tokens: dict[str, Any]
) -> None:
    """As OAuth 2.1 section 4.3.1 asks of public clients; a client that refreshes twice loses the account."""
    first = refresh(http, tracker, tokens["refresh_token"]).json()
    again = refresh(http, tracker, tokens["refresh_token"])
    assert (again.json()["error"], api(http, first["access_token"])) == ("invalid_grant", 401)


@pytest.mark.parametrize("revoked", ["access_token", "refresh_token"])
def test_a_revoked_token_ends_the_grant(
    http: httpx.Client, tracker: Tracker, tokens: dict[str, Any], revoked: str
) -> None:
    client = (tracker.client_id, tracker.client_secret)
    assert http.post("/revoke", data={"token": tokens[revoked]}, auth=client).status_code == 200
    assert api(http, tokens["access_token"]) == 401
    assert refresh(http, tracker, tokens["refresh_token"]).status_code == 400


def test_an_unknown_token_is_revoked_without_an_error(http: httpx.Client, tracker: Tracker) -> None:
    """Spec: RFC 7009 section 2.2."""
    client = (tracker.client_id, tracker.client_secret)
    assert http.post("/revoke", data={"token": "unknown"}, auth=client).status_code == 200


def test_requests_are_counted_by_endpoint(
    http: httpx.Client, tracker: Tracker, tokens: dict[str, Any]
) -> None:
    refresh(http, tracker, tokens["refresh_token"])
    counted = http.get("/requests").json()
    assert (counted["/token"], counted["refresh_token"]) == (2, 1)
