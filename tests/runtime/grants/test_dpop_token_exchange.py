"""Tokens that are bound to a key, where applications act: on their own behalf and along chains."""

import base64
import json
import math
import secrets
from dataclasses import replace
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm
from tests.support.factories import App
from tests.support.possession import Holder
from tests.support.scene import Scene, acting, claims_of
from tests.support.state_doubles import remembering

from runtime.adapters.keys.dpop_signature import verify_dpop_proof
from runtime.domain.errors import InvalidDpopProof, InvalidGrant, Unavailable
from runtime.domain.oauth import dpop_claims
from runtime.services.container import Services
from runtime.storage.state.memory import InProcessState

FORM = [("grant_type", "client_credentials")]
HOLDER, OTHER = Holder(), Holder()


def endpoint(scene: Scene) -> str:
    return str(scene.zone.protocols.oauth2.token_endpoint)


@pytest.fixture(scope="module")
async def agent(scene: Scene) -> App:
    return await scene.company.app(scene.zone, "agent")


@pytest.mark.standard("RFC 9449")
async def test_a_token_is_bound_to_the_key_that_was_proved(scene: Scene, agent: App) -> None:
    """With a proof the token carries its key's thumbprint; without, nothing changes."""
    fields = [*FORM, *agent.form.items()]
    bound = await scene.post(fields, proof=HOLDER.proof(endpoint(scene)))
    assert bound["token_type"] == "DPoP"
    assert claims_of(bound["access_token"])["cnf"] == {"jkt": HOLDER.jkt}
    plain = await scene.post(fields)
    assert plain["token_type"] == "Bearer"
    assert "cnf" not in claims_of(plain["access_token"])


RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
WEAK_KEY = rsa.generate_private_key(public_exponent=65537, key_size=1024)


def dear(key: rsa.RSAPrivateKey) -> rsa.RSAPrivateKey:
    """A key of the same modulus whose public exponent is as long: verifying takes as long as signing."""
    known = key.private_numbers()
    p, q = known.p, known.q
    order = (p - 1) * (q - 1)
    exponent = next(
        each for each in range(order - 1, 1, -2) if math.gcd(each, order) == 1 and each != order - 1
    )
    d = pow(exponent, -1, order)
    public = rsa.RSAPublicNumbers(exponent, p * q)
    return rsa.RSAPrivateNumbers(p, q, d, d % (p - 1), d % (q - 1), known.iqmp, public).private_key()


def by_rsa(uri: str, now: int, key: rsa.RSAPrivateKey, algorithm: str, **header: Any) -> str:
    """A proof that is signed with an RSA key."""
    jwk = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    claims = {"jti": secrets.token_hex(8), "htm": "POST", "htu": uri, "iat": now}
    return jwt.encode(claims, key, algorithm, {"typ": "dpop+jwt", "jwk": jwk, **header})


def good_proofs(uri: str, now: int) -> dict[str, str]:
    """Proofs for a token request at that address and time."""
    return {
        "plain": HOLDER.proof(uri),
        "query and fragment": HOLDER.proof(f"{uri}?a=1#b"),
        "case and default port": HOLDER.proof(uri.replace("http://zones.test", "HTTP://Zones.Test:80")),
        "fifty seconds old": HOLDER.proof(uri, iat=now - 50),
        "unasked nonce": HOLDER.proof(uri, nonce="not asked for"),
        "PS256": by_rsa(uri, now, RSA_KEY, "PS256"),
    }


def wrong_proofs(uri: str, now: int) -> dict[str, str]:
    """The same with one thing wrong each."""
    claims = {"jti": "x", "htm": "POST", "htu": uri, "iat": now}
    public = RSAAlgorithm.to_jwk(RSA_KEY.public_key(), as_dict=True)
    private = {**HOLDER.jwk, "d": "AAAA"}
    unsigned = ".".join(
        base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode()
        for each in ({"alg": "none", "typ": "dpop+jwt", "jwk": HOLDER.jwk}, claims)
    )
    return {
        "typ": HOLDER.proof(uri, header={"typ": "JWT"}),
        "no key": HOLDER.proof(uri, header={"jwk": None}),
        "text for a key": HOLDER.proof(uri, header={"jwk": "key"}),
        "another's key": HOLDER.proof(uri, header={"jwk": OTHER.jwk}),
        "private key": HOLDER.proof(uri, header={"jwk": private}),
        "odd members": HOLDER.proof(uri, header={"jwk": {"kty": [], "crv": {}, "alg": []}}),
        "off the curve": HOLDER.proof(uri, header={"jwk": {**HOLDER.jwk, "y": HOLDER.jwk["x"]}}),
        "symmetric": jwt.encode(
            claims, "s" * 32, "HS256", {"typ": "dpop+jwt", "jwk": {"kty": "oct", "k": "c" * 43}}
        ),
        "none": f"{unsigned}.eA",
        "RS512": by_rsa(uri, now, RSA_KEY, "RS512"),
        "key for another algorithm": by_rsa(uri, now, RSA_KEY, "RS256", jwk={**public, "alg": "PS256"}),
        "weak": by_rsa(uri, now, WEAK_KEY, "RS256"),
        "crit": HOLDER.proof(uri, header={"crit": ["x"], "x": 1}),
        "jku": HOLDER.proof(uri, header={"jku": "https://evil.example"}),
        "method": HOLDER.proof(uri, "GET"),
        "address": HOLDER.proof(f"{uri}/"),
        "host": HOLDER.proof(uri.replace("zones.test", "evil.test")),
        "userinfo": HOLDER.proof(uri.replace("zones.test", "a@zones.test")),
        "no address": HOLDER.proof(uri, htu="::"),
        "old": HOLDER.proof(uri, iat=now - 600),
        "ahead": HOLDER.proof(uri, iat=now + 600),
        "no time": HOLDER.proof(uri, iat=None),
        "no jti": HOLDER.proof(uri, jti=None),
        "long jti": HOLDER.proof(uri, jti="j" * 1000),
        "no JWS": "proof",
        "empty": "",
    }


async def post_with(scene: Scene, agent: App, proof: str, services: Services) -> dict[str, Any]:
    return await scene.post([*FORM, *agent.form.items()], proof=proof, services=services)


@pytest.mark.standard("RFC 9449")
async def test_a_proof_for_this_request_counts_once(scene: Scene, agent: App) -> None:
    """The second time it is refused like any other."""
    services = remembering(scene.services)  # a state that is younger than a proof cannot tell
    once = HOLDER.proof(endpoint(scene))
    assert (await post_with(scene, agent, once, services))["token_type"] == "DPoP"

    with pytest.raises(InvalidDpopProof) as refusal:
        await post_with(scene, agent, once, services)

    assert refusal.value.detail == "the DPoP proof is not valid for this request"


@pytest.mark.standard("RFC 9449")
async def test_good_proofs_are_taken_however_they_are_written(scene: Scene, agent: App) -> None:
    """Every one of them, by either type of key, and with what the standard says to ignore."""
    services, now = remembering(scene.services), int(scene.services.clock().timestamp())
    types = {
        name: (await post_with(scene, agent, proof, services))["token_type"]
        for name, proof in good_proofs(endpoint(scene), now).items()
    }
    assert types == dict.fromkeys(types, "DPoP")


WRONG_PROOFS = (
    *("typ", "no key", "text for a key", "another's key", "private key", "odd members", "off the curve"),
    *("symmetric", "none", "RS512", "key for another algorithm", "weak", "crit", "jku", "method"),
    *("address", "host", "userinfo", "no address", "old", "ahead", "no time", "no jti", "long jti"),
    *("no JWS", "empty"),
)


@pytest.mark.threat("31z")
async def test_a_key_that_makes_verifying_dear_is_not_used(scene: Scene, agent: App) -> None:
    """Its signature is right, and its exponent as long as its modulus."""
    uri, now = endpoint(scene), int(scene.services.clock().timestamp())
    assert await post_with(scene, agent, by_rsa(uri, now, RSA_KEY, "RS256"), scene.services)

    with pytest.raises(InvalidDpopProof) as refusal:
        await post_with(scene, agent, by_rsa(uri, now, dear(RSA_KEY), "RS256"), scene.services)

    assert refusal.value.internal == "a key that cannot be used, or not with that algorithm"


@pytest.mark.filterwarnings("ignore:The RSA key is 1024 bits long")
@pytest.mark.standard("RFC 9449")
@pytest.mark.parametrize("case", WRONG_PROOFS)
async def test_what_a_proof_must_be(scene: Scene, agent: App, case: str) -> None:
    """About this request, about now, by a public key of its own. Everything else has one refusal."""
    services, now = remembering(scene.services), int(scene.services.clock().timestamp())
    wrong = wrong_proofs(endpoint(scene), now)
    assert set(wrong) == set(WRONG_PROOFS)

    with pytest.raises(InvalidDpopProof) as refusal:
        await post_with(scene, agent, wrong[case], services)

    assert refusal.value.detail == "the DPoP proof is not valid for this request"


async def test_without_the_shared_state_no_proof_counts(scene: Scene, agent: App) -> None:
    """Whether a proof was used before cannot be told then."""

    class Away(InProcessState):
        async def use_once(self, key: str, *, made_at: float, ttl_seconds: int) -> bool:
            raise Unavailable("away")

    fields, uri = [*FORM, *agent.form.items()], endpoint(scene)
    assert await scene.post(fields, proof=HOLDER.proof(uri))
    with pytest.raises(Unavailable):
        await scene.post(fields, proof=HOLDER.proof(uri), services=replace(scene.services, state=Away()))


@pytest.mark.threat("17d")
@pytest.mark.standard("RFC 9449")
async def test_each_link_of_a_chain_is_bound_to_its_own_key(own_scene: Scene) -> None:
    """Each key has tokens of its own; a bound one is exchanged by who has the key, or by its audience."""
    company, zone, uri = own_scene.company, own_scene.zone, endpoint(own_scene)
    api = await company.resource(zone, "https://api.test", scopes=["read"])
    tool = await company.app(zone, "tool", dependencies=[api])
    tools = await company.resource(zone, "https://tools.test", scopes=["use"], application_id=tool.id)
    agent = await company.app(zone, "agent", dependencies=[tools, api])
    other = await company.app(zone, "other", dependencies=[api])
    person = await company.person(zone, "ann@acme.test")
    subject = await company.token(zone, agent, person)

    async def exchanged(holder: Holder | None, token: str = subject, app: App = agent) -> dict[str, Any]:
        proof = holder.proof(uri) if holder else None
        return await own_scene.exchange(app, token, tools, proof=proof)

    first, again = await exchanged(HOLDER), await exchanged(HOLDER)
    assert first["access_token"] == again["access_token"]  # from the cache, under the same key
    another, plain = await exchanged(OTHER), await exchanged(None)
    assert len({each["access_token"] for each in (first, another, plain)}) == 3
    assert [each["token_type"] for each in (first, another, plain)] == ["DPoP", "DPoP", "Bearer"]
    assert claims_of(another["access_token"])["cnf"] == {"jkt": OTHER.jkt}

    bound = first["access_token"]
    assert (await own_scene.exchange(agent, bound, api, proof=HOLDER.proof(uri)))["token_type"] == "DPoP"
    for proof in (None, OTHER.proof(uri)):
        with pytest.raises(InvalidGrant):
            await own_scene.exchange(agent, bound, api, proof=proof)
    with pytest.raises(InvalidGrant):
        await own_scene.exchange(other, bound, api, proof=HOLDER.proof(uri))
    further = await own_scene.exchange(tool, bound, api, proof=OTHER.proof(uri))
    assert claims_of(further["access_token"])["cnf"] == {"jkt": OTHER.jkt}
    assert acting(claims_of(further["access_token"])) == ("tool", "agent")


def test_the_thumbprint_is_the_one_of_the_standard() -> None:
    """The example key of RFC 9449 has the thumbprint that its section 6 gives."""
    proof = (
        "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpD"
        "a0RscEJoRjQyVVFVZldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6"
        "IlAtMjU2In19.eyJqdGkiOiItQndDM0VTYzZhY2MybFRjIiwiaHRtIjoiUE9TVCIsImh0dSI6Imh0dHBzOi8vc2VydmVyLmV4YW1wbGUu"
        "Y29tL3Rva2VuIiwiaWF0IjoxNTYyMjYyNjE2fQ.2-GxA6T8lP4vfrg8v-FdWP0A0zdrj8igiMLvqRMUvwnQg4PtFLbdLXiOSsX0x7NVY-"
        "FNyJK70nfbV37xRZT3Lg"
    )
    opened = verify_dpop_proof(proof)
    assert opened.claims["htu"] == "https://server.example.com/token"
    assert opened.thumbprint == "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"
    assert dpop_claims.is_thumbprint(opened.thumbprint)
