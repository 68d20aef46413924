"""Protected resource metadata (RFC 9728) of the management API and of zones, and challenges that name it."""

import re

import httpx
import pytest
from tests.runtime.oauth.conftest import Site

PATH = "/.well-known/oauth-protected-resource"


def told(answer: httpx.Response) -> str:
    """The address of the document that a challenge names."""
    found = re.search(r'resource_metadata="([^"]+)"', answer.headers["WWW-Authenticate"])
    assert found, answer.headers["WWW-Authenticate"]
    return found[1]


@pytest.mark.standard("RFC 9728")
def test_from_a_challenge_to_the_authorization_server(site: Site) -> None:
    """The management API: without a token 401, then the document, then the organization's home zone."""
    url = site.server.url
    own_path = f"{url}/organizations/{site.server.organization_id}"
    own = site.http.get(told(site.http.get(f"{own_path}/users")))

    document = own.json()
    assert document["resource"] == own_path  # of another resource no client would use it (section 3.3)
    assert document["bearer_methods_supported"] == ["header"]
    [server] = document["authorization_servers"]
    assert site.http.get(f"{server}/.well-known/oauth-authorization-server").json()["issuer"] == server
    assert own.headers["Access-Control-Allow-Origin"] == "*"
    assert own.headers["Cache-Control"] == "max-age=300"


@pytest.mark.standard("RFC 9728")
@pytest.mark.parametrize(
    "authorization", [{}, {"Authorization": "Bearer wrong"}], ids=["no token", "wrong token"]
)
def test_the_document_of_the_whole_api_lists_no_tenants(site: Site, authorization: dict[str, str]) -> None:
    """Outside an organization's paths the challenge names a document without authorization servers."""
    refused = site.http.get(f"{site.server.url}/zones", headers=authorization)

    assert refused.status_code == 401
    whole = site.http.get(told(refused)).json()
    assert whole["resource"] == site.server.url
    assert "authorization_servers" not in whole  # that would list the tenants


@pytest.mark.standard("RFC 6750")
@pytest.mark.parametrize("path", ["/zones", "/policy/bundle"])
def test_a_refused_credential_is_told_from_none(site: Site, path: str) -> None:
    """The challenge has `invalid_token` for a credential that is not valid, and no error without one."""
    url = f"{site.server.url}{path}"
    bare = site.http.get(url)
    assert bare.status_code == 401
    assert bare.headers["WWW-Authenticate"] == f'Bearer resource_metadata="{site.server.url}{PATH}"'

    for scheme in ("Bearer", "DPoP"):
        wrong = site.http.get(url, headers={"Authorization": f"{scheme} wrong"})

        assert wrong.status_code == 401
        assert wrong.headers["WWW-Authenticate"].startswith(f'{scheme} error="invalid_token", ')
        assert ('algs="' in wrong.headers["WWW-Authenticate"]) == (scheme == "DPoP")
        assert told(wrong) == told(bare)


def test_an_organization_has_a_document_under_its_id(site: Site) -> None:
    """The one that exists is found."""
    found = site.http.get(f"{site.server.url}{PATH}/organizations/{site.server.organization_id}")

    assert found.status_code == 200


@pytest.mark.threat("26k")
@pytest.mark.parametrize("name", ["0" * 26, "test", "%2e%2e"], ids=["unknown id", "label", "escaped dots"])
def test_an_organization_is_found_by_its_id_alone(site: Site, name: str) -> None:
    """There is nothing under a label, which can be guessed, nor under an unknown id."""
    assert site.http.get(f"{site.server.url}{PATH}/organizations/{name}").status_code == 404


@pytest.mark.standard("RFC 9728")
def test_a_zone_speaks_for_itself(site: Site) -> None:
    """By insertion, as every challenge of userinfo says, and by appending."""
    bare = site.http.get(f"{site.issuer}/openid/userinfo")
    wrong = site.http.get(f"{site.issuer}/openid/userinfo", headers={"Authorization": "Bearer wrong"})

    inserted = site.http.get(told(bare))
    assert bare.status_code == wrong.status_code == 401
    assert told(wrong) == told(bare) == f"{site.server.url}{PATH}/z/{site.zone.id}"
    assert bare.headers["WWW-Authenticate"].startswith("Bearer resource_metadata=")
    assert wrong.headers["WWW-Authenticate"].startswith('Bearer error="invalid_token"')
    assert inserted.json()["resource"] == site.issuer
    assert inserted.json()["authorization_servers"] == [site.issuer]
    assert "openid" in inserted.json()["scopes_supported"]
    assert site.http.get(f"{site.issuer}{PATH}").content == inserted.content
    assert site.http.get(f"{site.server.url}{PATH}/z/unknown").status_code == 404


@pytest.mark.standard("RFC 9728", "MCP authorization")
def test_no_resource_asks_for_offline_access(site: Site) -> None:
    """Refresh tokens are for client and authorization server: only the latter names the scope."""
    server = site.http.get(f"{site.issuer}/.well-known/oauth-authorization-server").json()
    resource = site.http.get(f"{site.issuer}{PATH}").json()

    assert set(server["scopes_supported"]) - set(resource["scopes_supported"]) == {"offline_access"}
