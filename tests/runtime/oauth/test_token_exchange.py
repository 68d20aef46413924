"""The token endpoint over HTTP: what goes over the wire when an exchange succeeds and when it is refused."""

import base64
from urllib.parse import urlencode

import httpx
import jwt
import pytest
from tests.runtime.oauth.conftest import Chain, Site
from tests.support.scene import acting

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
    assert acting(claims) == ("agent",)


def test_audience_alone_is_answered_with_the_name_of_the_right_parameter(site: Site, chain: Chain) -> None:
    """The request that names its target in `resource` succeeds."""
    sent = form(chain)
    assert site.post(sent).status_code == 200

    refused = site.post({**sent, "resource": "", "audience": "https://api.test"}).json()

    assert refused["error"] == "invalid_request"
    assert refused["error_description"] == "name the target in `resource`; `audience` may only repeat it"


@pytest.mark.standard("RFC 6749")
@pytest.mark.deviation("client-authentication")
def test_the_secret_may_come_in_the_header(site: Site, chain: Chain) -> None:
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
def test_each_refusal_has_its_code_and_no_token(
    site: Site, chain: Chain, change: dict[str, str], status: int, error: str
) -> None:
    """Each refusal has its code and status, is not stored, and holds no token."""
    assert site.post(form(chain)).status_code == 200

    answer = site.post(form(chain, **change))

    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert answer.json()["error_description"]
    assert answer.headers["Cache-Control"] == "no-store"
    assert "token" not in answer.json()


@pytest.mark.deviation("malformed-subject-token")
@pytest.mark.parametrize(
    ("token", "error"),
    [
        ("abc", "invalid_request"),
        ("a.b", "invalid_request"),
        ("{}.{}.{}", "invalid_request"),
        ("", "invalid_request"),
    ],
)
def test_a_subject_token_that_is_no_jws_is_malformed(
    site: Site, chain: Chain, token: str, error: str
) -> None:
    """A client tells its own mistake from a session that has ended."""
    assert site.post(form(chain)).status_code == 200
    header, claims, signature = form(chain)["subject_token"].split(".")
    other = ("B" if signature[0] == "A" else "A") + signature[1:]
    forged = site.post(form(chain, subject_token=f"{header}.{claims}.{other}"))
    assert forged.json()["error"] == "invalid_grant"

    answer = site.post(form(chain, subject_token=token))

    assert (answer.status_code, answer.json()["error"]) == (400, error)


@pytest.mark.threat("25d")
def test_secrets_do_not_belong_in_the_address(site: Site, chain: Chain) -> None:
    """Addresses are logged: a request with parameters in the query is refused."""
    query = urlencode(chain.agent.form)
    answer = site.http.post(f"{site.issuer}/oauth/token?{query}", data=form(chain))

    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("client-request-id=0b0f2a3c-5d1e-4c8a-9a55-3f3c0a7d9e10", 200),
        ("client-request-id=0b0f2a3c&client_secret=guess", 400),
        ("client-request-id=a%20secret", 400),
        ("number=1", 400),
    ],
)
def test_the_number_of_a_request_may_be_in_its_address(
    site: Site, chain: Chain, query: str, status: int
) -> None:
    """MSAL for browsers and Node.js sends it with every token request."""
    assert site.http.post(f"{site.issuer}/oauth/token?{query}", data=form(chain)).status_code == status


FORM = "application/x-www-form-urlencoded"


def post_raw(site: Site, body: str | bytes, content_type: str = FORM) -> httpx.Response:
    """The answer of the token endpoint to bytes that may be no form."""
    return site.http.post(f"{site.issuer}/oauth/token", content=body, headers={"Content-Type": content_type})


@pytest.fixture(scope="module")
def good(chain: Chain) -> str:
    """A form that succeeds, as the bytes of a request."""
    return urlencode(form(chain))


@pytest.mark.standard("OAuth 2.1")
def test_a_good_form_succeeds(site: Site, good: str) -> None:
    """What the tests below spoil is in order by itself, with or without a charset."""
    assert post_raw(site, good).status_code == 200
    assert post_raw(site, good, f"{FORM}; charset=UTF-8").status_code == 200


@pytest.mark.standard("OAuth 2.1")
def test_unknown_and_empty_parameters_are_ignored(site: Site, good: str) -> None:
    """A parameter that nobody knows, or one without a value, changes nothing."""
    assert post_raw(site, f"{good}&unknown=ignored&empty=").status_code == 200


@pytest.mark.threat("31a", "31b", "31c")
@pytest.mark.standard("OAuth 2.1")
@pytest.mark.parametrize("again", ["{name}=x", "{name}=", "{escaped}=x"], ids=["value", "empty", "escaped"])
@pytest.mark.parametrize("name", ["client_id", "grant_type", "subject_token", "scope"])
def test_a_parameter_that_stands_twice_is_refused(site: Site, good: str, name: str, again: str) -> None:
    """Also when the second one is empty, and when an underscore in its name is percent-encoded."""
    second = again.format(name=name, escaped=name.replace("_", "%5F"))

    assert post_raw(site, f"{good}&{second}").json()["error"] == "invalid_request"


@pytest.mark.threat("31d")
def test_a_parameter_written_as_a_list_is_not_that_parameter(site: Site, good: str) -> None:
    """`grant_type[]=` is no `grant_type`."""
    listed = good.replace("grant_type=", "grant_type[]=")

    assert post_raw(site, listed).json()["error"] == "invalid_request"


@pytest.mark.threat("31o")
@pytest.mark.parametrize(
    "bad", ["a=%ff", b"a=\xff", "a=%00"], ids=["escaped broken UTF-8", "broken UTF-8", "NUL"]
)
def test_a_form_that_is_no_text_is_refused(site: Site, bad: str | bytes) -> None:
    """Broken UTF-8, escaped or not, and NUL."""
    assert post_raw(site, bad).json()["error"] == "invalid_request"


@pytest.mark.threat("31l")
def test_ten_thousand_parameters_are_refused(site: Site) -> None:
    """They are too many, or too many bytes, whichever is noticed first."""
    many = "&".join(f"p{number}=1" for number in range(10_000))

    assert post_raw(site, many).status_code in (400, 413)


@pytest.mark.threat("31r")
def test_a_form_above_the_cap_is_answered_413(site: Site) -> None:
    """A hundred thousand bytes are more than a form may have."""
    assert post_raw(site, "a=" + "x" * 100_000).status_code == 413


@pytest.mark.threat("31r")
def test_a_good_form_above_the_cap_is_refused(site: Site, good: str) -> None:
    """What else the body holds does not matter."""
    assert post_raw(site, good + "&x=" + "y" * 100_000).json()["error"] == "invalid_request"


@pytest.mark.threat("31e")
@pytest.mark.parametrize(
    "content_type",
    ["application/json", "multipart/form-data; boundary=x", "text/plain", ""],
    ids=["JSON", "multipart", "text", "none"],
)
def test_another_content_type_is_refused(site: Site, good: str, content_type: str) -> None:
    """The bytes of a good form are none under another content type."""
    assert post_raw(site, good, content_type).status_code == 400


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_another_method_is_answered_405(site: Site, good: str, method: str) -> None:
    """The token endpoint takes POST alone: an OAuth error that is kept by no cache."""
    answer = site.http.request(
        method, f"{site.issuer}/oauth/token", content=good if method == "PUT" else None
    )

    assert (answer.status_code, answer.json()["error"]) == (405, "invalid_request")
    assert answer.headers["Cache-Control"] == "no-store"


def test_the_answer_to_another_method_names_the_right_ones(site: Site) -> None:
    """POST, and OPTIONS for preflights."""
    assert site.http.get(f"{site.issuer}/oauth/token").headers["Allow"] == "POST, OPTIONS"


@pytest.mark.threat("31r")
def test_a_body_larger_than_is_read_at_all_is_answered_413(site: Site) -> None:
    """Three megabytes: an OAuth error that is kept by no cache."""
    answer = post_raw(site, "a=" + "x" * 3_000_000)

    assert (answer.status_code, answer.json()["error"]) == (413, "invalid_request")
    assert answer.headers["Cache-Control"] == "no-store"


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
    assert page.status_code == 303
    assert page.headers["location"].startswith(f"{issuer}/oauth/sign-in")

    site.make(company.policies(zone, '@id("no") forbid (principal, action, resource);'))

    denied = exchange(plain)
    assert denied.status_code == 400
    assert denied.json()["reason"] == "policy_denied"
    assert "error_uri" not in denied.json()


def test_an_unknown_zone_has_no_token_endpoint(site: Site, chain: Chain) -> None:
    """A zone that does not exist has no token endpoint."""
    answer = site.http.post(f"{site.server.url}/z/nowhere/oauth/token", data=form(chain))

    assert answer.status_code == 404


@pytest.mark.usefixtures("one_window")
def test_guessing_is_answered_with_retry_after(site: Site) -> None:
    """Whoever guesses too often is told when to come back."""
    zone = site.make(site.company.zone("Guesses"))  # where no other client of this address has to wait
    victim = site.make(site.company.app(zone, "guessed"))
    sent = {"grant_type": "client_credentials", "client_id": victim.client_id, "client_secret": "wrong"}
    address = f"{zone.protocols.oauth2.issuer}/oauth/token"
    answers = [site.http.post(address, data=sent) for _ in range(60)]

    slowed = [answer for answer in answers if answer.status_code == 429]
    assert slowed
    assert slowed[-1].json()["error"] == "temporarily_unavailable"
    assert int(slowed[-1].headers["Retry-After"]) >= 1


def userinfo(site: Site, token: str | None = None) -> httpx.Response:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return site.http.get(f"{site.issuer}/openid/userinfo", headers=headers)


@pytest.fixture(scope="module")
def refused_at_userinfo(site: Site, chain: Chain) -> dict[str, str]:
    """Tokens that are not for userinfo of this zone; the foreign one has the same names in it."""
    company = site.company
    twin = site.make(company.zone("Twin"))
    twin_agent = site.make(company.app(twin, "agent"))
    twin_ann = site.make(company.person(twin, "ann@acme.test"))
    return {
        "another zone": site.make(company.token(twin, twin_agent, twin_ann)),
        "a resource": site.post(form(chain)).json()["access_token"],
        "garbage": "garbage",
        "Base64": base64.b64encode(b"x").decode(),
    }


@pytest.mark.standard("RFC 6750")
def test_userinfo_takes_a_token_of_its_zone(site: Site, chain: Chain) -> None:
    """The token of a sign-in says who it is about."""
    assert userinfo(site, chain.subject).json()["sub"] == "ann@acme.test"


@pytest.mark.threat("12c")
@pytest.mark.standard("RFC 6750")
@pytest.mark.parametrize("which", ["another zone", "a resource", "garbage", "Base64"])
def test_userinfo_refuses_every_other_token(
    site: Site, refused_at_userinfo: dict[str, str], which: str
) -> None:
    """A token of another zone, one for a resource, and what is none: 401 `invalid_token`."""
    answer = userinfo(site, refused_at_userinfo[which])

    assert answer.status_code == 401
    assert 'error="invalid_token"' in answer.headers["WWW-Authenticate"]


@pytest.mark.standard("RFC 6750")
def test_userinfo_without_a_token_names_no_error(site: Site) -> None:
    """Who sends no credentials is asked for them, and told of no mistake."""
    bare = userinfo(site)

    assert bare.status_code == 401
    assert "error" not in bare.headers["WWW-Authenticate"]
