"""The client of outside OAuth providers, over real HTTP: what it sends, and what each answer comes to."""

import asyncio
import threading
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

import jwt
import pytest
from tests.support.scripted_provider import Scripted, scripted_provider
from tests.support.waiting import let_pass

from runtime.adapters.identity_providers.settings import ProviderSettings
from runtime.adapters.keys.jose import InvalidJwt
from runtime.adapters.keys.signing import SigningKey, VerificationKey, verify
from runtime.adapters.outbound import Outbound
from runtime.adapters.upstream_oauth.circuit_breaker import FAILURES_TO_OPEN, CircuitBreakers
from runtime.adapters.upstream_oauth.client import UpstreamOAuthClient
from runtime.adapters.upstream_oauth.client_authentication import ASSERTION_TYPE
from runtime.adapters.upstream_oauth.concurrency_limit import MOST_OF_A_PROVIDER, ProviderConcurrency
from runtime.adapters.upstream_oauth.revocation_request import RevocationOutcome
from runtime.adapters.upstream_oauth.token_response import (
    MAX_RESPONSE_BYTES,
    RefusalKind,
    UpstreamRefusal,
    UpstreamTokens,
)
from runtime.domain.kinds.values import TokenEndpointAuthMethod, TokenRequestFormat
from runtime.domain.oauth.pkce import challenge_of

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
VERIFIER = "v" * 43
REDIRECT_URI = "https://zone.example/oauth/connect/callback"
KEY = SigningKey.generate("ES256")
SECRET = "s3cret:+é"


@pytest.fixture
def provider():
    with scripted_provider() as running:
        yield running


@pytest.fixture
async def outbound():
    made = Outbound(allow_private_addresses=True, timeout_seconds=5)
    yield made
    await made.aclose()


@pytest.fixture
def client(outbound):
    return UpstreamOAuthClient(outbound, clock=lambda: NOW)


@pytest.fixture
def settings(provider):
    def make(**changes):
        known = {
            "issuer": provider.url,
            "client_id": "zone",
            "client_secret": SECRET,
            "partition": "z1",
            "provider_id": "p1",
            "authorization_endpoint": f"{provider.url}/authorize",
            "token_endpoint": f"{provider.url}/token",
        }
        return ProviderSettings(**{**known, **changes})

    return make


def redeem(client, settings, **changes):
    asked = {
        "code": "c1",
        "redirect_uri": REDIRECT_URI,
        "code_verifier": VERIFIER,
        "scopes": ["a"],
        **changes,
    }
    return client.redeem_code(settings, **asked)


async def test_redeems_a_code(provider, client, settings):
    """With the redirect URI and the verifier of its authorization request. Spec: RFC 6749 section 4.1.3."""
    provider.answers({"access_token": "at", "refresh_token": "rt", "expires_in": 60})

    tokens = await redeem(client, settings())

    assert tokens == UpstreamTokens("at", 60, "rt", True, None, frozenset({"a"}), False)
    assert provider.received[0].members == {
        "grant_type": "authorization_code",
        "code": "c1",
        "redirect_uri": REDIRECT_URI,
        "code_verifier": VERIFIER,
    }


async def test_without_pkce_no_verifier_is_sent(provider, client, settings):
    """Servers refuse a verifier of a request without a challenge. Spec: RFC 9700 section 4.8.2."""
    provider.answers({"access_token": "at"})
    await redeem(client, settings(), code_verifier=None)
    assert "code_verifier" not in provider.received[0].members


async def test_refreshes(provider, client, settings):
    """No scope is asked for: what was granted stays granted. Spec: RFC 6749 section 6."""
    provider.answers({"access_token": "at2", "expires_in": "60"})

    tokens = await client.refresh(settings(), refresh_token="rt1", scopes=["a", "b"])

    assert tokens == UpstreamTokens("at2", 60, "rt1", False, None, frozenset({"a", "b"}), False)
    assert provider.received[0].members == {"grant_type": "refresh_token", "refresh_token": "rt1"}


@pytest.mark.parametrize("parameter", ["resource", "audience"])
async def test_the_resource_goes_to_the_token_endpoint_too(provider, client, settings, parameter):
    """Where it is enabled, under the configured name. Spec: RFC 8707 section 2.2."""
    provider.answers({"access_token": "at"})
    given = settings(authorization_resource_enabled=True, authorization_resource_parameter=parameter)

    await redeem(client, given, resource="https://api.example")
    await client.refresh(given, refresh_token="rt", resource="https://api.example")

    assert [each.members[parameter] for each in provider.received] == ["https://api.example"] * 2


Method = TokenEndpointAuthMethod


async def test_authenticates_by_basic_with_form_encoding(provider, client, settings):
    """Both halves are encoded before they are joined. Spec: RFC 6749 section 2.3.1."""
    provider.answers({"access_token": "at"})
    await redeem(client, settings(client_id="zone:1"))
    assert provider.received[0].basic == ("zone:1", SECRET)
    assert not {"client_id", "client_secret"} & provider.received[0].members.keys()


async def test_authenticates_in_the_body(provider, client, settings):
    """`client_secret_post`."""
    provider.answers({"access_token": "at"})
    await redeem(client, settings(token_endpoint_auth_method=Method.CLIENT_SECRET_POST))
    sent = provider.received[0]
    assert (sent.members["client_id"], sent.members["client_secret"]) == ("zone", SECRET)
    assert "authorization" not in sent.headers


@pytest.mark.parametrize("changes", [{"client_secret": None}, {"token_endpoint_auth_method": Method.NONE}])
async def test_a_public_client_names_itself(provider, client, settings, changes):
    """`none` sends no secret, also where one is stored."""
    provider.answers({"access_token": "at"})
    await redeem(client, settings(**changes))
    sent = provider.received[0]
    assert sent.members["client_id"] == "zone"
    assert "client_secret" not in sent.members
    assert "authorization" not in sent.headers


@pytest.mark.standard("RFC 7523")
async def test_authenticates_by_an_assertion_signed_with_the_secret(provider, client, settings):
    """`client_secret_jwt`: the secret itself is not sent, and one that is too short signs nothing."""
    provider.answers({"access_token": "at"})
    secret = "s" * 32
    given = settings(token_endpoint_auth_method=Method.CLIENT_SECRET_JWT, client_secret=secret)

    await redeem(client, given)

    (sent,) = provider.received
    assert "client_secret" not in sent.members
    claims = jwt.decode(
        sent.members["client_assertion"],
        secret,
        algorithms=["HS256"],
        audience=f"{provider.url}/token",
        options={"verify_exp": False, "verify_iat": False},
    )
    assert (claims["iss"], claims["sub"], claims["exp"] - claims["iat"]) == ("zone", "zone", 60)
    refusal = await redeem(client, replace(given, client_secret="s" * 31))
    assert refusal == UpstreamRefusal(RefusalKind.MISCONFIGURED, "not_configured")
    assert len(provider.received) == 1


@pytest.mark.standard("RFC 7523")
async def test_authenticates_by_a_signed_assertion(provider, client, settings):
    """A minute long, never the same twice, and without the secret."""
    provider.answers({"access_token": "at"})
    given = settings(token_endpoint_auth_method=Method.PRIVATE_KEY_JWT)

    for _ in range(2):
        await redeem(client, given, signing_key=KEY)

    read = [
        verify(
            each.members["client_assertion"],
            {KEY.kid: VerificationKey.of(KEY)},
            typ="client-authentication+jwt",
            issuer="zone",
            audience=f"{provider.url}/token",
            now=NOW,
        )
        for each in provider.received
    ]
    assert [each["exp"] - each["iat"] for each in read] == [60, 60]
    assert [each["sub"] for each in read] == ["zone", "zone"]
    assert read[0]["jti"] != read[1]["jti"]
    assert provider.received[0].members["client_assertion_type"] == ASSERTION_TYPE
    assert "client_secret" not in provider.received[0].members


def assertion_for(received, audience):
    """The claims of the client assertion that was received. Raises InvalidJwt for another audience."""
    return verify(
        received.members["client_assertion"],
        {KEY.kid: VerificationKey.of(KEY)},
        typ="client-authentication+jwt",
        issuer="zone",
        audience=audience,
        now=NOW,
    )


async def redeem_and_revoke(client, given):
    """Post an assertion to the token endpoint, and another one to the revocation endpoint."""
    await redeem(client, given, signing_key=KEY)
    await client.revoke(given, token="rt", token_type_hint="refresh_token", signing_key=KEY)


async def test_an_assertion_for_discovered_endpoints_is_for_the_issuer(provider, client, discovered):
    """The issuer's own metadata says that they are its endpoints."""
    publish(provider, metadata(provider))

    await redeem_and_revoke(client, discovered(token_endpoint_auth_method=Method.PRIVATE_KEY_JWT))

    received = [each for path in ("/found/token", "/found/revoke") for each in provider.at(path)]
    assert [assertion_for(each, provider.url)["aud"] for each in received] == [provider.url] * 2


@pytest.mark.threat("46j")
@pytest.mark.parametrize("configured", ["token_endpoint", "revocation_endpoint"])
async def test_an_assertion_for_a_configured_endpoint_cannot_be_relayed(
    provider, client, discovered, configured
):
    """It is for that endpoint's URL: a server that is configured beside the real issuer has no use for it."""
    publish(provider, metadata(provider))
    given = discovered(token_endpoint_auth_method=Method.PRIVATE_KEY_JWT)
    await redeem_and_revoke(client, given)
    found = provider.at("/found/token" if configured == "token_endpoint" else "/found/revoke")
    assert assertion_for(found[0], provider.url)

    await redeem_and_revoke(client, replace(given, **{configured: f"{provider.url}/elsewhere"}))

    (received,) = provider.at("/elsewhere")
    assert assertion_for(received, f"{provider.url}/elsewhere")
    with pytest.raises(InvalidJwt):
        assertion_for(received, provider.url)


@pytest.mark.parametrize(
    "changes",
    [
        {"client_id": None},
        {"client_secret": None, "token_endpoint_auth_method": Method.CLIENT_SECRET_BASIC},
        {"client_secret": None, "token_endpoint_auth_method": Method.CLIENT_SECRET_POST},
        {"token_endpoint_auth_method": Method.PRIVATE_KEY_JWT},
    ],
)
async def test_what_is_not_configured_is_not_tried(provider, client, settings, changes):
    """Nothing is sent without what authenticates it."""
    refusal = await redeem(client, settings(**changes))
    assert refusal == UpstreamRefusal(RefusalKind.MISCONFIGURED, "not_configured")
    assert provider.received == []


async def test_a_request_may_be_json_with_more_headers(provider, client, settings):
    """For providers that read nothing else; what authenticates and frames the request is not replaced."""
    provider.answers({"access_token": "at"})
    given = settings(
        token_request_format=TokenRequestFormat.JSON,
        token_request_headers={
            "Notion-Version": "1",
            "Authorization": "x",
            "content-TYPE": "x",
            "Host": "evil",
        },
    )

    await redeem(client, given)

    sent = provider.received[0]
    assert (sent.members["code"], sent.headers["notion-version"]) == ("c1", "1")
    assert sent.headers["content-type"] == "application/json"
    assert sent.basic == ("zone", SECRET)
    assert sent.headers["host"] in provider.url


async def test_asks_for_json(provider, client, settings):
    """GitHub answers with a form otherwise."""
    provider.answers({"access_token": "at"})
    await redeem(client, settings())
    assert provider.received[0].headers["accept"] == "application/json"


async def test_a_redirect_is_not_followed(provider, client, settings):
    """What a token endpoint answers is final, and the secret goes nowhere else."""
    provider.answers(b"", 307, location=f"{provider.url}/elsewhere")
    assert (await redeem(client, settings())).code == "redirected"
    assert provider.at("/elsewhere") == []


async def test_an_answer_that_is_too_large_is_refused(provider, client, settings):
    """Without its being read to the end."""
    provider.answers({"access_token": "at", "x": "x" * MAX_RESPONSE_BYTES})
    assert (await redeem(client, settings())).code == "invalid_response"


@pytest.mark.threat("7a")
@pytest.mark.parametrize(
    "address", ["https://127.0.0.1/token", "http://provider.example/token", "file:///etc"]
)
async def test_addresses_that_are_not_public_https_get_nothing(settings, address):
    """The guarded client refuses them before anything is sent."""
    outbound = Outbound(allow_private_addresses=False)
    try:
        refusal = await redeem(UpstreamOAuthClient(outbound), settings(token_endpoint=address))
    finally:
        await outbound.aclose()
    assert refusal == UpstreamRefusal(RefusalKind.MISCONFIGURED, "address_refused")


async def test_a_browser_is_not_sent_to_plain_http(settings):
    """But where the tree's setting for development allows it."""
    outbound = Outbound(allow_private_addresses=False)
    try:
        refusal = await request(UpstreamOAuthClient(outbound), settings())
    finally:
        await outbound.aclose()
    assert refusal == UpstreamRefusal(RefusalKind.MISCONFIGURED, "not_configured")


def request(client, settings):
    return client.authorization_request(
        settings, redirect_uri=REDIRECT_URI, state="s1", code_verifier=VERIFIER, scopes=["a"]
    )


def metadata(provider, **changes):
    return {
        "issuer": provider.url,
        "authorization_endpoint": f"{provider.url}/found/authorize",
        "token_endpoint": f"{provider.url}/found/token",
        "revocation_endpoint": f"{provider.url}/found/revoke",
        **changes,
    }


OPENID_PATH = "/.well-known/openid-configuration"
OAUTH_PATH = "/.well-known/oauth-authorization-server"


def publish(provider, document, at=OPENID_PATH, answer=None):
    """Publish metadata at one path, and answer everything else alike."""
    provider.script = lambda received: (
        Scripted(document)
        if received.path == at
        else Scripted(status=404)
        if received.path.startswith("/.well-known/")
        else Scripted(answer or {"access_token": "at"})
    )


@pytest.fixture
def discovered(settings):
    """Settings that leave every address to discovery."""

    def make(**changes):
        return settings(**{"authorization_endpoint": None, "token_endpoint": None, **changes})

    return make


@pytest.mark.standard("RFC 8414")
@pytest.mark.parametrize("path", [OPENID_PATH, OAUTH_PATH])
async def test_discovers_what_is_not_configured(provider, client, discovered, path):
    """From the OpenID document, or from that of RFC 8414; once for all requests."""
    publish(provider, metadata(provider), at=path)

    found = await request(client, discovered())
    await redeem(client, discovered())
    await redeem(client, discovered())

    assert found.url.startswith(f"{provider.url}/found/authorize?")
    assert len(provider.at("/found/token")) == 2
    assert len(provider.at(path)) == 1


@pytest.mark.threat("4f")
async def test_metadata_of_another_issuer_is_refused(provider, client, discovered):
    """The published issuer is byte for byte the configured one, and no secret is sent."""
    publish(provider, metadata(provider, issuer=f"{provider.url}/"))
    assert await redeem(client, discovered()) == UpstreamRefusal(RefusalKind.MISCONFIGURED, "issuer_mismatch")
    assert (await request(client, discovered())).code == "issuer_mismatch"
    assert provider.at("/found/token") == []


@pytest.mark.parametrize(
    ("published", "configured", "uses_pkce"),
    [
        (None, None, True),
        (["S256"], None, True),
        (["plain"], None, False),
        ([], None, False),
        (["S256"], (), False),
    ],
)
async def test_pkce_is_used_unless_the_methods_exclude_it(
    provider, client, discovered, published, configured, uses_pkce
):
    """Configured methods come before published ones; where nothing is known a challenge does no harm."""
    document = metadata(provider)
    if published is not None:
        document["code_challenge_methods_supported"] = published
    publish(provider, document)

    found = await request(client, discovered(code_challenge_methods_supported=configured))

    assert found.uses_pkce is uses_pkce
    assert (challenge_of(VERIFIER) in found.url) is uses_pkce


@pytest.mark.parametrize("advertised", [True, False])
async def test_an_answers_issuer_is_required_where_it_is_advertised(provider, client, discovered, advertised):
    """`authorization_response_iss_parameter_supported`. Spec: RFC 9207 section 3."""
    publish(provider, metadata(provider, authorization_response_iss_parameter_supported=advertised))
    found = await request(client, discovered())
    assert (found.issuer, found.issuer_required) == (provider.url, advertised)
    assert found.admits_issuer(None) is not advertised


async def revoke(client, settings):
    return await client.revoke(settings, token="rt1", token_type_hint="refresh_token")


@pytest.mark.standard("RFC 7009")
async def test_revokes_at_the_configured_endpoint(provider, client, settings):
    """Authenticated as at the token endpoint; the body of a success does not matter."""
    provider.answers(b"bye")
    done = await revoke(client, settings(revocation_endpoint=f"{provider.url}/revoke"))
    assert (done.outcome, done.refusal) == (RevocationOutcome.REVOKED, None)
    sent = provider.received[0]
    assert (sent.path, sent.basic) == ("/revoke", ("zone", SECRET))
    assert sent.members == {"token": "rt1", "token_type_hint": "refresh_token"}


async def test_revokes_at_the_discovered_endpoint(provider, client, settings):
    """Metadata may know one where the settings name only the other addresses."""
    publish(provider, metadata(provider), answer={})
    assert (await revoke(client, settings())).outcome is RevocationOutcome.REVOKED
    assert len(provider.at("/found/revoke")) == 1


async def test_without_an_endpoint_nothing_is_revoked(provider, client, settings):
    """Neither the settings nor metadata have one, or there is no metadata: no token is sent."""
    assert (await revoke(client, settings())).outcome is RevocationOutcome.NOT_SUPPORTED
    assert {each.method for each in provider.received} == {"GET"}


async def test_metadata_of_another_issuer_names_no_place_to_revoke_at(provider, client, settings):
    """Microsoft publishes an issuer with a placeholder: what is configured is all there is."""
    publish(provider, metadata(provider, issuer=f"{provider.url}/{{tenantid}}"))
    assert (await revoke(client, settings())).outcome is RevocationOutcome.NOT_SUPPORTED
    assert {each.method for each in provider.received} == {"GET"}


async def test_metadata_that_cannot_be_had_fails_a_revocation(provider, client, settings):
    """It may name an endpoint, so that another attempt is worth it."""
    provider.answers(b"", 503)
    done = await revoke(client, settings())
    assert (done.outcome, done.refusal.kind) == (RevocationOutcome.FAILED, RefusalKind.TEMPORARY)


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        (200, b"", "revoked"),
        (204, b"", "revoked"),
        (200, {"ok": True, "revoked": True}, "revoked"),
        (200, {"status": "success"}, "revoked"),
        (400, {"error": "invalid_token"}, "revoked"),
        (400, {"error": "invalid_grant"}, "revoked"),
        (200, {"ok": False, "error": "token_revoked"}, "revoked"),
        (400, {"error": "unsupported_token_type"}, "not_supported"),
        (200, {"ok": False, "error": "not_authed"}, "failed"),
        (401, {"error": "invalid_client"}, "failed"),
        (503, b"", "failed"),
        (404, b"", "failed"),
    ],
)
async def test_what_a_revocation_comes_to(provider, client, settings, status, body, outcome):
    """A token that is unknown to the provider is what was wanted; what is not said is not assumed."""
    provider.answers(body, status)
    given = settings(
        revocation_endpoint=f"{provider.url}/revoke",
        token_response_dead_grant_errors=frozenset({"token_revoked"}),
    )
    done = await revoke(client, given)
    assert done.outcome == outcome
    assert (done.refusal is not None) is (outcome == "failed")


async def test_a_failed_revocation_says_whether_to_try_again(provider, client, settings):
    """With the provider's `Retry-After`. Spec: RFC 7009 section 2.2.1."""
    provider.answers(b"", 503, retry_after="30")
    done = await revoke(client, settings(revocation_endpoint=f"{provider.url}/revoke"))
    assert done.refusal == UpstreamRefusal(RefusalKind.TEMPORARY, "unavailable", 30, 503)


class Hand:
    """A clock that stands until it is moved."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


@pytest.mark.threat("20f")
async def test_a_provider_that_fails_is_left_alone(provider, outbound, settings):
    """After failures in a row nothing is sent until the pause is over; then one request decides."""
    hand = Hand()
    client = UpstreamOAuthClient(outbound, breakers=CircuitBreakers(hand))
    provider.answers(b"", 503)
    for _ in range(FAILURES_TO_OPEN):
        await client.refresh(settings(), refresh_token="rt")

    refused = await client.refresh(settings(), refresh_token="rt")
    assert refused == UpstreamRefusal(RefusalKind.TEMPORARY, "circuit_open", retry_after_seconds=10)
    assert len(provider.received) == FAILURES_TO_OPEN

    provider.answers({"access_token": "at"})
    hand.seconds += 10
    assert isinstance(await client.refresh(settings(), refresh_token="rt"), UpstreamTokens)
    assert isinstance(await client.refresh(settings(), refresh_token="rt"), UpstreamTokens)


async def test_a_check_by_hand_is_made_in_any_case(provider, outbound, settings):
    """Whoever has mended a provider need not wait: an answer closes the circuit, a failure changes none."""
    hand = Hand()
    client = UpstreamOAuthClient(outbound, breakers=CircuitBreakers(hand))
    provider.answers(b"", 503)
    for _ in range(FAILURES_TO_OPEN):
        await client.refresh(settings(), refresh_token="rt")

    assert (await client.request_own_token(settings(), {})).code == "unavailable"
    provider.answers({"access_token": "at"})
    assert (await client.refresh(settings(), refresh_token="rt")).retry_after_seconds == 10
    assert isinstance(await client.request_own_token(settings(), {}), UpstreamTokens)

    assert provider.received[-1].members == {"grant_type": "client_credentials"}
    assert isinstance(await client.refresh(settings(), refresh_token="rt"), UpstreamTokens)


@pytest.mark.parametrize("other", [{"provider_id": "p2"}, {"partition": "z2"}], ids=["provider", "zone"])
async def test_one_providers_failures_are_no_others(provider, client, settings, other):
    """Neither another provider of the zone, nor that of another zone, is left alone."""
    provider.answers(b"", 503)
    for _ in range(FAILURES_TO_OPEN):
        await client.refresh(settings(), refresh_token="rt")
    provider.answers({"access_token": "at"})

    assert isinstance(await client.refresh(settings(**other), refresh_token="rt"), UpstreamTokens)


async def test_refusals_are_no_failures(provider, client, settings):
    """A provider that says no works."""
    provider.answers({"error": "invalid_grant"}, 400)
    assert all(
        [
            (await client.refresh(settings(), refresh_token="rt")).kind is RefusalKind.DEAD_GRANT
            for _ in range(2 * FAILURES_TO_OPEN)
        ]
    )


async def test_a_provider_that_cannot_be_reached_is_temporary(client, settings):
    """And counts as a failure."""
    gone = settings(token_endpoint="http://127.0.0.1:9/token")
    codes = [(await client.refresh(gone, refresh_token="rt")).code for _ in range(FAILURES_TO_OPEN + 1)]
    assert codes == ["unreachable"] * FAILURES_TO_OPEN + ["circuit_open"]


async def test_only_so_many_requests_are_under_way_to_a_provider(provider, outbound, settings):
    """The others wait their turn, and are refused when it does not come; another provider is not held up."""
    client = UpstreamOAuthClient(outbound, concurrency=ProviderConcurrency(wait_seconds=0.5))
    go_on, under_way = threading.Event(), threading.Semaphore(0)

    def hold(received):
        if received.path == "/token":
            under_way.release()
            go_on.wait(20)
        return Scripted({"access_token": "at"})

    provider.script = hold
    asked = [
        asyncio.ensure_future(client.refresh(settings(), refresh_token="rt"))
        for _ in range(MOST_OF_A_PROVIDER)
    ]
    try:
        assert all(
            [await asyncio.to_thread(under_way.acquire, timeout=20) for _ in range(MOST_OF_A_PROVIDER)]
        )
        refused = await client.refresh(settings(), refresh_token="rt")
        other = settings(provider_id="p2", token_endpoint=f"{provider.url}/other")
        assert isinstance(await client.refresh(other, refresh_token="rt"), UpstreamTokens)
    finally:
        go_on.set()
        results = await asyncio.gather(*asked)

    assert refused == UpstreamRefusal(RefusalKind.TEMPORARY, "busy", retry_after_seconds=1)
    assert all(isinstance(each, UpstreamTokens) for each in results)


@asynccontextmanager
async def with_tenants(clock):
    """A client with four requests at a time for zone `z9`, and four for all other zones."""
    outbound = Outbound(
        allow_private_addresses=True,
        timeout_seconds=60,
        max_concurrent=1,
        tenant_of=lambda partition: "other" if partition.startswith("z9") else "acme",
    )
    concurrency = ProviderConcurrency(wait_seconds=0.05)
    try:
        yield UpstreamOAuthClient(outbound, breakers=CircuitBreakers(clock), concurrency=concurrency)
    finally:
        await outbound.aclose()


@asynccontextmanager
async def all_turns_held(client, settings):
    """Providers of another zone of the tenant have all of its turns, and answer when the block ends."""
    asked, go_on = threading.Semaphore(0), threading.Event()

    def hold(_received):
        asked.release()
        go_on.wait(60)
        return Scripted({"access_token": "at"})

    with scripted_provider(hold) as silent:
        of = {"partition": "z2", "token_endpoint": f"{silent.url}/token"}
        asking = [
            asyncio.ensure_future(client.refresh(settings(provider_id=name, **of), refresh_token="rt"))
            for name in "abcd"
        ]
        try:
            assert all([await asyncio.to_thread(asked.acquire, timeout=20) for _ in asking])
            yield
        finally:
            go_on.set()
            answers = await asyncio.gather(*asking)
    assert all(isinstance(each, UpstreamTokens) for each in answers)


async def test_that_others_have_all_turns_says_nothing_about_a_provider(provider, settings):
    """However often there is none for it, its circuit stays closed; another tenant's provider is asked."""
    provider.answers({"access_token": "at"})
    async with with_tenants(Hand()) as client:
        assert isinstance(await client.refresh(settings(), refresh_token="rt"), UpstreamTokens)
        async with all_turns_held(client, settings):
            for _ in range(FAILURES_TO_OPEN + 1):
                refused = await client.refresh(settings(), refresh_token="rt")
                assert refused == UpstreamRefusal(RefusalKind.TEMPORARY, "busy", retry_after_seconds=1)
            other = await client.refresh(settings(partition="z9"), refresh_token="rt")
            assert isinstance(other, UpstreamTokens)
        assert isinstance(await client.refresh(settings(), refresh_token="rt"), UpstreamTokens)
        assert client.open_circuits == 0


async def test_a_probe_that_gets_no_turn_leaves_it_to_the_next(provider, settings):
    """The provider has not been asked: nobody waits for what would have come of it."""
    hand = Hand()
    provider.answers(b"", 503)
    async with with_tenants(hand) as client:
        for _ in range(FAILURES_TO_OPEN):
            await client.refresh(settings(), refresh_token="rt")
        assert (await client.refresh(settings(), refresh_token="rt")).code == "circuit_open"
        hand.seconds += 10
        provider.answers({"access_token": "at"})
        async with all_turns_held(client, settings):
            assert (await client.refresh(settings(), refresh_token="rt")).code == "busy"
        assert isinstance(await client.refresh(settings(), refresh_token="rt"), UpstreamTokens)


async def test_no_secret_is_in_what_is_logged_or_shown(provider, client, settings, caplog):
    """Whatever goes wrong."""
    caplog.set_level(0)
    shown = []
    for body, status in [({"error": SECRET}, 400), (b"\xff" + SECRET.encode(), 200), (SECRET.encode(), 500)]:
        provider.answers(body, status)
        shown.append(await client.refresh(settings(), refresh_token="rt-s3cret"))
        shown.append(await redeem(client, settings(), code="code-s3cret"))
    assert "s3cret" not in repr(shown) + repr(settings()) + caplog.text


async def test_an_answer_to_a_refresh_is_waited_for_longer(provider, settings):
    """A provider that rotates has ended the former token by then: who gives up loses the account."""

    def late(_received):
        let_pass(1.0)
        return Scripted({"access_token": "at", "token_type": "Bearer", "refresh_token": "rt-2"})

    provider.script = late
    outbound = Outbound(allow_private_addresses=True, timeout_seconds=0.2)
    client = UpstreamOAuthClient(outbound, clock=lambda: NOW)
    try:
        redeemed = await client.redeem_code(
            settings(), code="code", redirect_uri=REDIRECT_URI, code_verifier=None
        )
        refreshed = await client.refresh(settings(), refresh_token="rt-1")
    finally:
        await outbound.aclose()

    assert redeemed == UpstreamRefusal(RefusalKind.TEMPORARY, "unreachable")
    assert isinstance(refreshed, UpstreamTokens)
    assert refreshed.refresh_token == "rt-2"
