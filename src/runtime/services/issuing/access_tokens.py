"""Making the zone's tokens. Spec: zone interface, section 3."""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from runtime.domain.identifiers import random_draw
from runtime.domain.oauth import claims
from runtime.domain.oauth.claims import ACCESS_TOKEN_TYPE, ID_TOKEN_TYPE, AccessTokenFacts
from runtime.services.client_types import ID_TOKEN_ALGORITHM
from runtime.services.zones import CachedZone


def new_token_id() -> str:
    """A `jti`: 128 random bits."""
    return urlsafe_b64encode(random_draw()).rstrip(b"=").decode("ascii")


def token_type(jkt: str | None) -> str:
    """How a token is presented: one that is bound to a key, with a proof. Spec: RFC 9449 section 5."""
    return "Bearer" if jkt is None else "DPoP"


def confirmation(jkt: str | None) -> dict[str, str] | None:
    """The `cnf` of a token that is bound to the key of that thumbprint. Spec: RFC 9449 section 6.1."""
    return None if jkt is None else {"jkt": jkt}


def issue_access_token(zone: CachedZone, facts: AccessTokenFacts) -> str:
    """An access token of the zone. Raises as `sign_access_token` does."""
    return sign_access_token(zone, claims.access_token(facts))


def sign_access_token(zone: CachedZone, written: Mapping[str, Any]) -> str:
    """An access token with these claims, signed with the algorithm that the zone has chosen.

    Raises: ValueError when the claims contradict the zone: then a caller has mixed up two zones.
    """
    if written["iss"] != zone.issuer:
        raise ValueError("claims of another issuer's token")
    if written["exp"] <= written["iat"]:
        raise ValueError("the token expires before it is issued")
    return zone.signing(zone.access_token_algorithm).sign(written, typ=ACCESS_TOKEN_TYPE)


def issue_id_token(
    zone: CachedZone,
    *,
    subject: str,
    client_id: str,
    session_id: str,
    access_token: str | None,
    nonce: str | None,
    authenticated_at: datetime | None,
    acr: str | None,
    now: datetime,
    expires_at: datetime,
    extra: dict[str, Any] | None = None,
    algorithm: str = ID_TOKEN_ALGORITHM,
) -> str:
    """An ID token for the application that the user signed in to.

    Args:
        subject: the user's zone identifier.
        access_token: the one it is issued with, which `at_hash` binds it to.
        extra: claims about the user that the granted scopes allow.
        algorithm: what the client waits for.
    Spec: OpenID Connect Core section 2; zone interface, section 3.
    """
    settled: dict[str, Any] = {
        "iss": zone.issuer,
        "sub": subject,
        "aud": client_id,
        "iat": claims.seconds(now),
        "exp": claims.seconds(expires_at),
        "nonce": nonce,
        "auth_time": claims.seconds(authenticated_at) if authenticated_at else None,
        "acr": acr,
        "sid": session_id,
        "at_hash": claims.at_hash(access_token, algorithm) if access_token else None,
    }
    written = {name: value for name, value in (extra or {}).items() if name not in settled}
    written |= {name: value for name, value in settled.items() if value is not None}
    return zone.signing(algorithm).sign(written, typ=ID_TOKEN_TYPE)
