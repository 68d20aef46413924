"""ID tokens that come back as hints of who is meant. One lets nobody in, so it may have expired."""

from typing import Any

from runtime.adapters.keys.signing import InvalidJwt, verify
from runtime.domain.oauth.claims import ID_TOKEN_TYPE
from runtime.services.container import Services
from runtime.services.zones import CachedZone


def read_hint(
    services: Services, zone: CachedZone, hint: str, *, client_id: str | None
) -> dict[str, Any] | None:
    """The claims of an ID token that this zone issued; None when it is none.

    Args:
        client_id: the client that it must have been issued to; None for any.
    """
    try:
        return verify(
            hint,
            zone.keys,
            typ=ID_TOKEN_TYPE,
            issuer=zone.issuer,
            audience=client_id,
            now=services.clock(),
            allow_expired=True,
        )
    except InvalidJwt:
        return None
