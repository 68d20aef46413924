"""Authorize requests that the application sends ahead of the browser."""

import base64
from urllib.parse import urlencode

import httpx
import pytest
from tests.runtime.authorization.pushed_requests import bring, push
from tests.support.oauth_site import Answer, Browser, Client, Page, Site, assert_page, claims

from runtime.services.authorization.pushed_authorization_requests import PREFIX

STORAGE = ("embedded", "servers")


@pytest.mark.standard("RFC 9126")
def test_discovery_names_the_endpoint(site: Site) -> None:
    """The authorization server metadata has the address to push requests to."""
    client = site.app(site.zone())
    metadata = httpx.get(f"{client.issuer}/.well-known/oauth-authorization-server").json()
    assert metadata["pushed_authorization_request_endpoint"] == f"{client.issuer}/oauth/par"


@pytest.mark.standard("RFC 9126")
def test_a_pushed_request_is_answered_with_a_name_for_a_minute(site: Site) -> None:
    """201 with a `request_uri` of the service's own; never stored, and readable from any origin."""
    pushed = push(site.app(site.zone()))

    assert pushed.status_code == 201, pushed.text
    assert pushed.headers["cache-control"] == "no-store"
    assert pushed.headers["access-control-allow-origin"] == "*"
    assert pushed.json()["expires_in"] == 60
    assert pushed.json()["request_uri"].startswith(PREFIX)


@pytest.mark.standard("RFC 9126")
def test_what_was_pushed_is_what_counts(site: Site, browser: Browser) -> None:
    """The browser brings a name; parameters beside it change nothing; the name works once."""
    zone = site.zone()
    site.user(zone)
    client = site.app(zone)
    request_uri = push(client).json()["request_uri"]
    address = bring(client, request_uri, scope="openid profile", state="theirs", redirect_uri="https://evil")

    answer = browser.sign_in(browser.open(address))
    assert answer.values["state"] == client.state
    redeemed = client.redeem(answer.code)
    assert redeemed.status_code == 200, redeemed.text
    assert redeemed.json()["scope"] == "email openid"
    assert claims(redeemed.json()["id_token"])["nonce"] == client.nonce

    assert_page(httpx.get(address), 400)


def test_public_clients_and_basic_authentication(site: Site, browser: Browser) -> None:
    """Who needs no secret pushes without one; who authenticates in the header may leave the client id out."""
    zone = site.zone()
    site.user(zone)
    public = site.app(zone, "tool", public=True)
    answer = browser.sign_in(browser.open(bring(public, push(public).json()["request_uri"])))
    assert public.redeem(answer.code).status_code == 200

    client = site.app(zone, "web")
    pair = base64.b64encode(f"{client.app.client_id}:{client.app.secret}".encode()).decode()
    pushed = push(client, authenticate=False, headers={"Authorization": f"Basic {pair}"}, client_id=None)
    assert pushed.status_code == 201, pushed.text
    assert isinstance(browser.open(bring(client, pushed.json()["request_uri"])), Answer)


@pytest.fixture(scope="module")
def pushing(site: Site) -> Client:
    """An application whose request is taken when nothing in it is changed."""
    client = site.app(site.zone())
    assert push(client).status_code == 201
    assert push(client, **{f"ignored{number}": "x" * 4000 for number in range(3)}).status_code == 201
    return client


@pytest.mark.threat("36b", "36f")
@pytest.mark.parametrize(
    ("changes", "status", "error"),
    [
        pytest.param({"request_uri": f"{PREFIX}x"}, 400, "invalid_request", id="a pushed name"),
        pytest.param({"request": "x.y.z"}, 400, "request_not_supported", id="signed request"),
        pytest.param(
            {"redirect_uri": "https://evil.example/callback"}, 400, "invalid_request", id="other redirect URI"
        ),
        pytest.param({"redirect_uri": None}, 400, "invalid_request", id="no redirect URI"),
        pytest.param({"response_type": "token"}, 400, "unsupported_response_type", id="implicit"),
        pytest.param({"code_challenge": None}, 400, "invalid_request", id="no PKCE"),
        pytest.param({"code_challenge_method": "plain"}, 400, "invalid_request", id="plain PKCE"),
        pytest.param({"resource": "https://unknown.example"}, 400, "invalid_target", id="unknown resource"),
        pytest.param({"client_secret": "wrong"}, 401, "invalid_client", id="wrong secret"),
        pytest.param({"client_secret": None}, 401, "invalid_client", id="no secret"),
        pytest.param({"client_id": "nobody"}, 401, "invalid_client", id="unknown client"),
        pytest.param({"scope": "x" * 70_000}, 413, "invalid_request", id="one large parameter"),
        pytest.param(
            {f"ignored{number}": "x" * 4000 for number in range(5)},
            413,
            "invalid_request",
            id="many ignored parameters",
        ),
    ],
)
def test_what_could_not_be_authorized_is_refused_when_it_is_pushed(
    pushing: Client, changes: dict[str, str | None], status: int, error: str
) -> None:
    """The application hears it at once, in OAuth's words, and gets no name for what it sent."""
    refused = push(pushing, **changes)

    assert (refused.status_code, refused.json()["error"]) == (status, error), refused.text
    assert refused.headers["cache-control"] == "no-store"
    assert "request_uri" not in refused.json()


@pytest.mark.threat("36b", "36f")
def test_a_parameter_sent_twice_is_refused(pushing: Client) -> None:
    """As at the authorize endpoint: two readers could take different ones."""
    refused = httpx.post(
        f"{pushing.issuer}/oauth/par",
        content=f"{urlencode(pushing.app.form)}&state=1&state=2",
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")


@pytest.mark.threat("36b", "36f")
def test_parameters_in_the_query_are_refused(pushing: Client) -> None:
    """A request is pushed in the body of a POST; credentials in an address would be logged."""
    url = f"{pushing.issuer}/oauth/par"
    refused = httpx.post(f"{url}?{urlencode(pushing.app.form)}", data={"state": "1"})
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")
    assert httpx.get(url).status_code == 405


@pytest.mark.threat("36b", "36f")
@pytest.mark.parametrize("origin", ["null", "https://evil.example"])
def test_any_origin_may_push_but_never_with_cookies(pushing: Client, origin: str) -> None:
    """The preflight allows every origin alike, and no credentials."""
    preflight = httpx.options(f"{pushing.issuer}/oauth/par", headers={"Origin": origin})

    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in preflight.headers


def test_a_name_is_its_clients_alone(site: Site, browser: Browser) -> None:
    """Another client, another zone, or nobody's name: a page, and nothing is redirected anywhere."""
    zone, other = site.zone(), site.zone("Other")
    client, stranger = site.app(zone), site.app(zone, "stranger")
    assert isinstance(browser.open(bring(client, push(client).json()["request_uri"])), Page)
    assert_page(httpx.get(bring(stranger, push(client).json()["request_uri"])), 400)
    assert_page(httpx.get(bring(client, f"{PREFIX}made-up")), 400)
    elsewhere = Client(other, client.app)
    assert_page(httpx.get(bring(elsewhere, push(client).json()["request_uri"])), 400)
    by_reference = client.url(extra=[("request_uri", "https://evil.example/request")])
    answer = browser.open(by_reference)
    assert isinstance(answer, Answer)
    assert answer.values["error"] == "request_uri_not_supported"
