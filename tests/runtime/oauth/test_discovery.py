"""Discovery: a zone's metadata and keys, at every well-known address, with CORS and host names."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from tests.runtime.oauth.conftest import Site
from tests.support.factories import company_of
from tests.support.server import Server, serve

from runtime.adapters.keys.signing import VerificationKey

FORMS = {
    "OAuth appended": "{origin}/z/{zone}/.well-known/oauth-authorization-server",
    "OpenID appended": "{origin}/z/{zone}/.well-known/openid-configuration",
    "OAuth inserted": "{origin}/.well-known/oauth-authorization-server/z/{zone}",
    "OpenID inserted": "{origin}/.well-known/openid-configuration/z/{zone}",
    "OAuth two slashes": "{origin}/z/{zone}//.well-known/oauth-authorization-server",
    "OpenID two slashes": "{origin}/z/{zone}//.well-known/openid-configuration",
}
KEYS = "{origin}/z/{zone}/.well-known/jwks.json"
PROVING = ["client_secret_basic", "client_secret_post", "private_key_jwt"]
ORIGINS = pytest.mark.parametrize("origin", ["https://app.test", "null"])
ENDPOINTS = pytest.mark.parametrize("endpoint", ["token", "par", "revoke", "introspect", "register"])
EVERY_FORM = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


def address(site: Site, form: str = FORMS["OAuth appended"]) -> str:
    return form.format(origin=site.server.url, zone=site.zone.id)


MEMBERS: dict[str, object] = {
    "code_challenge_methods_supported": ["S256"],
    "authorization_response_iss_parameter_supported": True,
    "token_endpoint_auth_signing_alg_values_supported": ["RS256", "PS256", "ES256", "EdDSA"],
    "id_token_signing_alg_values_supported": ["RS256", "ES256"],
    "subject_types_supported": ["public"],
    "introspection_endpoint_auth_methods_supported": PROVING,
    "revocation_endpoint_auth_methods_supported": [*PROVING, "none"],
}


@pytest.fixture(scope="module")
def document(site: Site) -> httpx.Response:
    """The metadata, at the address of RFC 8414 that every other form is compared with."""
    return site.http.get(address(site))


@pytest.fixture(scope="module")
def metadata(document: httpx.Response) -> dict[str, Any]:
    body: dict[str, Any] = document.json()
    return body


@pytest.mark.threat("36g")
@pytest.mark.standard("RFC 8414", "OpenID Connect Discovery")
@EVERY_FORM
def test_every_form_of_the_address_has_the_same_bytes(
    site: Site, document: httpx.Response, form: str
) -> None:
    """Appended, inserted and with a doubled slash: one document with one entity tag, kept five minutes."""
    answer = site.http.get(address(site, form))

    assert answer.status_code == 200
    assert answer.content == document.content
    assert answer.headers["ETag"] == document.headers["ETag"]
    assert answer.headers["Cache-Control"] == "max-age=300"
    assert answer.headers["Content-Type"] == "application/json"


@pytest.mark.standard("RFC 8414", "OpenID Connect Discovery")
@EVERY_FORM
def test_head_has_the_entity_tag_and_no_body(site: Site, document: httpx.Response, form: str) -> None:
    """HEAD is answered as GET is, without the content."""
    looked_at = site.http.head(address(site, form))  # Spec: RFC 9110 section 9.1

    assert (looked_at.status_code, looked_at.content) == (200, b"")
    assert looked_at.headers["ETag"] == document.headers["ETag"]


@pytest.mark.standard("RFC 8414")
def test_metadata_has_the_issuer_as_stored(site: Site, metadata: dict[str, Any]) -> None:
    """The issuer is the zone's stored one: the server's address and the zone's id."""
    assert metadata["issuer"] == site.issuer == f"{site.server.url}/z/{site.zone.id}"


@pytest.mark.standard("RFC 8414")
@pytest.mark.parametrize(
    ("name", "values"),
    [
        (
            "grant_types_supported",
            {
                "authorization_code",
                "refresh_token",
                "client_credentials",
                "urn:ietf:params:oauth:grant-type:token-exchange",
                "urn:ietf:params:oauth:grant-type:jwt-bearer",
            },
        ),
        ("token_endpoint_auth_methods_supported", {*PROVING, "none"}),
    ],
    ids=["grant types", "client authentication"],
)
def test_metadata_names_exactly_what_the_token_endpoint_takes(
    metadata: dict[str, Any], name: str, values: set[str]
) -> None:
    """Every grant type and every way for a client to authenticate, in whatever order, and no other."""
    assert set(metadata[name]) == values


@pytest.mark.standard("RFC 8414")
@pytest.mark.parametrize(("name", "value"), MEMBERS.items(), ids=MEMBERS)
def test_metadata_member_has_its_value(metadata: dict[str, Any], name: str, value: object) -> None:
    """PKCE is S256 alone, `iss` is in every authorization response, and each list is in its order."""
    assert metadata[name] == value
    assert type(metadata[name]) is type(value)


@pytest.mark.standard("RFC 8414")
def test_metadata_offers_openid(metadata: dict[str, Any]) -> None:
    """`openid` is among the scopes."""
    assert "openid" in metadata["scopes_supported"]


@pytest.mark.standard("RFC 8414")
def test_every_endpoint_of_the_metadata_is_served(site: Site, metadata: dict[str, Any]) -> None:
    """Each address is under the issuer and answers 405 to TRACE, not 404."""
    served = {name for name in metadata if name.endswith(("_endpoint", "_uri"))}
    assert served >= {"token_endpoint", "introspection_endpoint", "revocation_endpoint", "revocations_uri"}
    assert not [name for name in served if not metadata[name].startswith(f"{site.issuer}/")]
    assert {site.http.request("TRACE", metadata[name]).status_code for name in served} == {405}


@pytest.mark.standard("RFC 8414")
def test_host_header_changes_nothing(site: Site) -> None:
    """The issuer is a stored string: a request cannot name another."""
    plain = site.http.get(address(site))
    forged = site.http.get(address(site), headers={"Host": "evil.test", "X-Forwarded-Host": "evil.test"})

    assert forged.content == plain.content


@pytest.mark.parametrize("form", [FORMS["OAuth appended"], KEYS], ids=["metadata", "keys"])
def test_entity_tag_saves_the_body(site: Site, form: str) -> None:
    """A client that has the document is answered 304 without a body; one with another tag gets it all."""
    tag = site.http.get(address(site, form)).headers["ETag"]

    again = site.http.get(address(site, form), headers={"If-None-Match": tag})

    assert again.status_code == 304
    assert not again.content
    assert site.http.get(address(site, form), headers={"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.threat("36g")
@pytest.mark.standard("RFC 7517")
def test_keys_are_public_rsa_and_ec(site: Site) -> None:
    """Every key of the answer can verify, and none can sign."""
    answer = site.http.get(f"{site.issuer}/.well-known/jwks.json")

    keys = answer.json()["keys"]
    assert answer.headers["Cache-Control"] == "max-age=300"
    assert {key["kty"] for key in keys} == {"RSA", "EC"}
    assert not [key for key in keys if VerificationKey.from_jwk(key).kid != key["kid"]]
    assert not [key for key in keys if "d" in key]


@pytest.mark.parametrize("form", list(FORMS.values())[:4], ids=list(FORMS)[:4])
@pytest.mark.parametrize(
    "zone",
    ["unknown", "..", "%2e%2e", "'", "a" * 300],
    ids=["unknown", "dots", "escaped dots", "quote", "long"],
)
def test_an_unknown_zone_has_no_metadata(site: Site, zone: str, form: str) -> None:
    """There is nothing to discover about a zone that does not exist: 404, kept by no cache."""
    answer = site.http.get(form.format(origin=site.server.url, zone=zone))

    assert answer.status_code == 404
    assert answer.headers["Cache-Control"] == "no-store"


def assert_open_without_credentials(site: Site, asked: str, origin: str) -> None:
    """A preflight lets any origin in, and cookies never."""
    preflight = site.http.options(asked, headers={"Origin": origin, "Access-Control-Request-Method": "POST"})
    assert preflight.status_code == 204
    assert preflight.headers["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in preflight.headers


@pytest.mark.threat("36c")
@ORIGINS
@pytest.mark.parametrize("form", [*FORMS.values(), KEYS], ids=[*FORMS, "keys"])
def test_any_origin_may_discover_without_credentials(site: Site, form: str, origin: str) -> None:
    """Preflights for the metadata and the keys allow every origin, and no cookies."""
    assert_open_without_credentials(site, address(site, form), origin)


@pytest.mark.threat("36a", "36b")
@ORIGINS
@ENDPOINTS
def test_any_origin_may_ask_an_endpoint_without_credentials(site: Site, endpoint: str, origin: str) -> None:
    """Preflights for what browser clients post to allow every origin, and no cookies."""
    assert_open_without_credentials(site, f"{site.issuer}/oauth/{endpoint}", origin)


@pytest.mark.threat("36c")
@ORIGINS
def test_any_origin_may_read_the_metadata(site: Site, origin: str) -> None:
    """The document itself is open, too."""
    answer = site.http.get(address(site), headers={"Origin": origin})

    assert answer.headers["Access-Control-Allow-Origin"] == "*"


@pytest.mark.threat("36a", "36b", "36f")
@ORIGINS
@ENDPOINTS
def test_any_origin_may_read_a_refusal_and_no_cache_keeps_it(site: Site, endpoint: str, origin: str) -> None:
    """A browser client learns why its request failed."""
    refused = site.http.post(f"{site.issuer}/oauth/{endpoint}", headers={"Origin": origin})

    assert refused.status_code in (400, 401, 413)
    assert refused.headers["Access-Control-Allow-Origin"] == "*"
    exposed = refused.headers["Access-Control-Expose-Headers"].split(", ")
    assert {"WWW-Authenticate", "X-Request-ID"} <= set(exposed)
    assert refused.headers["X-Request-ID"]
    assert refused.headers["Cache-Control"] == "no-store"


@pytest.mark.threat("36d")
@ORIGINS
@pytest.mark.parametrize("method", ["OPTIONS", "GET"])
@pytest.mark.parametrize("page", ["/zones", "authorize", "sign-in"])
def test_no_origin_may_read_what_is_for_people_or_managers(
    site: Site, page: str, method: str, origin: str
) -> None:
    """The management API and the pages that browsers are sent to have no CORS header in any answer."""
    closed = f"{site.server.url}/zones" if page == "/zones" else f"{site.issuer}/oauth/{page}"

    answer = site.http.request(
        method, closed, headers={"Origin": origin, "Access-Control-Request-Method": "GET"}
    )

    assert [name for name in answer.headers if name.lower().startswith("access-control-")] == []


@pytest.mark.threat("36e")
@pytest.mark.parametrize("page", ["authorize", "sign-in"])
def test_pages_for_people_are_kept_by_no_cache(site: Site, page: str) -> None:
    """What browsers are sent to answers `no-store`."""
    assert site.http.get(f"{site.issuer}/oauth/{page}").headers["Cache-Control"] == "no-store"


@dataclass(frozen=True)
class Hosts:
    """A server in host mode, and the host of a zone on it."""

    server: Server
    zone_id: str

    @property
    def zone(self) -> str:
        return f"{self.zone_id}.zones.test"

    @property
    def own(self) -> str:
        """The host and port that the server itself is asked at."""
        return self.server.url.removeprefix("http://")

    def get(self, path: str, host: str) -> httpx.Response:
        return httpx.get(self.server.url + path, headers={"Host": host}, trust_env=False)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    folder = tmp_path_factory.mktemp("hosts")
    with serve(folder, zone_url_template="https://{zone_id}.zones.test") as server:
        company = company_of(server)
        yield Hosts(server, server.call(lambda _parts: company.zone()).id)


@pytest.mark.parametrize("name", ["oauth-authorization-server", "openid-configuration"])
def test_in_host_mode_a_zone_has_its_metadata_at_its_own_host(hosts: Hosts, name: str) -> None:
    """The issuer is the host, and the token endpoint is under it."""
    answer = hosts.get(f"/.well-known/{name}", hosts.zone)

    assert answer.status_code == 200
    assert answer.json()["issuer"] == f"https://{hosts.zone}"
    assert answer.json()["token_endpoint"] == f"https://{hosts.zone}/oauth/token"


@pytest.mark.standard("RFC 8414", "OpenID Connect Discovery")
@pytest.mark.parametrize("name", ["oauth-authorization-server", "openid-configuration"])
@pytest.mark.parametrize(
    "form", ["//.well-known/{name}", "/.well-known/{name}/"], ids=["appended", "inserted"]
)
def test_in_host_mode_an_issuer_written_with_a_slash_has_the_same_metadata(
    hosts: Hosts, form: str, name: str
) -> None:
    """Clients that put `/` behind the issuer ask with two slashes, or with one at the end."""
    plain = hosts.get(f"/.well-known/{name}", hosts.zone)
    slashed = form.format(name=name)

    answer = hosts.get(slashed, hosts.zone)

    assert (answer.status_code, answer.content) == (200, plain.content)
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert hosts.get(slashed, f"x.{hosts.zone}").status_code == 404
    assert hosts.get(f"/x/.well-known/{name}", hosts.zone).status_code == 404


def test_in_host_mode_a_zone_has_its_keys_at_its_own_host(hosts: Hosts) -> None:
    """The JWK Set stands beside the metadata."""
    assert hosts.get("/.well-known/jwks.json", hosts.zone).status_code == 200


@pytest.mark.parametrize(
    "other", ["zones.test", "x.zones.test", "{zone}.evil.test", "evil-{zone}", "127.0.0.1"]
)
def test_in_host_mode_no_other_host_has_a_zones_metadata(hosts: Hosts, other: str) -> None:
    """Neither the parent domain, nor an unknown zone's, nor a name that holds the zone's host."""
    host = other.format(zone=hosts.zone)

    assert hosts.get("/.well-known/openid-configuration", host).status_code == 404


def test_in_host_mode_no_path_leads_to_a_zone(hosts: Hosts) -> None:
    """What path mode serves at `/z/` is not there."""
    path = f"/z/{hosts.zone_id}/.well-known/openid-configuration"

    assert hosts.get(path, "127.0.0.1").status_code == 404


RESOURCE = "/.well-known/oauth-protected-resource"


@pytest.mark.standard("RFC 9728")
def test_in_host_mode_the_management_api_names_its_metadata_at_the_servers_address(hosts: Hosts) -> None:
    """The challenge has the address, and the document there names the server as the resource."""
    challenge = httpx.get(f"{hosts.server.url}/zones").headers["WWW-Authenticate"]

    assert f'"{hosts.server.url}{RESOURCE}"' in challenge
    assert hosts.get(RESOURCE, hosts.own).json()["resource"] == hosts.server.url


@pytest.mark.standard("RFC 9728")
def test_in_host_mode_a_zone_is_the_resource_at_its_own_host(hosts: Hosts) -> None:
    """The same path at the zone's host describes the zone."""
    assert hosts.get(RESOURCE, hosts.zone).json()["resource"] == f"https://{hosts.zone}"


@pytest.mark.parametrize("other", ["x.zones.test", "127.0.0.1"])
def test_in_host_mode_no_other_host_is_a_resource(hosts: Hosts, other: str) -> None:
    """A host that is neither the server's nor a zone's has no resource metadata."""
    assert hosts.get(RESOURCE, other).status_code == 404
