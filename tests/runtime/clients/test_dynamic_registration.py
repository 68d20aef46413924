"""Clients that register themselves: what the endpoint answers, and that users are always asked about them."""

from contextlib import suppress
from typing import Any

import httpx
import jwt
import pytest
from tests.support.factories import App
from tests.support.oauth_site import PASSWORD, Answer, Browser, Client, Page, Site, assert_page, claims
from tests.support.scene import acting

from runtime.domain.errors import TooManyRequests
from runtime.domain.kinds import ZONE, Verb
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth.exchange import ACCESS_TOKEN
from runtime.services import rate_limits
from runtime.services.clients import dynamic_registration

LOCAL = "http://localhost:8600/callback"
METADATA = {
    "client_name": "Notebook agent",
    "redirect_uris": [LOCAL],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "client_secret_basic",
    "scope": "openid read",
    "logo_uri": "https://evil.test/logo.png",
}


def register(zone: Zone, metadata: Any = METADATA, **more: Any) -> httpx.Response:
    return httpx.post(f"{zone.protocols.oauth2.issuer}/oauth/register", json=metadata, **more)


def registered(site: Site, zone: Zone, **metadata: Any) -> Client:
    """A client that has just registered itself."""
    answer = register(zone, METADATA | metadata)
    assert answer.status_code == 201, answer.text
    return site.stranger(zone, answer.json()["client_id"], metadata.get("redirect_uris", [LOCAL])[0])


def consent_page(browser: Browser, client: Client, **changes: Any) -> Page:
    place = browser.open(client.url(**changes))
    assert isinstance(place, Page), place
    if place.action.endswith("/sign-in"):
        place = browser.send(place, email="ada@acme.example", password=PASSWORD)
    assert isinstance(place, Page), place
    assert place.action.endswith("/oauth/consent"), place.text
    return place


@pytest.fixture(scope="module")
def zone(site: Site) -> Zone:
    """A zone with Ada and an MCP server's resource, which nobody depends on."""
    made = site.zone("Acme people")
    site.user(made)
    site.run(site.company.resource(made, "https://tools.example/mcp", scopes=["read", "write"]))
    return made


@pytest.mark.standard("RFC 7591")
def test_the_answer_has_the_metadata_as_it_is_kept(zone: Zone) -> None:
    """Met half way where it asked for what is not served; nothing is to be cached, any origin may read it."""
    answer = register(zone)
    client = answer.json()

    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert client.pop("client_id").startswith("ua:")
    assert isinstance(client.pop("client_id_issued_at"), int)
    assert client == METADATA | {"application_type": "native", "token_endpoint_auth_method": "none"}


@pytest.mark.standard("RFC 6749", "RFC 7591")
@pytest.mark.parametrize(
    ("sent", "kept"),
    [({"scope": "read"}, {"scope": "read"}), ({"scope": ""}, {}), ({}, {})],
    ids=["one", "empty", "missing"],
)
def test_a_scope_that_is_empty_is_none(zone: Zone, sent: dict[str, str], kept: dict[str, str]) -> None:
    """The answer has the member only where it has a scope."""
    without = {name: value for name, value in METADATA.items() if name != "scope"}
    answer = register(zone, without | sent)

    assert answer.status_code == 201
    assert {name: value for name, value in answer.json().items() if name == "scope"} == kept


@pytest.mark.standard("RFC 7591")
def test_the_same_metadata_gives_the_same_client(zone: Zone) -> None:
    """Also when it differs only in the order, and in what is left out because it is not served."""
    again = register(zone, METADATA | {"grant_types": ["refresh_token", "authorization_code", "implicit"]})
    assert again.json() == register(zone).json()


@pytest.mark.standard("RFC 7591")
def test_discovery_names_the_registration_endpoint(zone: Zone) -> None:
    metadata = httpx.get(f"{zone.protocols.oauth2.issuer}/.well-known/openid-configuration").json()
    assert metadata["registration_endpoint"] == str(register(zone).request.url)


@pytest.mark.standard("RFC 7591", "OpenID Connect Core")
@pytest.mark.parametrize(
    ("algorithm", "more"),
    [
        ("RS256", {}),
        ("RS256", {"id_token_signed_response_alg": "RS256"}),
        ("ES256", {"id_token_signed_response_alg": "ES256"}),
    ],
    ids=["nothing asked", "RS256", "ES256"],
)
def test_id_tokens_are_signed_as_the_client_registered(
    site: Site, zone: Zone, algorithm: str, more: dict[str, str]
) -> None:
    """With RS256 where it said nothing, by a key that the zone publishes."""
    keys = jwt.PyJWKSet.from_dict(httpx.get(f"{zone.protocols.oauth2.issuer}/.well-known/jwks.json").json())
    assert register(zone, METADATA | more).json().items() >= more.items()
    client = registered(site, zone, **more)
    token = client.sign_in(scope="openid")["id_token"]
    header = jwt.get_unverified_header(token)
    assert (header["alg"], header["typ"]) == (algorithm, "JWT")
    jwt.decode(token, keys[header["kid"]], [algorithm], audience=client.app.client_id)


@pytest.mark.standard("RFC 7591", "OpenID Connect Core")
def test_who_registered_without_refresh_tokens_gets_none(site: Site, zone: Zone) -> None:
    """Offline access is left out of what is granted; who registered for the grant gets a token that works."""
    asked = {"scope": "openid offline_access"}
    full, plain = registered(site, zone), registered(site, zone, grant_types=["authorization_code"])

    tokens, fewer = full.sign_in(**asked), plain.sign_in(**asked)

    assert full.refresh(tokens["refresh_token"]).status_code == 200
    assert "refresh_token" not in fewer
    assert fewer["scope"] == "openid"


@pytest.mark.standard("RFC 7591", "OpenID Connect Core")
@pytest.mark.parametrize("of_another", [True, False], ids=["of another client", "made up"])
def test_who_registered_without_refresh_tokens_cannot_use_one(
    site: Site, zone: Zone, of_another: bool
) -> None:
    """The grant is refused before anybody looks at the token."""
    full, plain = registered(site, zone), registered(site, zone, grant_types=["authorization_code"])
    token = full.sign_in(scope="openid offline_access")["refresh_token"] if of_another else "made-up"

    refused = plain.refresh(token)

    assert (refused.status_code, refused.json()["error"]) == (400, "unauthorized_client")


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({"redirect_uris": ["javascript:alert(1)"]}, 400, "invalid_redirect_uri"),
        ({"redirect_uris": [LOCAL], "application_type": "web"}, 400, "invalid_redirect_uri"),
        ({}, 400, "invalid_redirect_uri"),
        ({"redirect_uris": [LOCAL], "client_name": "a\u202eb"}, 400, "invalid_client_metadata"),
        ({"redirect_uris": [LOCAL], "software_statement": "x"}, 400, "invalid_software_statement"),
        ([], 400, "invalid_client_metadata"),
        ({"redirect_uris": [LOCAL], "x": "y" * 20_000}, 413, "invalid_client_metadata"),
    ],
    ids=[
        "script for a redirect URI",
        "web application on localhost",
        "no redirect URI",
        "reordering mark in the name",
        "software statement",
        "no object",
        "too large",
    ],
)
def test_metadata_that_cannot_be_kept_is_refused(zone: Zone, body: Any, status: int, error: str) -> None:
    """Each in the standard's words; the same without what is wrong is taken."""
    refused = register(zone, body)

    assert (refused.status_code, refused.json()["error"]) == (status, error)
    assert refused.headers["cache-control"] == "no-store"
    assert register(zone).status_code == 201


@pytest.mark.parametrize(
    "sent",
    [
        {"data": {"redirect_uris": LOCAL}},
        {"content": b'{"redirect_uris": [], "redirect_uris": ["https://a.example/cb"]}'},
    ],
    ids=["form", "member twice"],
)
def test_a_body_that_is_not_plain_json_is_refused(zone: Zone, sent: dict[str, Any]) -> None:
    """A form, and JSON that two readers read differently, are no metadata."""
    refused = httpx.post(f"{zone.protocols.oauth2.issuer}/oauth/register", **sent)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_client_metadata")


def test_a_zone_can_be_closed(site: Site, zone: Zone) -> None:
    """Then nobody registers and nothing says that they could; who is registered goes on."""
    closed = site.zone("Closed")
    site.user(closed)
    client = registered(site, closed)
    patch = {"protocols": {"oauth2": {"dcr_enabled": False}}}
    site.run(site.company.run(ZONE, Verb.UPDATE, {}, closed.id, patch))

    refused = register(closed)

    assert (refused.status_code, refused.json()["error"]) == (403, "access_denied")
    metadata = httpx.get(f"{client.issuer}/.well-known/openid-configuration").json()
    assert "registration_endpoint" not in metadata
    assert client.sign_in()["access_token"]


def test_an_organizations_home_zone_is_closed(site: Site) -> None:
    """What people sign in to for the management API takes nobody who introduces themselves."""
    headers = site.server.headers
    (own,) = [
        zone
        for zone in httpx.get(f"{site.server.url}/zones?limit=100", headers=headers).json()["items"]
        if zone["owner_type"] == "platform"
    ]

    refused = httpx.post(own["protocols"]["oauth2"]["registration_endpoint"], json=METADATA)

    assert refused.status_code == 403
    assert own["protocols"]["oauth2"]["cimd"]["enabled"] is False


@pytest.mark.usefixtures("one_window")
def test_registrations_are_slowed_down(site: Site) -> None:
    """By address and zone together, with a time to come back."""
    busy = site.zone("Busy")
    assert register(busy).status_code == 201

    async def many() -> None:
        zone = await site.services.zones.get(busy.id)
        with suppress(TooManyRequests):
            for _ in range(int(rate_limits.REGISTRATIONS.amount) * 2):
                await dynamic_registration.check_registration_allowed(site.services, zone, "127.0.0.1")

    site.run(many())
    last = register(busy)
    assert (last.status_code, last.json()["error"]) == (429, "temporarily_unavailable")
    assert 0 < int(last.headers["retry-after"]) <= rate_limits.REGISTRATIONS.seconds + 1


@pytest.mark.threat("24a", "24b", "24c", "24d", "24e", "24f")
def test_users_are_always_asked(site: Site, zone: Zone, browser: Browser) -> None:
    """A name and a logo of somebody trusted, and consent asked for as implicit, change nothing."""
    trusted = site.app(zone, "Trusted notes", consent="implicit")
    trusted.sign_in(browser)
    assert isinstance(browser.open(trusted.url()), Answer)  # nobody is asked about the real one
    liar = registered(site, zone, client_name="Trusted notes", consent="implicit", owner_type="platform")

    page = consent_page(browser, liar)

    assert_page(page.response, 200)
    assert "Trusted notes" in page.text
    assert "It redirects to localhost" in page.text
    assert "registered itself" in page.text
    assert "a program on this device" in page.text
    assert "evil.test" not in page.response.text  # no picture of theirs is loaded
    assert isinstance(browser.send(page, decision="deny"), Answer)
    assert consent_page(browser, liar)


def test_a_yes_is_remembered_for_what_it_was_said_to(site: Site, zone: Zone, browser: Browser) -> None:
    """For the client, the resource and the place it is answered at; any of them new is asked about."""
    web = "https://agent.example/callback"
    client = registered(site, zone, redirect_uris=[LOCAL, web], client_name="Remembered")
    target = ["https://tools.example/mcp"]
    answer = browser.send(consent_page(browser, client, resources=target, scope="read"), decision="allow")
    assert isinstance(answer, Answer)

    assert isinstance(browser.open(client.url(resources=target, scope="read")), Answer)
    client.redirect_uri = "http://localhost:9999/callback"
    assert isinstance(browser.open(client.url(resources=target, scope="read")), Answer)
    assert consent_page(browser, client, resources=target, scope="read write")
    client.redirect_uri = web
    assert consent_page(browser, client, resources=target, scope="read")


def test_a_token_for_a_resource_is_for_what_the_user_agreed_to(site: Site, zone: Zone) -> None:
    """Its audience, its client and its scope; the refresh token that comes with it is rotated."""
    client = registered(site, zone, client_name="Token agent")

    tokens = client.sign_in(resources=["https://tools.example/mcp"], scope="openid read")

    token = claims(tokens["access_token"])
    assert token["aud"] == "https://tools.example/mcp"
    assert token["client_id"] == client.app.client_id
    assert token["scope"] == "read"
    refreshed = client.refresh(tokens["refresh_token"])
    assert refreshed.status_code == 200
    assert refreshed.json()["refresh_token"] != tokens["refresh_token"]


def test_a_session_names_the_client_that_registered_itself(site: Site, zone: Zone) -> None:
    """In the management API: a user agent, read and listed alike, and no application."""
    client = registered(site, zone, client_name="Token agent")
    tokens = client.sign_in(resources=["https://tools.example/mcp"], scope="openid read")
    headers, base = site.server.headers, f"{site.server.url}/zones/{zone.id}"
    session_id = claims(tokens["access_token"])["sid"]

    session = httpx.get(f"{base}/sessions/{session_id}", headers=headers).json()

    assert session["metadata"] == {"name": "Token agent"}
    assert "application_id" not in session
    found = httpx.get(f"{base}/user-agents/{session['user_agent_id']}", headers=headers).json()
    assert (found["identifier"], found["name"]) == (client.app.client_id, "Token agent")
    listed = httpx.get(f"{base}/user-agents?limit=100&expand[]=total_count", headers=headers).json()
    assert found in listed["items"]
    assert set(found) == {
        *("id", "created_at", "updated_at", "organization_id", "zone_id"),
        *("identifier", "name", "slug"),
    }


@pytest.mark.parametrize(
    "form",
    [
        {"grant_type": "client_credentials"},
        {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "resource": "https://tools.example/mcp",
        },
        {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": "x.y.z"},
    ],
)
def test_other_grants_are_not_theirs(site: Site, zone: Zone, form: dict[str, str]) -> None:
    """Codes and refresh tokens, and nothing that an application may do on its own authority."""
    client = registered(site, zone, client_name="Greedy agent")
    tokens = client.sign_in()  # ok first

    answer = client.token(**form, subject_token=tokens["access_token"])

    assert (answer.status_code, answer.json()["error"]) == (400, "unauthorized_client")


def test_a_secret_is_not_theirs(site: Site, zone: Zone) -> None:
    """They have none, so showing one proves nothing."""
    client = registered(site, zone, client_name="Secretive agent")
    tokens = client.sign_in()

    refused = client.refresh(tokens["refresh_token"], client_secret="guess")

    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
    assert client.refresh(tokens["refresh_token"]).status_code == 200


def test_a_policy_can_limit_them(site: Site) -> None:
    """Rules know how a client came to be known."""
    zone = site.zone("Strict")
    site.user(zone)
    site.run(site.company.resource(zone, "https://tools.example/mcp", scopes=["read"]))
    client = registered(site, zone)
    wanted = {"resources": ["https://tools.example/mcp"], "scope": "openid read"}
    tokens = client.sign_in(**wanted)
    rule = 'forbid (principal, action, resource) when { context.registration == "dynamic" };'
    site.run(site.company.policies(zone, "permit (principal, action, resource);", rule))

    refused = client.refresh(tokens["refresh_token"])

    assert (refused.status_code, refused.json()["error"]) == (400, "access_denied")


@pytest.mark.threat("5b", "5g", "5j", "5k", "5m", "5n")
@pytest.mark.parametrize(
    "uri",
    [
        "http://localhost:8600/callback/..",
        "http://localhost.evil.test:8600/callback",
        "http://127.0.0.1:8600/callback",
        "http://localhost:8600/Callback",
        "http://localhost:8600/callback?code=x",
        "https://localhost:8600/callback",
        "JavaScript:alert(1)",
        "localhost:8600/callback",
    ],
)
def test_only_another_port_is_the_same_address(site: Site, zone: Zone, browser: Browser, uri: str) -> None:
    """Every trick ends on a page, and nothing is answered anywhere."""
    client = registered(site, zone)
    place = browser.open(client.url(redirect_uri="http://localhost:1/callback"))
    assert isinstance(place, Page)
    assert place.action.endswith("/sign-in")

    response = browser.http.get(client.url(redirect_uri=uri))

    assert_page(response, 400)


@pytest.mark.threat("15c")
def test_a_stranger_stands_in_every_chain_it_begins(site: Site) -> None:
    """By the name that it has registered under, at each further link."""
    zone = site.zone("Chains")
    site.user(zone)
    deep = site.run(site.company.resource(zone, "https://deep.example", scopes=["read"]))
    provider = site.run(site.company.app(zone, "api-server", dependencies=[deep]))
    api = site.run(
        site.company.resource(zone, "https://api.example", scopes=["read"], application_id=provider.id)
    )
    server = site.run(site.company.app(zone, "tool-server", dependencies=[api]))
    tools = site.run(
        site.company.resource(zone, "https://tools.example", scopes=["call"], application_id=server.id)
    )
    client = registered(site, zone)
    token = client.sign_in(resources=[tools.identifier], scope="call")["access_token"]

    def exchange(app: App, token: str, resource: Resource) -> httpx.Response:
        form = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token": token,
            "subject_token_type": ACCESS_TOKEN,
        }
        form |= {"resource": resource.identifier, **app.form}
        return httpx.post(f"{zone.protocols.oauth2.issuer}/oauth/token", data=form)

    first = exchange(server, token, api).json()["access_token"]
    assert acting(claims(first)) == ("tool-server", client.app.client_id)
    assert "sub_profile" not in claims(first)["act"]["act"]  # nobody has said what it is
    second = exchange(provider, first, deep).json()["access_token"]
    assert acting(claims(second)) == ("api-server", "tool-server", client.app.client_id)
