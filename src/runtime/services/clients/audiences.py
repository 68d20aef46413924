"""The `aud` values that client assertions may have."""

from runtime.services.zones import CachedZone


def accepted_audiences(zone: CachedZone) -> frozenset[str]:
    """The zone's issuer, and unless the zone is strict its token endpoint; at every endpoint the same.

    Spec: zone interface, section 4; the successor of RFC 7523, which wants the issuer alone.
    """
    if zone.settings.strict_assertion_audience:
        return frozenset({zone.issuer})
    return frozenset({zone.issuer, str(zone.entity.protocols.oauth2.token_endpoint)})
