"""The token endpoint over HTTP: what goes over the wire when an exchange succeeds and when it is refused."""

import base64
from urllib.parse import urlencode

import httpx
import jwt
import pytest
from tests.runtime.oauth.conftest import Chain, Site

from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE


def form(chain: Chain, **change: str) -> dict[str, str]:
    return {
        "grant_type": GRANT_TYPE,
        "subject_token": chain.subject,
        "subject_token_type": ACCESS_TOKEN,
        "resource": chain.api.identifier,
        "scope": "read",
        **chain.agent.form,
        **change,
    }


@pytest.mark.threat("36f")
@pytest.mark.standard("RFC 8693")
def test_answer_on_the_wire(site: Site, chain: Chain) -> None:
    """JSON with the members of the interface, not to be stored; the published keys alone verify it."""
    answer = site.post(form(chain))

    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Content-Type"] == "application/json"
    body = answer.json()
    assert set(body) == {"access_token", "issued_token_type", "token_type", "expires_in", "scope"}
    keys = jwt.PyJWKSet.from_dict(site.http.get(f"{site.issuer}/.well-known/jwks.json").json())
    header = jwt.get_unverified_header(body["access_token"])
    claims = jwt.decode(
        body["access_token"],
        keys[header["kid"]],
        ["RS256", "ES256"],
        audience="https://api.test",
        issuer=site.issuer,
    )
    assert header["typ"] == "at+jwt"
    assert claims["act"] == {"sub": "agent"}


def test_audience_alone_is_answered_with_the_name_of_the_right_parameter(site: Site, chain: Chain) -> None:
    """The request that names its target in `resource` succeeds."""
    sent = form(chain)
    assert site.post(sent).status_code == 200

    refused = site.post({**sent, "resource": "", "audience": "https://api.test"}).json()

    assert refused["error"] == "invalid_request"
    assert refused["error_description"] == "name the target in `resource`; `audience` may only repeat it"


@pytest.mark.standard("RFC 6749")
def test_basic_authentication(site: Site, chain: Chain) -> None:
    """The same with the secret in the header."""
    sent = {name: value for name, value in form(chain).items() if not name.startswith("client")}

    answer = site.post(sent, auth=(chain.agent.client_id, chain.agent.secret or ""))

    assert answer.status_code == 200
    refused = site.post(sent, auth=(chain.agent.client_id, "wrong"))
    assert refused.status_code == 401
    assert refused.headers["WWW-Authenticate"].startswith("Basic ")
    assert "WWW-Authenticate" not in site.post(form(chain, client_secret="wrong")).headers
    assert answer.request.headers["Authorization"]
    twice = [("Authorization", answer.request.headers["Authorization"])] * 2
    assert site.post(sent, headers=twice).json()["error"] == "invalid_client"


@pytest.mark.standard("RFC 8693", "RFC 6749")
@pytest.mark.parametrize(
    ("change", "status", "error"),
    [
        ({"subject_token": "garbage"}, 400, "invalid_request"),
        ({"subject_token": "eyJhbGciOiJub25lIn0.e30.c2ln"}, 400, "invalid_grant"),
        ({"subject_token_type": "x"}, 400, "invalid_request"),
        ({"resource": "https://nowhere.test"}, 400, "invalid_target"),
        ({"resource": ""}, 400, "invalid_request"),
        ({"scope": "admin"}, 400, "invalid_scope"),
        ({"scope": 'a"b'}, 400, "invalid_scope"),
        ({"client_secret": "wrong"}, 401, "invalid_client"),
        ({"client_id": "nobody"}, 401, "invalid_client"),
        ({"grant_type": "password"}, 400, "unsupported_grant_type"),
        ({"grant_type": ""}, 400, "invalid_request"),
        ({"requested_token_type": "x"}, 400, "invalid_request"),
    ],
)
def test_refusals(site: Site, chain: Chain, change: dict[str, str], status: int, error: str) -> None:
    """Each refusal has its code and status, is not stored, and holds no token."""
    assert site.post(form(chain)).status_code == 200

    answer = site.post(form(chain, **change))

    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert answer.json()["error_description"]
    assert answer.headers["Cache-Control"] == "no-store"
    assert "token" not in answer.json()


@pytest.mark.threat("25d")
def test_secrets_do_not_belong_in_the_address(site: Site, chain: Chain) -> None:
    """Addresses are logged: a request with parameters in the query is refused."""
    query = urlencode(chain.agent.form)
    answer = site.http.post(f"{site.issuer}/oauth/token?{query}", data=form(chain))

    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


@pytest.mark.threat("31a", "31b", "31c", "31d", "31e", "31l", "31o", "31r")
@pytest.mark.standard("OAuth 2.1")
def test_forms_that_readers_disagree_about(site: Site, chain: Chain) -> None:
    """Duplicates, other content types, broken UTF-8, NUL and oversize are refused before all else."""
    good = urlencode(form(chain))

    def post(body: str | bytes, content_type: str = "application/x-www-form-urlencoded") -> httpx.Response:
        return site.http.post(
            f"{site.issuer}/oauth/token", content=body, headers={"Content-Type": content_type}
        )

    assert post(good).status_code == 200
    assert post(good, "application/x-www-form-urlencoded; charset=UTF-8").status_code == 200
    assert post(f"{good}&unknown=ignored&empty=").status_code == 200
    for name in ("client_id", "grant_type", "subject_token", "scope"):
        assert post(f"{good}&{name}=x").json()["error"] == "invalid_request"
        assert post(f"{good}&{name}=").json()["error"] == "invalid_request"
        assert post(f"{good}&{name.replace('_', '%5F')}=x").json()["error"] == "invalid_request"
    assert post(good.replace("grant_type=", "grant_type[]=")).json()["error"] == "invalid_request"
    for bad in ("a=%ff", b"a=\xff", "a=%00"):
        assert post(bad).json()["error"] == "invalid_request"
    assert post("&".join(f"p{number}=1" for number in range(10_000))).status_code in (400, 413)
    assert post("a=" + "x" * 100_000).status_code == 413
    assert post(good + "&x=" + "y" * 100_000).json()["error"] == "invalid_request"
    for content_type in ("application/json", "multipart/form-data; boundary=x", "text/plain", ""):
        assert post(good, content_type).status_code == 400
    for answer, status in (
        (site.http.get(f"{site.issuer}/oauth/token"), 405),
        (site.http.put(f"{site.issuer}/oauth/token", content=good), 405),
        (post("a=" + "x" * 3_000_000), 413),  # more than is read at all
    ):
        assert (answer.status_code, answer.json()["error"]) == (status, "invalid_request")
        assert answer.headers["Cache-Control"] == "no-store"
    assert site.http.get(f"{site.issuer}/oauth/token").headers["Allow"] == "POST, OPTIONS"


def test_denied_by_policy_and_by_the_user(site: Site) -> None:
    """One code for both, and the reason tells whether asking the user helps."""
    company = site.company
    zone = site.make(company.zone("Denials"))
    api = site.make(company.resource(zone, "https://api.test"))
    shy = site.make(company.app(zone, "shy", consent="required", dependencies=[api]))
    plain = site.make(company.app(zone, "plain", dependencies=[api]))
    person = site.make(company.person(zone, "ann@acme.test"))
    issuer = str(zone.protocols.oauth2.issuer)

    def exchange(app: object) -> httpx.Response:
        chain = Chain(api, app, person, site.make(company.token(zone, app, person)))  # type: ignore[arg-type]
        sent = {name: value for name, value in form(chain).items() if name != "scope"}
        return site.http.post(f"{issuer}/oauth/token", data=sent)

    assert exchange(plain).status_code == 200
    asked = exchange(shy).json()
    assert asked["error"] == "access_denied"
    assert asked["reason"] == "user_authorization_required"
    assert asked["error_uri"].startswith(f"{issuer}/oauth/connect?")
    page = site.http.get(asked["error_uri"])
    assert page.status_code == 200
    assert "Your permission is needed" in page.text

    site.make(company.policies(zone, '@id("no") forbid (principal, action, resource);'))

    denied = exchange(plain)
    assert denied.status_code == 400
    assert denied.json()["reason"] == "policy_denied"
    assert "error_uri" not in denied.json()


def test_unknown_zone(site: Site, chain: Chain) -> None:
    """A zone that does not exist has no token endpoint."""
    answer = site.http.post(f"{site.server.url}/z/nowhere/oauth/token", data=form(chain))

    assert answer.status_code == 404


def test_guessing_is_answered_with_retry_after(site: Site) -> None:
    """Whoever guesses too often is told when to come back."""
    victim = site.make(site.company.app(site.zone, "guessed"))
    sent = {"grant_type": "client_credentials", "client_id": victim.client_id, "client_secret": "wrong"}
    answers = [site.post(sent) for _ in range(60)]

    slowed = [answer for answer in answers if answer.status_code == 429]
    assert slowed
    assert slowed[-1].json()["error"] == "temporarily_unavailable"
    assert int(slowed[-1].headers["Retry-After"]) >= 1


@pytest.mark.threat("12c")
@pytest.mark.standard("RFC 6750")
def test_userinfo_takes_only_this_zones_tokens(site: Site, chain: Chain) -> None:
    """A token of another zone, and a token for a resource, open nothing at the zone itself."""
    company = site.company
    twin = site.make(company.zone("Twin"))
    twin_agent = site.make(company.app(twin, "agent"))
    twin_ann = site.make(company.person(twin, "ann@acme.test"))
    foreign = site.make(company.token(twin, twin_agent, twin_ann))
    exchanged = site.post(form(chain)).json()["access_token"]

    def userinfo(token: str) -> httpx.Response:
        return site.http.get(f"{site.issuer}/openid/userinfo", headers={"Authorization": f"Bearer {token}"})

    assert userinfo(chain.subject).json()["sub"] == "ann@acme.test"
    for token in (foreign, exchanged, "garbage", base64.b64encode(b"x").decode()):
        answer = userinfo(token)
        assert answer.status_code == 401
        assert 'error="invalid_token"' in answer.headers["WWW-Authenticate"]
    bare = site.http.get(f"{site.issuer}/openid/userinfo")
    assert bare.status_code == 401
    assert "error" not in bare.headers["WWW-Authenticate"]
