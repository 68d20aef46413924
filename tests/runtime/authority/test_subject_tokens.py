"""Forged, foreign and mistaken subject tokens. Each is tried beside one that is in order."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from tests.support.factories import App, Company, Person
from tests.support.scene import Scene, claims_of

from runtime.adapters.keys.signing import SigningKey
from runtime.adapters.outbound import Outbound, OutboundFailed
from runtime.domain.errors import InvalidGrant, InvalidRequest, OAuthError
from runtime.domain.kinds.resource import Resource
from runtime.services.issuing.access_tokens import issue_id_token
from runtime.services.management.zones import key_rotation


def _part(value: Any) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _services(token: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    header, payload, signature = token.split(".")
    return (
        json.loads(base64.urlsafe_b64decode(header + "==")),
        json.loads(base64.urlsafe_b64decode(payload + "==")),
        signature,
    )


def _hmac(header: dict[str, Any], payload: dict[str, Any], key: bytes) -> str:
    signed = f"{_part(header)}.{_part(payload)}"
    return f"{signed}.{_part(hmac.digest(key, signed.encode(), hashlib.sha256))}"


async def _refused(scene: Scene, agent: App, api: Resource, token: str) -> OAuthError:
    with pytest.raises((InvalidGrant, InvalidRequest)) as refusal:
        await scene.exchange(agent, token, api, "read")
    if isinstance(refusal.value, InvalidGrant):
        assert refusal.value.detail == "the subject token is not valid here"
    return refusal.value


@pytest.mark.threat("10a", "10b", "10c", "10d", "10e", "10f", "10g", "10h", "10i", "10j", "10k")
@pytest.mark.standard("RFC 7515")
async def test_no_header_chooses_the_algorithm_or_the_key(
    scene: Scene, agent: App, api: Resource, subject: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The algorithm and the key are ours to choose: no header can bring others in, nor have them fetched."""
    assert await scene.exchange(agent, subject, api, "read")
    header, payload, signature = _services(subject)
    zone = await scene.services.zones.get(scene.zone.id)
    rsa = zone.signing("RS256")
    pem = rsa.private_key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    jwk = json.dumps(rsa.public_jwk).encode()
    hs256 = header | {"alg": "HS256"}
    own = SigningKey.generate("RS256")
    twice = json.dumps(payload)[:-1].encode() + b', "sub": "root"}'

    duplicated = f"{_part(header)}.{_part(twice)}.{signature}"
    forged = [
        f"{_part(header | {'alg': 'none'})}.{_part(payload)}.",
        f"{_part(header | {'alg': 'none'})}.{_part(payload)}.{signature}",
        _hmac(hs256, payload, pem),
        _hmac(hs256, payload, jwk),
        _hmac(header | {"alg": "hs256"}, payload, pem),
        f"{_part(header | {'alg': 'ES256'})}.{_part(payload)}.{signature}",
        own.sign(payload, typ="at+jwt"),
        *(
            f"{_part(header | extra)}.{_part(payload)}.{signature}"
            for extra in (
                {"jwk": own.public_jwk},
                {"jku": "http://127.0.0.1:1/jwks"},
                {"x5u": "http://127.0.0.1:1/cert"},
                {"crit": ["x"], "x": 1},
            )
        ),
        f"{_part(header)}.{_part(payload)}.{signature}\n",
        f"{_part(header)}.{_part(payload)}.{signature}.{signature}.{signature}",
        duplicated,
        f"{_part(header)}.{_part(payload | {'sub': 'root'})}.{signature}",
        "not a token",
    ]
    fetched: list[str] = []

    async def fetch(_: Outbound, *request: Any, **__: Any) -> None:
        fetched.append(repr(request))
        raise OutboundFailed("nothing is asked", temporary=False)

    monkeypatch.setattr(Outbound, "_request", fetch)
    refusals = {token: type(await _refused(scene, agent, api, token)) for token in forged}
    no_tokens = {each for each in forged if each.count(".") != 2 or each.endswith(("\n", "."))} | {duplicated}
    assert refusals == {token: InvalidRequest if token in no_tokens else InvalidGrant for token in forged}
    assert fetched == []


@pytest.mark.threat("11a", "11b", "11c", "11d", "11e", "11f", "11i")
@pytest.mark.standard("RFC 7515")
async def test_kid_is_only_a_lookup_key(scene: Scene, agent: App, api: Resource, subject: str) -> None:
    """Whatever stands in `kid`, it selects one of the zone's keys or none."""
    assert await scene.exchange(agent, subject, api, "read")
    header, payload, signature = _services(subject)
    elsewhere = await scene.company.zone("Elsewhere")
    foreign = (await scene.services.zones.get(elsewhere.id)).signing("RS256").kid
    kids: list[Any] = [
        "../../etc/passwd",
        "' OR 1=1 --",
        "k" * 10_000,
        "nul\0nul",
        "line\r\nbreak",
        "https://keys.test/jwks",
        foreign,
        None,
        7,
        ["a"],
        {},
    ]
    tokens = [f"{_part(header | {'kid': kid})}.{_part(payload)}.{signature}" for kid in kids]
    refusals = [await _refused(scene, agent, api, token) for token in tokens]
    assert not [each.internal for each in refusals if {"\r", "\n"} & {*each.internal}]


@pytest.mark.threat("11g")
async def test_token_of_a_removed_key(company: Company) -> None:
    """After an emergency rotation the old key is gone, and every token it signed with it."""
    own_scene = Scene(company, await company.zone("Rotated"))
    api = await company.resource(own_scene.zone, "https://api.test")
    agent = await company.app(own_scene.zone, "agent", dependencies=[api])
    ann = await company.person(own_scene.zone, "ann@acme.test")
    subject = await company.token(own_scene.zone, agent, ann)
    assert await own_scene.exchange(agent, subject, api)

    await key_rotation.rotate(company.services, own_scene.zone.id, at_once=True)

    with pytest.raises(InvalidGrant):
        await own_scene.exchange(agent, subject, api)
    renewed = await company.token(own_scene.zone, agent, ann)
    assert await own_scene.exchange(agent, renewed, api)


@pytest.mark.threat("12a")
async def test_token_of_another_zone(scene: Scene, agent: App, api: Resource, subject: str) -> None:
    """Two zones with the same user and application names have nothing in common."""
    company = scene.company
    twin = Scene(company, await company.zone("Twin"))
    twin_api = await company.resource(twin.zone, "https://api.test", scopes=["read"])
    twin_agent = await company.app(twin.zone, "agent", dependencies=[twin_api])
    twin_ann = await company.person(twin.zone, "ann@acme.test")
    own = await company.token(twin.zone, twin_agent, twin_ann)
    assert await twin.exchange(twin_agent, own, twin_api, "read")

    await _refused(twin, twin_agent, twin_api, subject)
    await _refused(scene, agent, api, own)


@pytest.mark.threat("13a", "13b", "13d", "13e")
@pytest.mark.standard("RFC 8725")
async def test_other_classes_of_tokens(
    scene: Scene, agent: App, api: Resource, subject: str, ann: Person
) -> None:
    """Only an access token is a subject token, however well another one is signed."""
    assert await scene.exchange(agent, subject, api, "read")
    zone = await scene.services.zones.get(scene.zone.id)
    now = scene.services.clock()
    claims = claims_of(subject)
    id_token = issue_id_token(
        zone,
        subject=ann.user.identifier,
        client_id=agent.client_id,
        session_id=ann.session_id,
        access_token=subject,
        nonce=None,
        authenticated_at=now,
        acr=None,
        now=now,
        expires_at=now + timedelta(hours=1),
    )
    key = zone.signing("RS256")
    others = [id_token, *(key.sign(claims, typ=typ) for typ in ("JWT", "m2m+jwt", "logout+jwt", "reg+jwt"))]
    assert not [
        token for token in others if not isinstance(await _refused(scene, agent, api, token), InvalidGrant)
    ]
    assert not [
        opaque
        for opaque in ("a" * 43, "code.value")
        if not isinstance(await _refused(scene, agent, api, opaque), InvalidRequest)
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda claims: claims | {"sub": 7},
        lambda claims: claims | {"aud": ["https://api.test", "https://other.test"]},
        lambda claims: claims | {"sid": 5},
        lambda claims: claims | {"cnf": {"jkt": "x"}},
        lambda claims: claims | {"act": "agent"},
        lambda claims: claims | {"act": {"sub": "gone"}},
        lambda claims: claims | {"scope": 'a"b'},
        lambda claims: claims | {"sub": "bob@acme.test"},
        lambda claims: claims | {"sid": "unknown"},
        lambda claims: {name: value for name, value in claims.items() if name != "client_id"},
        lambda claims: {name: value for name, value in claims.items() if name != "sid"},
        lambda claims: claims | {"client_id": "nobody"},
    ],
)
async def test_claims_that_do_not_fit(
    scene: Scene,
    agent: App,
    api: Resource,
    subject: str,
    change: Callable[[dict[str, Any]], dict[str, Any]],
) -> None:
    """A token that our own key signed is still checked claim by claim."""
    zone = await scene.services.zones.get(scene.zone.id)
    assert await scene.exchange(
        agent, zone.signing("RS256").sign(claims_of(subject), typ="at+jwt"), api, "read"
    )

    changed = zone.signing("RS256").sign(change(claims_of(subject)), typ="at+jwt")

    assert isinstance(await _refused(scene, agent, api, changed), InvalidGrant)
