"""DPoP proofs as a client makes them."""

import secrets
import time
from dataclasses import dataclass, field
from typing import Any

import jwt

from runtime.adapters.keys.signing import SigningKey
from runtime.domain.oauth.dpop_claims import digest


@dataclass(frozen=True)
class Holder:
    """Who has a key, and proves it."""

    key: SigningKey = field(default_factory=lambda: SigningKey.generate("ES256"))

    @property
    def jkt(self) -> str:
        """The thumbprint of the key."""
        return self.key.kid

    @property
    def jwk(self) -> dict[str, str]:
        """The key as a proof shows it."""
        return {name: self.key.public_jwk[name] for name in ("kty", "crv", "x", "y")}

    def proof(
        self,
        uri: str,
        method: str = "POST",
        *,
        access_token: str | None = None,
        header: dict[str, Any] | None = None,
        **changes: Any,
    ) -> str:
        """A proof for one request; a change of None leaves a claim out."""
        plain = {"jti": secrets.token_hex(8), "htm": method, "htu": uri, "iat": int(time.time())}
        if access_token is not None:
            plain["ath"] = digest(access_token)
        claims = {name: value for name, value in {**plain, **changes}.items() if value is not None}
        headers = {"typ": "dpop+jwt", "jwk": self.jwk, **(header or {})}
        return jwt.encode(claims, self.key.private_key, algorithm="ES256", headers=headers)
