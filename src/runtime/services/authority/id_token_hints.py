"""`id_token_hint`: an ID token of the zone that names a user. It authenticates nobody, and may have expired.

Spec: OpenID Connect Core section 3.1.2.1; RP-Initiated Logout section 2.
"""

from dataclasses import dataclass

from runtime.adapters.keys.signing import InvalidJwt, verify
from runtime.domain.oauth.claims import ID_TOKEN_TYPE
from runtime.services.container import Services
from runtime.services.zones import CachedZone


@dataclass(frozen=True, slots=True)
class IdTokenHint:
    """What a verified ID token says; a claim that is absent, or not a string, is None.

    Attributes:
        subject: `sub`, the user's identifier in the zone.
        client_id: `aud`, the client it was issued to.
        session_id: `sid`, the session it was issued in.
    """

    subject: str | None
    client_id: str | None
    session_id: str | None


def read_hint(
    services: Services, zone: CachedZone, hint: str, *, client_id: str | None
) -> IdTokenHint | None:
    """What an ID token of this zone says; None when the zone did not issue it.

    Args:
        client_id: the client that it must have been issued to; None for any.
    """
    try:
        claims = verify(
            hint,
            zone.keys,
            typ=ID_TOKEN_TYPE,
            issuer=zone.issuers,
            audience=client_id,
            now=services.clock(),
            allow_expired=True,
        )
    except InvalidJwt:
        return None
    return IdTokenHint(_text(claims.get("sub")), _text(claims.get("aud")), _text(claims.get("sid")))


def _text(claim: object) -> str | None:
    return claim if isinstance(claim, str) else None
