"""Reading a token that a zone has issued for this API, once its signature is checked."""

from typing import Any

from runtime.adapters.keys.signing import verify
from runtime.services.parts import Parts
from runtime.services.zones import ZoneView


def claims(parts: Parts, view: ZoneView, token: str, *, typ: str) -> dict[str, Any]:
    """What a token of that class says, which one of the zone's keys has signed. Raises InvalidToken."""
    return verify(
        token,
        view.keys,
        typ=typ,
        issuer=view.issuer,
        audience=parts.settings.public_url,
        now=parts.clock(),
    )
