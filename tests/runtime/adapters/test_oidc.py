"""Outside providers, at a provider that is faithful unless a test makes it lie."""

import asyncio
import base64
import json
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlsplit

import pytest

from runtime.adapters.identity_providers.answers import ProviderRefused
from runtime.adapters.identity_providers.oidc import OpenIDProviders
from runtime.adapters.identity_providers.settings import ProviderSettings, settings_of
from runtime.adapters.keys.jose import parse
from runtime.adapters.keys.remote import RemoteKeys
from runtime.adapters.keys.signing import SigningKey
from runtime.adapters.outbound import Fetched, HttpAnswer, OutboundFailed
from runtime.adapters.upstream_oauth.client_authentication import AssertionSigner
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.values import TokenEndpointAuthMethod
from runtime.domain.oauth.claims import at_hash
from runtime.domain.oauth.pkce import challenge_of

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SIGNER = AssertionSigner(NOW)
ISSUER = "https://idp.example/tenant"
RSA, EC = SigningKey.generate("RS256"), SigningKey.generate("ES256")


class FakeOutbound:
    """Answers instead of the network: documents by address, and one answer for every form."""

    def __init__(self):
        self.documents = {
            f"{ISSUER}/.well-known/openid-configuration": {
                "issuer": ISSUER,
                "authorization_endpoint": "https://idp.example/authorize?keep=1",
                "token_endpoint": "https://idp.example/token",
                "jwks_uri": "https://idp.example/jwks",
                "userinfo_endpoint": "https://idp.example/userinfo",
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["client_secret_post"],
            },
            "https://idp.example/jwks": {"keys": [RSA.public_jwk, EC.public_jwk]},
            "https://idp.example/userinfo": {"sub": "u1", "email": "ada@example.test"},
        }
        self.answer = (200, {"access_token": "at", "token_type": "Bearer", "expires_in": 300, "scope": "a b"})
        self.fetched, self.posted = [], []

    @property
    def metadata(self):
        return self.documents[f"{ISSUER}/.well-known/openid-configuration"]

    async def get_json(self, url, *, max_bytes=None, partition=""):
        self.fetched.append(url)
        if url not in self.documents:
            raise OutboundFailed("answered 404", temporary=False, status=404)
        return Fetched(self.documents[url], {})

    async def get_json_with_bearer(self, url, token, *, partition=""):
        return await self.get_json(url)

    async def post(self, url, body, *, headers, max_bytes=None, partition="", certificate=None):
        self.posted.append((url, dict(parse_qsl(body.decode())), headers))
        status, document = self.answer
        return HttpAnswer(status, {}, b"" if document is None else json.dumps(document).encode())


@pytest.fixture
def outbound():
    return FakeOutbound()


@pytest.fixture
def providers(outbound):
    return OpenIDProviders(outbound, RemoteKeys(outbound))


def settings(**changes):
    return ProviderSettings(**{"issuer": ISSUER, "client_id": "zone", "client_secret": "s3cret", **changes})


def id_token(key=RSA, **changes):
    at = int(NOW.timestamp())
    plain = {"iss": ISSUER, "sub": "u1", "aud": "zone", "iat": at, "exp": at + 60, "nonce": "n1"}
    claims = {name: value for name, value in {**plain, **changes}.items() if value is not None}
    return key.sign(claims, typ="JWT")


async def authorize(providers, given, **changes):
    asked = {"redirect_uri": "https://zone/cb", "state": "st", "verifier": "v" * 43, "nonce": "n1", **changes}
    url = await providers.authorization_url(given, **asked)
    return url, dict(parse_qsl(urlsplit(url).query))


async def identify(providers, outbound, token, given=None):
    given = given or settings()
    outbound.answer = (200, {"access_token": "at", "id_token": token})
    tokens = await providers.redeem(
        given, code="c", verifier="v" * 43, redirect_uri="https://zone/cb", signer=SIGNER
    )
    return await providers.identify(given, tokens, nonce="n1", now=NOW)


async def test_authorization_request_says_everything(providers):
    """State, nonce, PKCE, the OpenID scopes with the configured ones, and what the address had before."""
    url, query = await authorize(providers, settings(openid_scopes=("groups", "email")), login_hint="ada")

    assert url.startswith("https://idp.example/authorize?keep=1&")
    assert query == {
        "keep": "1",
        "response_type": "code",
        "client_id": "zone",
        "redirect_uri": "https://zone/cb",
        "state": "st",
        "nonce": "n1",
        "login_hint": "ada",
        "scope": "openid profile email groups",
        "code_challenge": challenge_of("v" * 43),
        "code_challenge_method": "S256",
    }


async def test_authorization_request_follows_the_configuration(providers):
    """Other names for scope and resource, another separator, more parameters, no PKCE where unknown."""
    given = settings(
        authorization_endpoint="https://idp.example/v2/authorize",
        authorization_parameters={"team": "T1", "state": "fixed", "redirect_uri": "https://evil.test"},
        authorization_resource_enabled=True,
        authorization_resource_parameter="audience",
        scope_parameter="user_scope",
        scope_separator=",",
        code_challenge_methods_supported=("plain",),
    )

    url, query = await authorize(
        providers, given, nonce=None, scopes=("chat:write", "chat:read"), resources=("https://api",)
    )

    assert url.startswith("https://idp.example/v2/authorize?")
    assert query["user_scope"] == "chat:write,chat:read"
    assert query["audience"] == "https://api"
    assert query["team"] == "T1"
    assert query["state"] == "st"
    assert query["redirect_uri"] == "https://zone/cb"
    assert not query.keys() & {"nonce", "code_challenge", "scope"}


async def test_configured_addresses_need_no_discovery(providers, outbound):
    """A provider that publishes nothing can be configured completely."""
    given = settings(authorization_endpoint="https://a.example/a", token_endpoint="https://a.example/t")

    await authorize(providers, given, nonce=None)
    await providers.redeem(given, code="c", verifier="v" * 43, redirect_uri="https://zone/cb", signer=SIGNER)

    assert outbound.fetched == []
    assert outbound.posted[0][0] == "https://a.example/t"


@pytest.mark.threat("4f")
@pytest.mark.standard("OpenID Connect Discovery")
@pytest.mark.parametrize("issuer", ["https://idp.example/tenant/", "https://IDP.example/tenant", None])
async def test_discovery_of_another_issuer_is_refused(providers, outbound, issuer):
    """The published issuer is byte for byte the configured one."""
    outbound.metadata["issuer"] = issuer

    with pytest.raises(ProviderRefused) as refusal:
        await providers.endpoints(settings())
    assert refusal.value.code == "issuer_mismatch"


@pytest.mark.threat("4c")
async def test_a_callback_from_another_issuer_is_refused(providers, outbound):
    """`iss` must be right when it is there, and be there when the provider says it sends it."""
    await providers.check_callback(settings(), ISSUER)
    await providers.check_callback(settings(), None)
    with pytest.raises(ProviderRefused):
        await providers.check_callback(settings(), "https://evil.test")
    assert outbound.posted == []


@pytest.mark.threat("4d")
async def test_an_advertised_issuer_may_not_be_missing(providers, outbound):
    """A provider that advertises RFC 9207 and a callback without `iss`: somebody took it out."""
    outbound.metadata["authorization_response_iss_parameter_supported"] = True

    with pytest.raises(ProviderRefused):
        await providers.check_callback(settings(), None)


@pytest.mark.parametrize(
    ("methods", "secret", "in_body", "in_header"),
    [
        (["client_secret_post"], "s:3 é", True, False),
        (["client_secret_post", "client_secret_basic"], "s:3 é", False, True),
        (None, "s:3 é", False, True),
        (["none"], None, False, False),
    ],
)
async def test_authenticates_as_the_provider_wants(providers, outbound, methods, secret, in_body, in_header):
    """Basic unless the provider takes only the body; a public client sends its id alone."""
    outbound.metadata["token_endpoint_auth_methods_supported"] = methods

    tokens = await providers.redeem(
        settings(client_secret=secret),
        code="c",
        verifier="v" * 43,
        redirect_uri="https://zone/cb",
        signer=SIGNER,
    )

    _, fields, headers = outbound.posted[0]
    assert fields["code_verifier"] == "v" * 43
    assert ("client_secret" in fields) is in_body
    assert ("authorization" in headers) is in_header
    if in_header:
        assert base64.b64decode(headers["authorization"].split()[1]) == b"zone:s%3A3+%C3%A9"
    else:
        assert fields["client_id"] == "zone"
    assert (tokens.access_token, tokens.expires_in_seconds, tokens.scopes) == ("at", 300, {"a", "b"})
    assert "access_token" not in repr(tokens)


@pytest.mark.parametrize("pointer", ["authed_user.access_token", "/authed_user/access_token"])
async def test_finds_the_access_token_where_configured(providers, outbound, pointer):
    """Some providers put the user's token deeper in the answer."""
    outbound.answer = (200, {"access_token": "bot", "authed_user": {"access_token": "user"}})

    given = settings(token_response_access_token_pointer=pointer)
    tokens = await providers.redeem(
        given, code="c", verifier="v" * 43, redirect_uri="https://zone/cb", signer=SIGNER
    )

    assert tokens.access_token == "user"
    assert tokens.refresh_token is None


async def test_a_code_is_redeemed_with_a_signed_assertion(providers, outbound):
    """Where the provider takes `private_key_jwt`, the zone's own key signs, and no secret is sent."""
    given = settings(token_endpoint_auth_method=TokenEndpointAuthMethod.PRIVATE_KEY_JWT)
    proof = {"code": "c", "verifier": "v" * 43, "redirect_uri": "https://zone/cb"}

    await providers.redeem(given, **proof, signer=AssertionSigner(NOW, RSA))

    _, fields, headers = outbound.posted[0]
    assert fields["client_assertion"].count(".") == 2
    assert "client_secret" not in fields
    assert "authorization" not in headers
    with pytest.raises(ProviderRefused):
        await providers.redeem(given, **proof, signer=SIGNER)


@pytest.mark.threat("46j")
async def test_a_sign_in_gives_a_configured_endpoint_no_assertion_for_the_issuer(providers, outbound):
    """The discovered token endpoint gets one for the issuer; a configured one gets one for its own URL."""
    given = settings(token_endpoint_auth_method=TokenEndpointAuthMethod.PRIVATE_KEY_JWT)
    proof = {"code": "c", "verifier": "v" * 43, "redirect_uri": "https://zone/cb"}
    elsewhere = "https://evil.example/token"

    await providers.redeem(given, **proof, signer=AssertionSigner(NOW, RSA))
    await providers.redeem(
        replace(given, token_endpoint=elsewhere), **proof, signer=AssertionSigner(NOW, RSA)
    )

    sent = {
        url: parse(fields["client_assertion"]).unverified_claims["aud"] for url, fields, _ in outbound.posted
    }
    assert sent == {"https://idp.example/token": ISSUER, elsewhere: elsewhere}


@pytest.mark.threat("20f")
@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((400, {"error": "invalid_grant"}), "invalid_grant"),
        ((200, {"error": "bad_verification_code"}), "unknown_error"),
        ((200, {"token_type": "Bearer"}), "invalid_response"),
        ((200, {"access_token": 7}), "invalid_response"),
        ((200, ["access_token"]), "invalid_response"),
        ((403, None), "invalid_response"),
    ],
)
async def test_a_refusal_keeps_the_providers_code(providers, outbound, answer, code):
    """The caller can tell a dead grant from a broken provider; a code that nobody knows is not repeated."""
    outbound.answer = answer

    with pytest.raises(ProviderRefused) as refusal:
        await providers.redeem(
            settings(), code="c", verifier="v" * 43, redirect_uri="https://zone/cb", signer=SIGNER
        )
    assert refusal.value.code == code


@pytest.mark.parametrize("key", [RSA, EC], ids=["RS256", "ES256"])
async def test_identifies_the_user(providers, outbound, key):
    """Issuer, subject, verified email, time and class of the sign-in come from the verified ID token."""
    token = id_token(key, email="ada@example.test", email_verified=True, auth_time=1795262000, acr="2",
                     at_hash=at_hash("at", "RS256"))  # fmt: skip

    identity = await identify(providers, outbound, token)

    assert (identity.issuer, identity.subject, identity.acr) == (ISSUER, "u1", "2")
    assert (identity.email, identity.email_verified) == ("ada@example.test", True)
    assert identity.auth_time == datetime.fromtimestamp(1795262000, UTC)


async def test_another_claim_can_be_the_external_id(providers, outbound):
    """Where `sub` differs by client a provider is configured with a claim that does not."""
    given = settings(external_id_claim="oid")

    assert (await identify(providers, outbound, id_token(oid="o1"), given)).subject == "o1"
    with pytest.raises(ProviderRefused):
        await identify(providers, outbound, id_token(), given)


AT = int(NOW.timestamp())


@pytest.mark.threat("13o")
@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://idp.example/other"},
        {"aud": "other"},
        {"aud": ["zone", "other"]},
        {"aud": ["zone", "other"], "azp": "other"},
        {"aud": None},
        {"aud": [1]},
        {"azp": "other"},
        {"exp": AT - 61},
        {"exp": None},
        {"iat": AT + 120},
        {"iat": None},
        {"nonce": "n2"},
        {"nonce": None},
        {"nonce": 1},
        {"sub": ""},
        {"sub": None},
        {"sub": "x" * 256},
        {"at_hash": at_hash("another", "RS256")},
        {"auth_time": "yesterday"},
        {"auth_time": 253_402_300_800},  # the year 10000, which no calendar here has
    ],
)
async def test_an_id_token_for_another_purpose_is_refused(providers, outbound, changes):
    """Issuer, audience, party, times, nonce and access token must all be this sign-in's."""
    with pytest.raises(ProviderRefused) as refusal:
        await identify(providers, outbound, id_token(**changes))
    assert refusal.value.code == "invalid_id_token"


async def test_several_audiences_with_the_right_party_are_fine(providers, outbound):
    """`azp` tells that the token was made for this client."""
    assert await identify(providers, outbound, id_token(aud=["zone", "other"], azp="zone"))


def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@pytest.mark.threat("10a", "10d", "10g")
@pytest.mark.parametrize(
    "header",
    [
        {"alg": "none"},
        {"alg": "HS256"},
        {"alg": "ES256"},
        {"alg": "RS512"},
        {"alg": "ES256K"},
        {"alg": "RS256", "crit": ["x"], "x": 1},
        {"alg": "RS256", "kid": 7},
        {},
    ],
)
async def test_the_header_chooses_no_algorithm_the_key_does_not_have(providers, outbound, header):
    """The published key says RS256; a header that says otherwise is refused."""
    _, payload, signature = id_token().split(".")

    with pytest.raises(ProviderRefused):
        await identify(providers, outbound, f"{part({'kid': RSA.kid, **header})}.{payload}.{signature}")
    assert [url for url in outbound.fetched if "evil" in url] == []


@pytest.mark.threat("10l")
async def test_symmetric_and_encryption_keys_do_not_count(providers, outbound):
    """Only signature keys of asymmetric types are read from a JWK set."""
    outbound.documents["https://idp.example/jwks"] = {
        "keys": [
            {"kty": "oct", "k": "AAAA", "kid": RSA.kid},
            {**RSA.public_jwk, "use": "enc"},
            {**RSA.public_jwk, "alg": "RSA-OAEP"},
            "nonsense",
            {"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": RSA.kid},
        ]
    }

    with pytest.raises(ProviderRefused):
        await identify(providers, outbound, id_token())


@pytest.mark.threat("11h")
async def test_an_unknown_kid_asks_again_only_so_often(providers, outbound):
    """Keys fetched a moment ago are not fetched again because a token names another one."""
    stranger = SigningKey.generate("ES256")

    for _ in range(5):
        with pytest.raises(ProviderRefused):
            await identify(providers, outbound, id_token(stranger))

    assert outbound.fetched.count("https://idp.example/jwks") == 1


@pytest.mark.threat("7ad")
@pytest.mark.parametrize(
    ("what", "slow"), [("sign-in", "configuration"), ("sign-in", "jwks"), ("logout", "jwks")]
)
async def test_nobody_waits_for_what_another_zone_fetches(providers, outbound, what, slow):
    """Fetches of one zone hang, of metadata or of keys; the same provider serves another at once."""
    fast, asked = outbound.get_json, asyncio.Event()

    async def get_json(url, *, max_bytes=None, partition=""):
        if partition != "prompt" and url.endswith(slow):
            asked.set()
            await asyncio.Event().wait()
        return await fast(url)

    outbound.get_json = get_json
    others, own = settings(partition="slow"), settings(partition="prompt")
    if what == "logout":
        endless = asyncio.create_task(providers.logout_token(others, id_token(), now=NOW))
    else:
        endless = asyncio.create_task(identify(providers, outbound, id_token(), others))
    await asyncio.wait_for(asked.wait(), 30)

    identity = await asyncio.wait_for(identify(providers, outbound, id_token(), own), 30)

    assert identity.subject == "u1"
    assert not endless.done()
    endless.cancel()
    await asyncio.gather(endless, return_exceptions=True)


async def test_a_rotated_key_is_found(outbound):
    """After a while an unknown key id is a reason to look again, once."""
    now = 0.0
    providers = OpenIDProviders(outbound, RemoteKeys(outbound, clock=lambda: now))
    await identify(providers, outbound, id_token())
    rotated = SigningKey.generate("ES256")
    outbound.documents["https://idp.example/jwks"] = {"keys": [rotated.public_jwk]}
    now = 31.0

    assert await identify(providers, outbound, id_token(rotated))
    assert outbound.fetched.count("https://idp.example/jwks") == 2


async def test_userinfo_is_about_the_same_subject(providers, outbound):
    """Claims of somebody else are not taken. Spec: OpenID Connect Core section 5.3.2."""
    tokens = await providers.redeem(
        settings(), code="c", verifier="v" * 43, redirect_uri="https://zone/cb", signer=SIGNER
    )

    assert (await providers.userinfo(settings(), tokens, subject="u1"))["email"] == "ada@example.test"
    with pytest.raises(ProviderRefused):
        await providers.userinfo(settings(), tokens, subject="u2")


async def test_an_incomplete_provider_says_what_is_missing(providers):
    """Without a client id nothing is sent anywhere."""
    with pytest.raises(ProviderRefused, match="client id"):
        await authorize(providers, settings(client_id=None))


def test_settings_come_from_the_configured_provider():
    """Defaults of the interface are filled in; what is configured stays."""
    provider = Provider.model_validate(
        {
            "id": "p" * 26,
            "organization_id": "o" * 26,
            "zone_id": "z" * 26,
            "created_at": NOW,
            "updated_at": NOW,
            "identifier": ISSUER,
            "slug": "idp",
            "name": "IdP",
            "client_id": "zone",
            "protocols": {
                "oauth2": {"scope_separator": ",", "authorization_parameters": {"team": "T1"}},
                "openid": {"scopes": ["groups"], "user_identifier_claim": "email"},
            },
        }
    )

    made = settings_of(provider, client_secret="s3cret")

    assert made == settings(
        partition="z" * 26,
        provider_id="p" * 26,
        scope_separator=",",
        authorization_parameters={"team": "T1"},
        openid_scopes=("groups",),
        user_identifier_claim="email",
    )
    assert "s3cret" not in repr(made)
