"""ID tokens that come back as hints of who is meant. One lets nobody in, so it may have expired."""

from typing import Any

from runtime.adapters.keys.signing import InvalidToken, verify
from runtime.domain.oauth.claims import ID_TOKEN_TYPE
from runtime.services.parts import Parts
from runtime.services.zones import ZoneView


def read_hint(parts: Parts, view: ZoneView, hint: str, *, client_id: str | None) -> dict[str, Any] | None:
    """The claims of an ID token that this zone issued; None when it is none.

    Args:
        client_id: the client that it must have been issued to; None for any.
    """
    try:
        return verify(
            hint,
            view.keys,
            typ=ID_TOKEN_TYPE,
            issuer=view.issuer,
            audience=client_id,
            now=parts.clock(),
            allow_expired=True,
        )
    except InvalidToken:
        return None
