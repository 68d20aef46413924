"""Clients that prove who they are with a JWT, signed by a key of their own."""

import hashlib
import hmac
import json
import secrets
from dataclasses import replace
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from tests.runtime.clients.signing import EC, ED, FORM, RSA, STRANGER, Signer, b64, form, refused
from tests.support.publisher import Publisher
from tests.support.scene import Scene, claims_of
from tests.support.state_doubles import remembering

from runtime.adapters.keys.remote import RemoteKeys
from runtime.adapters.keys.signing import SigningKey
from runtime.domain.errors import InvalidClient, InvalidRequest, TooManyRequests, Unavailable
from runtime.domain.kinds import APPLICATION_CREDENTIAL
from runtime.domain.oauth.assertions import CLIENT_ASSERTION_TYPE
from runtime.services.rate_limits import MAX_SECRET_GUESSES
from runtime.services.zone_settings import set_zone_setting
from runtime.storage.state.memory import InProcessState


@pytest.mark.standard("RFC 7523")
@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA", "PS256"])
async def test_a_key_of_its_own(scene: Scene, signer: Signer, algorithm: str) -> None:
    """With each algorithm that its keys allow; ES256 with the newer type of token."""
    if algorithm == "RS256":
        assertion = signer.sign(RSA)
    elif algorithm == "ES256":
        assertion = signer.sign(EC, typ="client-authentication+jwt")
    else:
        key, kid = (ED, "ed") if algorithm == "EdDSA" else (RSA.private_key, "rsa")
        assertion = jwt.encode(signer.claims(), key, algorithm=algorithm, headers={"kid": kid})

    answer = await scene.post(form(assertion))

    assert claims_of(answer["access_token"])["client_id"] == signer.client_id


@pytest.mark.standard("RFC 7523")
async def test_the_client_id_may_be_named_beside_the_assertion(scene: Scene, signer: Signer) -> None:
    """The token is the application's as without."""
    named = await scene.post(form(signer.sign(), client_id=signer.client_id))
    assert claims_of(named["access_token"])["sub"] == "signer"


@pytest.mark.threat("34f", "35g")
async def test_a_memory_that_began_after_the_assertion(scene: Scene, signer: Signer) -> None:
    """A state that was lost takes none that may have been used before; one that says no time may be as old
    as its end allows."""
    at = int(scene.services.clock().timestamp())
    used, before, undated = signer.sign(), signer.sign(iat=at - 1), signer.sign(iat=None)
    in_its_second = signer.sign(iat=at + 2)
    assert await scene.post(form(used))
    lost = replace(scene.services, state=InProcessState(wall=lambda: at + 2.5))
    for assertion in (used, before, undated, in_its_second):
        with pytest.raises(Unavailable):
            await scene.post(form(assertion), services=lost)
    assert not [
        times
        for times in ({"iat": at + 3}, {"iat": at - 1, "nbf": at + 3})
        if not await scene.post(form(signer.sign(**times)), services=lost)
    ]

    kept = remembering(scene.services)
    for assertion in (before, undated):
        assert await scene.post(form(assertion), services=kept)
        await refused(scene, form(assertion), services=kept)


@pytest.mark.threat("34a", "34b", "34d", "34e")
async def test_an_assertion_counts_once(scene: Scene, signer: Signer) -> None:
    """The refusal of a replay says no more than any other; the log says why."""
    once = signer.sign()
    assert await scene.post(form(once))
    assert "used before" in (await refused(scene, form(once))).internal


def _wrong(issuer: str, at: int) -> dict[str, dict[str, Any]]:
    """What is changed in an assertion for that issuer at that time, so that it proves nothing."""
    return {
        "for others too": {"aud": [issuer, "https://other.example"]},
        "list of one audience": {"aud": [issuer]},
        "trailing slash": {"aud": f"{issuer}/"},
        "no audience": {"aud": None},
        "good for a year": {"exp": at + 31_536_000},
        "over": {"exp": at - 1},
        "no end": {"exp": None},
        "end that is no number": {"exp": "soon"},
        "issued in ten minutes": {"iat": at + 600},
        "good in ten minutes": {"nbf": at + 600},
        "no id": {"jti": None},
        "id that is no text": {"jti": 7},
        "long id": {"jti": "j" * 513},
        "another issuer": {"iss": "https://somebody.example"},
        "another subject": {"sub": "somebody"},
        "no subject": {"sub": None},
        "unknown client": {"iss": "nobody", "sub": "nobody"},
        "another class of token": {"typ": "at+jwt"},
    }


@pytest.mark.threat("34a", "34b", "34d", "34e")
@pytest.mark.parametrize("case", list(_wrong("", 0)))
async def test_what_an_assertion_must_say(scene: Scene, signer: Signer, case: str) -> None:
    """Meant for others too, long-lived, of another class or another client: one refusal for all."""
    at = int(scene.services.clock().timestamp())
    assert await scene.post(form(signer.sign()))
    await refused(scene, form(signer.sign(**_wrong(signer.issuer, at)[case])))


@pytest.mark.threat("34a", "34b", "34d", "34e")
async def test_an_assertion_of_one_application_is_not_anothers(scene: Scene, signer: Signer) -> None:
    """The client id beside it has to be the one that signed."""
    await refused(scene, form(signer.sign(), client_id=signer.app.client_id))


@pytest.mark.threat("34c")
@pytest.mark.standard("Assertion audiences (rfc7523bis)")
async def test_a_strict_zone_takes_its_issuer_as_the_only_audience(
    own_scene: Scene, publisher: Publisher
) -> None:
    """As every new zone does; another also takes those for its token endpoint."""
    app = await own_scene.company.app(own_scene.zone, "strict")
    made = await own_scene.company.create(
        APPLICATION_CREDENTIAL,
        own_scene.zone.id,
        application_id=app.id,
        type="public-key",
        jwks_uri=f"{publisher.url}/keys",
    )
    signer = Signer(own_scene, app, made.identifier)
    assert await own_scene.post(form(signer.sign()))
    await refused(own_scene, form(signer.sign(aud=signer.endpoint)))

    await set_zone_setting(own_scene.services, own_scene.zone.id, "strict-assertion-audience", "off")

    assert await own_scene.post(form(signer.sign(aud=signer.endpoint)))
    assert await own_scene.post(form(signer.sign()))


def _tampered(signer: Signer) -> dict[str, str]:
    """Assertions whose header lies about the key or the algorithm."""
    claims = signer.claims()

    def written(header: dict[str, Any], signature: bytes = b"x") -> str:
        first = b64(json.dumps(header).encode())
        return f"{first}.{b64(json.dumps(claims).encode())}.{b64(signature)}"

    def hmac_with(secret: bytes) -> str:
        unsigned = written({"alg": "HS256", "kid": RSA.kid}).rpartition(".")[0]
        return f"{unsigned}.{b64(hmac.digest(secret, unsigned.encode(), hashlib.sha256))}"

    def signed(key: SigningKey, **header: Any) -> str:
        return jwt.encode(claims, key.private_key, algorithm=key.algorithm, headers=header)

    pem = RSA.private_key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    good = signed(EC, kid=EC.kid)
    return {
        "alg none": written({"alg": "none"}),
        "HS256 with the PEM": hmac_with(pem),
        "HS256 with the JWK": hmac_with(json.dumps(RSA.public_jwk).encode()),
        "ES256 over the RSA key": signed(EC, kid=RSA.kid),
        "unannounced algorithm": jwt.encode(
            claims, RSA.private_key, algorithm="RS512", headers={"kid": "rsa"}
        ),
        "embedded key": signed(STRANGER, kid=EC.kid, jwk=STRANGER.public_jwk),
        "our key, and a jwk": signed(EC, kid=EC.kid, jwk=EC.public_jwk),
        "jku": signed(EC, kid=EC.kid, jku="https://evil.example/keys"),
        "x5u": signed(EC, kid=EC.kid, x5u="https://evil.example/cert"),
        "x5c": signed(EC, kid=EC.kid, x5c=["MIIB"]),
        "crit": signed(EC, kid=EC.kid, crit=["x"], x=1),
        "five parts": f"{good}.x.y",
        "newline": f"{good}\n",
        "somebody else's key": signed(STRANGER, kid=EC.kid),
        **{
            f"kid {kid[:12]!r}": signed(EC, kid=kid)
            for kid in ("../../etc", "' OR 1=1 --", "k" * 10_000, "a\0b", "https://evil.example", "a\r\nb")
        },
    }


@pytest.mark.threat(
    "10a", "10b", "10c", "10d", "10e", "10f", "10g", "10k", "11a", "11b", "11c", "11d", "11e", "11h"
)
async def test_headers_decide_nothing(scene: Scene, signer: Signer, publisher: Publisher) -> None:
    """Algorithms and keys come from the client's record; strange key ids fetch nothing again and again.

    All of them one after the other, since what they have fetched together is counted.
    """
    assert await scene.post(form(signer.sign()))
    fetched = len(publisher.asked)
    for assertion in _tampered(signer).values():
        await refused(scene, form(assertion))
    assert len(publisher.asked) <= fetched + 1
    assert set(publisher.asked[fetched:]) <= {"/keys"}
    assert await scene.post(form(signer.sign()))


async def test_one_mechanism_and_all_of_it(scene: Scene, signer: Signer) -> None:
    """Two mechanisms, or half of one, are an invalid request."""
    assert await scene.post(form(signer.sign()))
    for fields, authorization in (
        ([*form(signer.sign()), ("client_secret", "s")], None),
        (form(signer.sign()), "Basic YTpi"),
        ([*FORM, ("client_assertion", signer.sign())], None),
        ([*FORM, ("client_assertion_type", CLIENT_ASSERTION_TYPE)], None),
        ([*FORM, *signer.app.form.items(), ("client_assertion", signer.sign())], None),
    ):
        with pytest.raises(InvalidRequest):
            await scene.post(fields, authorization=authorization)
    saml = [*FORM, ("client_assertion", signer.sign()), ("client_assertion_type", "urn:saml2-bearer")]
    await refused(scene, saml)
    await refused(scene, [*FORM, ("client_id", signer.client_id)])
    await refused(scene, [*FORM, ("client_id", signer.client_id), ("client_secret", "s")])


async def test_without_the_shared_state_nothing_is_let_in(scene: Scene, signer: Signer) -> None:
    """Whether an assertion was used before cannot be told then."""

    class Away(InProcessState):
        async def use_once(self, key: str, *, made_at: float, ttl_seconds: int) -> bool:
            raise Unavailable("away")

    assert await scene.post(form(signer.sign()))
    with pytest.raises(Unavailable):
        await scene.post(form(signer.sign()), services=replace(scene.services, state=Away()))


@pytest.mark.threat("25f")
async def test_failing_assertions_wait_too(scene: Scene, signer: Signer) -> None:
    """Twenty that fail, and the pair of client and address has to wait; from elsewhere all is well."""
    now = scene.services.clock()
    services = replace(scene.services, clock=lambda: now)
    for _ in range(MAX_SECRET_GUESSES):
        with pytest.raises(InvalidClient):
            await scene.post(form(signer.sign(STRANGER)), address="203.0.113.77", services=services)
    with pytest.raises(TooManyRequests):
        await scene.post(form(signer.sign()), address="203.0.113.77", services=services)
    assert await scene.post(form(signer.sign()), address="198.51.100.77", services=services)


@pytest.mark.threat("7aa", "7ad")
async def test_keys_that_cannot_be_had(scene: Scene, publisher: Publisher) -> None:
    """Assertions do not set the pace at which a broken address is asked; mended, it counts again."""
    now, path = 0.0, f"/{secrets.token_hex(4)}"
    remote_keys = RemoteKeys(scene.services.outbound, clock=lambda: now)
    services = replace(scene.services, remote_keys=remote_keys)
    app = await scene.company.app(scene.zone, "keyless")
    made = await scene.company.create(
        APPLICATION_CREDENTIAL,
        scene.zone.id,
        application_id=app.id,
        type="public-key",
        jwks_uri=f"{publisher.url}{path}",
    )
    late = Signer(scene, app, made.identifier)
    for _ in range(3):
        await refused(scene, form(late.sign()), services=services)
    assert publisher.asked.count(path) == 1

    publisher.publish(path, {"keys": [EC.public_jwk]})
    now = 31.0
    assert await scene.post(form(late.sign()), services=services)
    await refused(scene, form(late.sign(STRANGER)), services=services)


async def test_an_exchange_with_an_assertion_after_a_change(
    own_scene: Scene, publisher: Publisher, signer: Signer
) -> None:
    """What works once is looked at once, also when the zone has changed since this process looked at it."""
    company, zone = own_scene.company, own_scene.zone
    api = await company.resource(zone, "https://api.test", scopes=["read"])
    app = await company.app(zone, "agent", dependencies=[api])
    made = await company.create(
        APPLICATION_CREDENTIAL,
        zone.id,
        application_id=app.id,
        type="public-key",
        jwks_uri=f"{publisher.url}/keys",
    )
    own = Signer(own_scene, app, made.identifier)
    person = await company.person(zone, "ann@acme.test")
    subject = await company.token(zone, replace(app, client_id=made.identifier), person)
    asserting = replace(app, client_id=made.identifier, secret=None)
    for name in ("before", "after"):
        shown = {"client_assertion_type": CLIENT_ASSERTION_TYPE, "client_assertion": own.sign()}
        answer = await own_scene.exchange(asserting, subject, api, **shown)
        assert claims_of(answer["access_token"])["client_id"] == made.identifier
        await company.group(zone, name)  # puts what is known of the zone out of date
