"""Form Post Response Mode: a page of the zone posts the answer to the application."""

from typing import Any

import httpx
import pytest
from tests.runtime.authorization.pushed_requests import bring, push
from tests.runtime.authorization.test_refusals_of_self_registered_clients import registered
from tests.support.oauth_site import CALLBACK, Answer, Browser, Client, Page, Site

from runtime.domain.kinds.zone import Zone

pytestmark = pytest.mark.standard("OAuth 2.0 Form Post Response Mode")
STORAGE = ("embedded", "nodes")
FORM_POST = {"response_mode": "form_post"}
ORIGIN = "https://app.example"


@pytest.fixture(scope="module")
def zone(site: Site) -> Zone:
    """A zone with Ada, where clients register themselves."""
    made = site.zone("Acme people")
    site.user(made)
    return made


@pytest.fixture(scope="module")
def client(site: Site, zone: Zone) -> Client:
    return site.app(zone, "web")


def assert_posts(page: "Page | Answer", client: Client) -> dict[str, str]:
    """See that a page posts an answer to the client, and to nobody else; what the answer says."""
    assert isinstance(page, Page), page
    headers = page.response.headers
    assert page.response.status_code == 200
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["form-action"] == ORIGIN
    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"].startswith("'sha256-")
    assert "unsafe" not in headers["content-security-policy"]
    assert 'method="post"' in page.response.text
    assert page.action == client.redirect_uri
    assert (page.fields["state"], page.fields["iss"]) == (client.state, client.issuer)
    return page.fields


def test_a_code_is_posted(client: Client, browser: Browser) -> None:
    """With `state` and `iss`, and in no address; the session's cookie comes with the page."""
    page = browser.open(client.url(**FORM_POST))
    assert isinstance(page, Page)

    answer = browser.send(page, email="ada@acme.example", password="correct horse battery")

    fields = assert_posts(answer, client)
    assert set(fields) == {"code", "state", "iss"}
    assert not [each for each in browser.visited if "code=" in each.headers.get("location", "")]
    assert client.redeem(fields["code"]).status_code == 200
    silent = assert_posts(browser.open(client.url(**FORM_POST, prompt="none")), client)
    assert "code" in silent


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"prompt": "none"}, "login_required"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"code_challenge": None, "code_challenge_method": None}, "invalid_request"),
        ({"scope": "nothing"}, "invalid_scope"),
        ({"resources": ["https://elsewhere.test"]}, "invalid_target"),
    ],
)
def test_an_error_is_posted(client: Client, browser: Browser, changes: dict[str, Any], error: str) -> None:
    """As a code would be."""
    fields = assert_posts(browser.open(client.url(**FORM_POST, **changes)), client)

    assert fields["error"] == error
    assert set(fields) == {"error", "error_description", "state", "iss"}


def test_a_denial_is_posted(site: Site, zone: Zone, browser: Browser) -> None:
    """The consent page leads to the page that posts the answer."""
    client = site.app(zone, "asking", consent="required")
    page = browser.open(client.url(**FORM_POST))
    assert isinstance(page, Page)
    question = browser.send(page, email="ada@acme.example", password="correct horse battery")
    assert isinstance(question, Page)
    assert question.action.endswith("/oauth/consent")

    denied = assert_posts(browser.send(question, decision="deny"), client)

    assert denied["error"] == "access_denied"


@pytest.mark.standard("RFC 9126")
def test_a_pushed_request_names_the_mode(client: Client, browser: Browser) -> None:
    """What was pushed counts, not what stands beside its name."""
    pushed = push(client, **FORM_POST, prompt="none")
    assert pushed.status_code == 201, pushed.text

    fields = assert_posts(browser.open(bring(client, pushed.json()["request_uri"])), client)

    assert fields["error"] == "login_required"


@pytest.mark.threat("6q")
def test_what_the_application_sent_stays_text(client: Client, browser: Browser) -> None:
    """A `state` with markup in it is returned as it was, and is no part of the page."""
    state = '"><script>alert(1)</script><input name="code" value="\'x\'">&amp;'

    page = browser.open(client.url(**FORM_POST, prompt="none", state=state))

    assert isinstance(page, Page)
    assert page.fields["state"] == state
    assert page.response.text.count("<script") == 1
    assert "code" not in page.fields


@pytest.mark.parametrize(
    "redirect_uri", ["com.example.app:/callback", "http://[::1]/callback"], ids=["private scheme", "IPv6"]
)
def test_where_no_form_can_be_posted_the_client_hears_so_by_redirect(
    site: Site, zone: Zone, redirect_uri: str
) -> None:
    """No browser posts to a private-use scheme, and no content policy can name an IPv6 address."""
    addresses = {"oauth2": {"redirect_uris": [redirect_uri]}}
    native = site.app(zone, f"native-{len(redirect_uri)}", public=True, protocols=addresses)
    native.redirect_uri = redirect_uri

    def told(**changes: str) -> dict[str, str]:
        answer = httpx.get(native.url(prompt="none", **changes))
        assert answer.headers["location"].startswith(redirect_uri)
        return Answer(answer.headers["location"]).values

    assert told()["error"] == "login_required"
    assert told(**FORM_POST)["error"] == "invalid_request"


@pytest.mark.parametrize(
    "extra",
    [[("response_mode", "fragment")], [("response_mode", "form_post"), ("response_mode", "query")]],
    ids=["unknown", "twice"],
)
def test_another_mode_or_two_are_refused_by_redirect(client: Client, extra: list[tuple[str, str]]) -> None:
    """The default of the response type `code` is the query."""
    heard = Answer(httpx.get(client.url(extra=extra)).headers["location"]).values

    assert heard["error"] == "invalid_request"
    assert "response_mode" in heard["error_description"]


@pytest.mark.threat("6h")
def test_a_client_that_nobody_knows_is_posted_to_by_the_user_alone(site: Site, zone: Zone) -> None:
    """The page names its site and has a button; no script sends the form."""
    stranger = registered(site, zone, "https://borrowed.example/callback")

    answer = httpx.get(stranger.url(**FORM_POST, prompt="none"))

    page = Page(answer)
    assert answer.status_code == 400
    assert "only if you trust" in page.text
    assert page.action == stranger.redirect_uri
    assert page.fields["error"] == "login_required"
    assert "<script" not in answer.text
    policy = answer.headers["content-security-policy"]
    assert "script-src 'none'; form-action https://borrowed.example" in policy


def test_discovery_names_both_modes(client: Client) -> None:
    """And the one that a request without `response_mode` means is served as before."""
    metadata = httpx.get(f"{client.issuer}/.well-known/openid-configuration").json()

    assert metadata["response_modes_supported"] == ["query", "form_post"]
    default = httpx.get(client.url(prompt="none"))
    assert default.status_code == 303
    assert default.headers["location"].startswith(f"{CALLBACK}?error=login_required")
