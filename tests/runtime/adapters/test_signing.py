"""Signing tokens, and refusing every token that was not signed by us for this use."""

import base64
import hmac
import json
from datetime import UTC, datetime, timedelta

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from runtime.adapters.keys.signing import (
    InvalidJwt,
    MalformedJwt,
    SigningKey,
    VerificationKey,
    thumbprint,
    verify,
)

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
ISSUER = "https://zone.example"
RSA, EC, OTHER = SigningKey.generate("RS256"), SigningKey.generate("ES256"), SigningKey.generate("ES256")
KEYS = {key.kid: VerificationKey.from_jwk(key.public_jwk) for key in (RSA, EC)}


def claims(**changes):
    at = int(NOW.timestamp())
    return {"iss": ISSUER, "sub": "ada", "aud": "https://api.example", "iat": at, "exp": at + 60, **changes}


def check(token, **changes):
    return verify(token, KEYS, **{"typ": "at+jwt", "issuer": ISSUER, "audience": None, "now": NOW, **changes})


def part(value):
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(header, payload, key=RSA):
    """A token with any header and payload bytes, properly signed."""
    signing_input = f"{part(header)}.{part(payload)}"
    algorithm = jwt.get_algorithm_by_name(key.algorithm)
    return f"{signing_input}.{part(algorithm.sign(signing_input.encode(), key.private_key))}"


@pytest.mark.parametrize("key", [RSA, EC], ids=["RS256", "ES256"])
def test_verifies_what_it_signed(key):
    """The claims come back, and the header names key and class."""
    token = key.sign(claims(), typ="at+jwt")

    assert check(token, audience="https://api.example") == claims()
    assert jwt.get_unverified_header(token) == {"alg": key.algorithm, "kid": key.kid, "typ": "at+jwt"}


@pytest.mark.standard("RFC 7515")
@pytest.mark.parametrize("key", [RSA, EC], ids=["RS256", "ES256"])
def test_other_libraries_accept_our_tokens(key):
    """A consumer that knows only the published JWK can verify."""
    token = key.sign(claims(iat=1, exp=4102444800), typ="at+jwt")

    decoded = jwt.decode(token, jwt.PyJWK(key.public_jwk), [key.algorithm], audience="https://api.example")

    assert decoded["sub"] == "ada"


@pytest.mark.parametrize("key", [RSA, EC], ids=["RS256", "ES256"])
def test_a_key_survives_storage(key):
    """Written as PEM and read again it is the same key under the same id; nothing private is published."""
    again = SigningKey.from_pem(key.to_pem(), key.algorithm)

    assert again == key
    assert again.public_jwk == key.public_jwk
    assert not key.public_jwk.keys() & {"d", "p", "q", "dp", "dq", "qi"}
    assert VerificationKey.of(key) == VerificationKey.from_jwk(key.public_jwk)


@pytest.mark.standard("RFC 7638")
def test_kid_is_the_thumbprint_of_the_standard():
    """The example of RFC 7638 section 3.1 comes out."""
    n = (
        "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4"
        "n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0"
        "zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-c"
        "sFCur-kEgU8awapJzKnqDKgw"
    )
    assert thumbprint({"kty": "RSA", "n": n, "e": "AQAB"}) == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"


@pytest.mark.parametrize(("pem_of", "algorithm"), [(RSA, "ES256"), (EC, "RS256")])
def test_a_key_fits_its_algorithm(pem_of, algorithm):
    """A stored key cannot be used with the other algorithm."""
    with pytest.raises(ValueError, match="fit"):
        SigningKey.from_pem(pem_of.to_pem(), algorithm)


@pytest.mark.threat("32i")
def test_a_signing_key_shows_nothing_private():
    """Its representation holds what is published and no more."""
    assert "private" not in repr(RSA)


def forgeries():
    """Name -> a token that must not pass."""
    header, payload = {"alg": "RS256", "kid": RSA.kid, "typ": "at+jwt"}, claims()
    signing_input = f"{part({**header, 'alg': 'HS256'})}.{part(payload)}"
    pem = KEYS[RSA.kid].public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    genuine = RSA.sign(payload, typ="at+jwt")
    head, _, signature = genuine.split(".")
    yield "alg none", f"{part({**header, 'alg': 'none'})}.{part(payload)}.{part(b'x')}"
    for name, secret in (("PEM", pem), ("JWK", json.dumps(RSA.public_jwk).encode())):
        mac = hmac.digest(secret, signing_input.encode(), "sha256")
        yield f"HS256 keyed with our {name}", f"{signing_input}.{part(mac)}"
    yield "ES256 header on the RSA key", signed({**header, "alg": "ES256"}, payload, EC)
    yield "PS256 header on the RSA key", signed({**header, "alg": "PS256"}, payload)
    yield "no alg", signed({"kid": RSA.kid, "typ": "at+jwt"}, payload)
    for member, value in {
        "jwk": OTHER.public_jwk,
        "jku": "https://evil.test/jwks",
        "x5u": "https://evil.test/x5u",
        "x5c": ["MII"],
        "crit": ["x"],
        "b64": False,
    }.items():
        yield f"header {member}", signed({**header, member: value}, payload)
    yield "another's key under our kid", signed({**header, "alg": "ES256", "kid": EC.kid}, payload, OTHER)
    yield "another payload", f"{head}.{part({**payload, 'sub': 'eve'})}.{signature}"
    yield "no kid", signed({"alg": "RS256", "typ": "at+jwt"}, payload)
    for kid in (
        "../../etc",
        "' or 1=1 --",
        "k" * 10_000,
        "\x00",
        "https://evil.test/k",
        OTHER.kid,
        7,
        None,
        ["a"],
    ):
        name = "of another key" if kid == OTHER.kid else repr(str(kid)[:20])
        yield f"kid {name}", signed({**header, "kid": kid}, payload)


@pytest.mark.threat("10a", "10b", "10c", "10d", "10e", "10f", "10g", "11a", "11b", "11c", "11d", "11e")
@pytest.mark.standard("RFC 8725", "RFC 7515")
@pytest.mark.parametrize("token", [pytest.param(token, id=name) for name, token in forgeries()])
def test_no_forgery_passes(token):
    """Algorithm confusion, keys brought along, unknown key ids and altered parts are all refused."""
    with pytest.raises(InvalidJwt):
        check(token)


def malformed():
    """Name -> what is not a compact JWS with JSON objects of distinct members inside."""
    header = {"alg": "RS256", "kid": RSA.kid, "typ": "at+jwt"}
    text = json.dumps(claims())
    genuine = RSA.sign(claims(), typ="at+jwt")
    head, body, signature = genuine.split(".")
    stray = signature[:-1] + chr(ord(signature[-1]) + 1)
    yield "duplicate in the payload", signed(header, (text[:-1] + ', "sub": "eve"}').encode())
    yield "duplicate in the header", signed((json.dumps(header)[:-1] + ', "alg": "none"}').encode(), claims())
    yield "nested duplicate", signed(header, (text[:-1] + ', "act": {"sub": "a", "sub": "b"}}').encode())
    yield "NaN", signed(header, (text[:-1] + ', "x": NaN}').encode())
    yield "deep", signed(header, b"[" * 9000)
    yield "array payload", signed(header, b"[]")
    yield "invalid UTF-8", signed(header, b'{"a": "\xff"}')
    yield "five parts", genuine + ".a.b"
    yield "two parts", f"{head}.{body}"
    yield "empty signature", f"{head}.{body}."
    yield "trailing newline", genuine + "\n"
    yield "leading space", " " + genuine
    yield "padding", genuine + "="
    yield "stray bits", f"{head}.{body}.{stray}"
    yield "100 KB", genuine + "A" * 100_000
    yield "empty", ""
    yield "not ASCII", f"{head}.{body}.é"


@pytest.mark.threat("10h", "10i", "10j", "31j")
@pytest.mark.parametrize("token", [pytest.param(token, id=name) for name, token in malformed()])
def test_what_is_no_token_is_told_apart(token):
    """A caller who sends something that is not even a token made an invalid request."""
    with pytest.raises(MalformedJwt):
        check(token)


@pytest.mark.threat("13l")
@pytest.mark.parametrize("typ", ["JWT", "at+jwt2", "logout+jwt", "application/application/at+jwt", ""])
def test_another_class_of_token_is_refused(typ):
    """An ID token is no access token, whoever signed it."""
    with pytest.raises(InvalidJwt):
        check(RSA.sign(claims(), typ=typ))


@pytest.mark.parametrize("typ", ["AT+JWT", "application/at+jwt", "at+jwt"])
def test_spellings_of_one_class_are_one(typ):
    """Case and the media type prefix make no difference. Spec: RFC 7515 section 4.1.9."""
    assert check(EC.sign(claims(), typ=typ))


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://zone.example/"},
        {"iss": None},
        {"exp": int(NOW.timestamp())},
        {"exp": None},
        {"exp": "4102444800"},
        {"exp": True},
        {"exp": 1e300},
        {"iat": int(NOW.timestamp()) + 61},
        {"iat": None},
        {"nbf": int(NOW.timestamp()) + 61},
        {"nbf": "soon"},
    ],
)
def test_issuer_and_times_must_be_right(changes):
    """Wrong issuer, expired, from the future, not valid yet, or times that are no times."""
    with pytest.raises(InvalidJwt):
        check(EC.sign(claims(**changes), typ="at+jwt"))


@pytest.mark.threat("12f")
@pytest.mark.parametrize("audience", ["https://other.example", ["https://api.example"], None])
def test_audience_is_one_exact_value(audience):
    """Our tokens have one audience, so an array is not ours."""
    with pytest.raises(InvalidJwt):
        check(EC.sign(claims(aud=audience), typ="at+jwt"), audience="https://api.example")


@pytest.mark.parametrize("name", ["iat", "nbf"])
def test_a_clock_that_is_ahead_is_put_up_with(name):
    """A minute for the beginning of a token, none for its end; what is only to be ended may be of any age."""
    at = int(NOW.timestamp())
    assert check(EC.sign(claims(**{name: at + 60}), typ="at+jwt"))
    early = EC.sign(claims(**{name: at + 600, "exp": at + 1}), typ="at+jwt")
    with pytest.raises(InvalidJwt):
        check(early)
    assert check(early, allow_early=True)
    with pytest.raises(InvalidJwt):
        check(early, allow_early=True, now=NOW + timedelta(seconds=2))


@pytest.mark.parametrize("name", ["iat", "nbf"])
@pytest.mark.parametrize("wrong", ["soon", 1e300])
def test_a_beginning_that_is_no_time_is_refused(name, wrong):
    """Also where a token of any age is taken, which is only to be ended."""
    with pytest.raises(InvalidJwt):
        check(EC.sign(claims(**{name: wrong}), typ="at+jwt"), allow_early=True)


def test_leeway_and_expired_hints():
    """Clock difference is put up with as asked, and an expired ID token may serve as a hint."""
    late = NOW + timedelta(seconds=90)
    token = EC.sign(claims(), typ="JWT")

    with pytest.raises(InvalidJwt):
        check(token, typ="JWT", now=late)
    assert check(token, typ="JWT", now=late, leeway_seconds=60)
    assert check(token, typ="JWT", now=late, allow_expired=True)


@pytest.mark.parametrize("change", [{"alg": "HS256"}, {"alg": None}, {"n": "AQAB"}, {"kty": "EC"}])
def test_a_published_key_that_is_not_one_of_ours_is_refused(change):
    """Other algorithms, short moduli and mixed-up types do not become verification keys."""
    with pytest.raises(ValueError):
        VerificationKey.from_jwk({**RSA.public_jwk, **change})
