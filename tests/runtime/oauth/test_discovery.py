"""What a zone says of itself, at every address that clients ask at."""

import httpx
import pytest
from tests.runtime.oauth.conftest import Site
from tests.support.factories import company_of
from tests.support.server import serve

from runtime.adapters.keys.signing import VerificationKey

FORMS = [
    "{origin}/z/{zone}/.well-known/oauth-authorization-server",
    "{origin}/z/{zone}/.well-known/openid-configuration",
    "{origin}/.well-known/oauth-authorization-server/z/{zone}",
    "{origin}/.well-known/openid-configuration/z/{zone}",
    "{origin}/z/{zone}//.well-known/oauth-authorization-server",
    "{origin}/z/{zone}//.well-known/openid-configuration",
]


def addresses(site: Site) -> list[str]:
    return [form.format(origin=site.server.url, zone=site.zone.id) for form in FORMS]


@pytest.mark.threat("36g")
@pytest.mark.standard("RFC 8414", "OpenID Connect Discovery")
def test_all_forms_answer_alike(site: Site) -> None:
    """Every form has the same bytes and the same entity tag."""
    answers = [site.http.get(address) for address in addresses(site)]

    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert len({answer.headers["ETag"] for answer in answers}) == 1
    for answer in answers:
        assert answer.headers["Cache-Control"] == "max-age=300"
        assert answer.headers["Content-Type"] == "application/json"
    for address in addresses(site):
        looked_at = site.http.head(address)  # Spec: RFC 9110 section 9.1
        assert (looked_at.status_code, looked_at.content) == (200, b"")
        assert looked_at.headers["ETag"] == answers[0].headers["ETag"]


@pytest.mark.standard("RFC 8414")
def test_metadata_says_what_is_there(site: Site) -> None:
    """Issuer as stored, addresses under it, and nothing advertised that is not served."""
    metadata = site.http.get(addresses(site)[0]).json()

    assert metadata["issuer"] == site.issuer == f"{site.server.url}/z/{site.zone.id}"
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    assert metadata["authorization_response_iss_parameter_supported"] is True
    assert set(metadata["grant_types_supported"]) == {
        "authorization_code",
        "refresh_token",
        "client_credentials",
        "urn:ietf:params:oauth:grant-type:token-exchange",
        "urn:ietf:params:oauth:grant-type:jwt-bearer",
    }
    assert set(metadata["token_endpoint_auth_methods_supported"]) == {
        "client_secret_basic",
        "client_secret_post",
        "private_key_jwt",
        "none",
    }
    algorithms = ["RS256", "PS256", "ES256", "EdDSA"]
    assert metadata["token_endpoint_auth_signing_alg_values_supported"] == algorithms
    assert metadata["id_token_signing_alg_values_supported"] == ["RS256", "ES256"]
    assert metadata["subject_types_supported"] == ["public"]
    assert "openid" in metadata["scopes_supported"]
    proving = ["client_secret_basic", "client_secret_post", "private_key_jwt"]
    assert metadata["introspection_endpoint_auth_methods_supported"] == proving
    assert metadata["revocation_endpoint_auth_methods_supported"] == [*proving, "none"]
    served = {name for name in metadata if name.endswith(("_endpoint", "_uri"))}
    assert served >= {"token_endpoint", "introspection_endpoint", "revocation_endpoint", "revocations_uri"}
    for name in served:
        assert metadata[name].startswith(f"{site.issuer}/")
        assert site.http.request("TRACE", metadata[name]).status_code == 405, f"{name} is served"


@pytest.mark.standard("RFC 8414")
def test_host_header_changes_nothing(site: Site) -> None:
    """The issuer is a stored string: a request cannot name another."""
    plain = site.http.get(addresses(site)[0])
    forged = site.http.get(addresses(site)[0], headers={"Host": "evil.test", "X-Forwarded-Host": "evil.test"})

    assert forged.content == plain.content


def test_entity_tag_saves_the_body(site: Site) -> None:
    """A client that has the document is told so."""
    for address in (addresses(site)[0], f"{site.issuer}/.well-known/jwks.json"):
        tag = site.http.get(address).headers["ETag"]

        again = site.http.get(address, headers={"If-None-Match": tag})

        assert again.status_code == 304
        assert not again.content
        assert site.http.get(address, headers={"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.threat("36g")
@pytest.mark.standard("RFC 7517")
def test_keys_are_public_rsa_and_ec(site: Site) -> None:
    """Every key can verify, and none can sign."""
    answer = site.http.get(f"{site.issuer}/.well-known/jwks.json")

    keys = answer.json()["keys"]
    assert answer.headers["Cache-Control"] == "max-age=300"
    assert {key["kty"] for key in keys} == {"RSA", "EC"}
    for key in keys:
        assert VerificationKey.from_jwk(key).kid == key["kid"]
        assert "d" not in key


@pytest.mark.parametrize("zone", ["unknown", "..", "%2e%2e", "'", "a" * 300])
def test_unknown_zone(site: Site, zone: str) -> None:
    """There is nothing to discover about a zone that does not exist."""
    for form in FORMS[:4]:
        answer = site.http.get(form.format(origin=site.server.url, zone=zone))
        assert answer.status_code == 404
        assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.threat("36a", "36b", "36c", "36f")
@pytest.mark.parametrize("origin", ["https://app.test", "null"])
def test_any_origin_may_read_without_credentials(site: Site, origin: str) -> None:
    """Browser clients of any origin can discover and exchange; cookies are never part of it."""
    asked = ("token", "par", "revoke", "introspect", "register")
    open_to_all = [f"{site.issuer}/oauth/{name}" for name in asked]
    for address in (*addresses(site), f"{site.issuer}/.well-known/jwks.json", *open_to_all):
        preflight = site.http.options(
            address, headers={"Origin": origin, "Access-Control-Request-Method": "POST"}
        )
        assert preflight.status_code == 204
        assert preflight.headers["Access-Control-Allow-Origin"] == "*"
        assert "Access-Control-Allow-Credentials" not in preflight.headers
    answer = site.http.get(addresses(site)[0], headers={"Origin": origin})
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    for address in open_to_all:
        refused = site.http.post(address, headers={"Origin": origin})
        assert refused.status_code in (400, 401, 413), address
        assert refused.headers["Access-Control-Allow-Origin"] == "*"
        assert refused.headers["Cache-Control"] == "no-store"


@pytest.mark.threat("36d", "36e")
@pytest.mark.parametrize("origin", ["https://app.test", "null"])
def test_no_origin_may_read_what_is_for_people_or_managers(site: Site, origin: str) -> None:
    """The management API answers no preflight; what browsers are sent to is kept by no cache."""
    headers = {"Origin": origin, "Access-Control-Request-Method": "GET"}
    closed = (f"{site.server.url}/zones", f"{site.issuer}/oauth/authorize", f"{site.issuer}/oauth/sign-in")
    for address in closed:
        for method in ("OPTIONS", "GET"):
            answer = site.http.request(method, address, headers=headers)
            allowed = [name for name in answer.headers if name.lower().startswith("access-control-")]
            assert allowed == [], (method, address)
    for address in closed[1:]:
        assert site.http.get(address).headers["Cache-Control"] == "no-store"


def test_zone_with_a_host_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    """In host mode the same endpoints stand at the zone's own host, and at no other."""
    folder = tmp_path_factory.mktemp("hosts")
    with serve(folder, zone_url_template="https://{zone_id}.zones.test") as server:
        company = company_of(server)
        zone = server.call(lambda _parts: company.zone())
        host = f"{zone.id}.zones.test"

        def get(path: str, host: str) -> httpx.Response:
            return httpx.get(server.url + path, headers={"Host": host}, trust_env=False)

        for path in ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"):
            answer = get(path, host)
            assert answer.status_code == 200
            assert answer.json()["issuer"] == f"https://{host}"
            assert answer.json()["token_endpoint"] == f"https://{host}/oauth/token"
        assert get("/.well-known/jwks.json", host).status_code == 200
        for other in ("zones.test", "x.zones.test", f"{host}.evil.test", f"evil-{host}", "127.0.0.1"):
            assert get("/.well-known/openid-configuration", other).status_code == 404
        assert get(f"/z/{zone.id}/.well-known/openid-configuration", "127.0.0.1").status_code == 404

        own, resource = server.url.removeprefix("http://"), "/.well-known/oauth-protected-resource"
        challenge = httpx.get(f"{server.url}/zones").headers["WWW-Authenticate"]
        assert f'"{server.url}{resource}"' in challenge
        assert get(resource, own).json()["resource"] == server.url
        assert get(resource, host).json()["resource"] == f"https://{host}"
        assert get(resource, "x.zones.test").status_code == 404
        assert get(resource, "127.0.0.1").status_code == 404
        of_own = httpx.get(f"{server.url}{resource}/organizations/{server.organization_id}").json()
        assert (of_own["resource"], len(of_own["authorization_servers"])) == (server.url, 1)
        preflight = httpx.options(f"{server.url}{resource}", headers={"Origin": "https://inspector.test"})
        assert (preflight.status_code, preflight.headers["Access-Control-Allow-Origin"]) == (204, "*")
