"""What our own APIs say of themselves, and that whoever is turned away learns where to read it."""

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
    own = site.http.get(told(site.http.get(f"{url}/organizations/{site.server.organization_id}/users")))

    document = own.json()
    assert document["resource"] == url
    assert document["bearer_methods_supported"] == ["header"]
    [server] = document["authorization_servers"]
    assert site.http.get(f"{server}/.well-known/oauth-authorization-server").json()["issuer"] == server
    assert own.headers["Access-Control-Allow-Origin"] == "*"
    assert own.headers["Cache-Control"] == "max-age=300"

    for authorization in ({}, {"Authorization": "Bearer wrong"}):
        refused = site.http.get(f"{url}/zones", headers=authorization)
        assert refused.status_code == 401
        whole = site.http.get(told(refused)).json()
        assert whole["resource"] == url
        assert "authorization_servers" not in whole  # that would list the tenants


@pytest.mark.threat("26k")
def test_unknown_organizations_have_none(site: Site) -> None:
    """The one that exists is found by its id alone: labels can be guessed."""
    url = f"{site.server.url}{PATH}/organizations"
    assert site.http.get(f"{url}/{site.server.organization_id}").status_code == 200
    for name in ("0" * 26, "test", "%2e%2e"):
        assert site.http.get(f"{url}/{name}").status_code == 404


@pytest.mark.standard("RFC 9728")
def test_a_zone_speaks_for_itself(site: Site) -> None:
    """By appending and by insertion; userinfo says so in every challenge."""
    bare = site.http.get(f"{site.issuer}/openid/userinfo")
    wrong = site.http.get(f"{site.issuer}/openid/userinfo", headers={"Authorization": "Bearer wrong"})

    appended = site.http.get(told(bare))
    assert bare.status_code == wrong.status_code == 401
    assert told(wrong) == told(bare) == f"{site.issuer}{PATH}"
    assert bare.headers["WWW-Authenticate"].startswith("Bearer resource_metadata=")
    assert wrong.headers["WWW-Authenticate"].startswith('Bearer error="invalid_token"')
    assert appended.json()["resource"] == site.issuer
    assert appended.json()["authorization_servers"] == [site.issuer]
    inserted = site.http.get(f"{site.server.url}{PATH}/z/{site.zone.id}")
    assert inserted.content == appended.content
    assert site.http.get(f"{site.server.url}{PATH}/z/unknown").status_code == 404
