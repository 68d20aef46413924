"""Verifies access tokens that a zone has issued for the management API. Spec: RFC 9068 section 4."""

from typing import Any

from runtime.adapters.keys.signing import verify
from runtime.services.container import Services
from runtime.services.zones import CachedZone


def claims(services: Services, zone: CachedZone, token: str, *, typ: str) -> dict[str, Any]:
    """What a token of that class says, which one of the zone's keys has signed. Raises InvalidJwt."""
    return verify(
        token,
        zone.keys,
        typ=typ,
        issuer=zone.issuers,
        audience=services.settings.public_url,
        now=services.clock(),
    )
