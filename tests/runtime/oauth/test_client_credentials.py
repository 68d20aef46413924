"""An application's own token: for a resource it declares, or for the zone itself."""

import jwt
import pytest
from tests.runtime.oauth.conftest import Chain, Site


def post(site: Site, chain: Chain, **more: str) -> dict[str, object]:
    answer = site.post({"grant_type": "client_credentials", **chain.agent.form, **more})
    body: dict[str, object] = answer.json()
    return body


def claims_of(answer: dict[str, object]) -> dict[str, object]:
    claims: dict[str, object] = jwt.decode(str(answer["access_token"]), options={"verify_signature": False})
    return claims


@pytest.mark.standard("OAuth 2.1", "RFC 9068")
def test_token_for_a_declared_resource(site: Site, chain: Chain) -> None:
    """The application is subject and client; nobody acts for anybody, and nobody has signed in."""
    answer = post(site, chain, resource="https://api.test/", scope="write")

    claims = claims_of(answer)
    assert claims["sub"] == "agent"
    assert claims["aud"] == "https://api.test"
    assert claims["client_id"] == chain.agent.client_id
    assert claims["scope"] == answer["scope"] == "write"
    assert not {"act", "auth_time", "acr"} & claims.keys()
    assert answer["token_type"] == "Bearer"
    assert "refresh_token" not in answer


def test_audience_alone_names_the_resource(site: Site, chain: Chain) -> None:
    """Clients of other providers send `audience` where OAuth has `resource`: it means the same here."""
    named = claims_of(post(site, chain, resource="https://api.test"))
    meant = claims_of(post(site, chain, audience="https://api.test/"))

    assert {name: named[name] for name in ("sub", "aud", "scope")} == {
        name: meant[name] for name in ("sub", "aud", "scope")
    }


@pytest.mark.deviation("empty-scope")
def test_token_for_the_zone_itself(site: Site, chain: Chain) -> None:
    """Without a resource the audience is the issuer, and there is no scope."""
    answer = post(site, chain)

    assert claims_of(answer)["aud"] == site.issuer
    assert "scope" not in claims_of(answer)
    assert "scope" not in answer


@pytest.mark.parametrize(
    "asked", [{"scope": "openid"}, {"audience": "https://nowhere.test"}, {"audience": "https://late.test"}]
)
def test_who_names_no_resource_is_told_how(site: Site, chain: Chain, asked: dict[str, str]) -> None:
    """Also where `audience` means none, or one that the application may not have: in the same words."""
    if asked.get("audience") == "https://late.test":
        site.make(site.company.resource(site.zone, "https://late.test"))

    assert "send `resource`" in post(site, chain, **asked)["error_description"]


@pytest.mark.standard("RFC 6749")
@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"resource": "https://nowhere.test"}, "invalid_target"),
        ({"resource": "https://undeclared.test"}, "invalid_target"),
        ({"resource": "https://api.test", "scope": "admin"}, "invalid_scope"),
        ({"resource": "https://api.test", "audience": "https://other.test"}, "invalid_target"),
        ({"scope": "openid"}, "invalid_scope"),
        ({"audience": "https://nowhere.test"}, "invalid_target"),
        ({"audience": "https://another-undeclared.test"}, "invalid_target"),
        ({"audience": "https://api.test", "scope": "admin"}, "invalid_scope"),
    ],
)
def test_what_an_exchange_refuses_is_refused_here_too(
    site: Site, chain: Chain, more: dict[str, str], error: str
) -> None:
    """Unknown and undeclared resources, scopes that there are not, and two targets that differ."""
    for undeclared in (named for named in more.values() if "undeclared" in named):
        site.make(site.company.resource(site.zone, undeclared))

    assert post(site, chain, **more)["error"] == error


def test_a_policy_may_forbid_direct_access_alone(site: Site) -> None:
    """Direct access is an action of its own, so a zone can forbid it alone."""
    company = site.company
    zone = site.make(company.zone("Direct"))
    api = site.make(company.resource(zone, "https://api.test"))
    robot = site.make(company.app(zone, "robot", dependencies=[api]))
    sent = {"grant_type": "client_credentials", "resource": "https://api.test", **robot.form}
    address = f"{zone.protocols.oauth2.issuer}/oauth/token"
    assert site.http.post(address, data=sent).status_code == 200

    site.make(company.policies(zone, '@id("users-only") permit (principal is User, action, resource);'))

    assert site.http.post(address, data=sent).json()["reason"] == "policy_denied"
