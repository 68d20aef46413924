"""Clients that sign: their keys, what they say, and what comes of it."""

import secrets
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from tests.support.factories import App
from tests.support.scene import Scene

from runtime.adapters.keys.signing import SigningKey
from runtime.domain.errors import InvalidClient
from runtime.domain.oauth.assertions import CLIENT_ASSERTION_TYPE

FORM = [("grant_type", "client_credentials")]
RSA, EC, STRANGER = (SigningKey.generate(each) for each in ("RS256", "ES256", "ES256"))
ED = ed25519.Ed25519PrivateKey.generate()


def b64(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def ed_jwk() -> dict[str, str]:
    raw = ED.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return {"kty": "OKP", "crv": "Ed25519", "x": b64(raw), "kid": "ed", "use": "sig"}


def unnamed(key: SigningKey, kid: str) -> dict[str, str]:
    """A published key that leaves the algorithm to its type."""
    return {name: value for name, value in key.public_jwk.items() if name != "alg"} | {"kid": kid}


@dataclass(frozen=True)
class Signer:
    """An application that signs its assertions, and what it would say now."""

    scene: Scene
    app: App
    client_id: str

    @property
    def endpoint(self) -> str:
        return str(self.scene.zone.protocols.oauth2.token_endpoint)

    @property
    def issuer(self) -> str:
        return str(self.scene.zone.protocols.oauth2.issuer)

    def claims(self, **changes: Any) -> dict[str, Any]:
        at = int(self.scene.services.clock().timestamp())
        plain = {
            "iss": self.client_id,
            "sub": self.client_id,
            "aud": self.issuer,
            "iat": at,
            "exp": at + 60,
            "jti": secrets.token_hex(8),
        }
        return {name: value for name, value in {**plain, **changes}.items() if value is not None}

    def sign(self, key: SigningKey = EC, *, typ: str = "JWT", **changes: Any) -> str:
        return key.sign(self.claims(**changes), typ=typ)


def form(assertion: str, **more: str) -> list[tuple[str, str]]:
    shown = {"client_assertion_type": CLIENT_ASSERTION_TYPE, "client_assertion": assertion, **more}
    return [*FORM, *shown.items()]


async def refused(scene: Scene, fields: list[tuple[str, str]], **more: Any) -> InvalidClient:
    with pytest.raises(InvalidClient) as refusal:
        await scene.post(fields, address=secrets.token_hex(4), **more)
    assert (refusal.value.detail, refusal.value.basic) == ("client authentication failed", False)
    return refusal.value
