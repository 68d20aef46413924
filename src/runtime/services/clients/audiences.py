"""The `aud` values that client assertions may have."""

from runtime.services.zones import CachedZone


def accepted_audiences(zone: CachedZone) -> frozenset[str]:
    """The zone's issuer, and unless the zone is strict its token endpoint; at every endpoint the same.

    Spec: zone interface, section 4; draft-ietf-oauth-rfc7523bis, which wants the issuer alone.
    """
    oauth2 = zone.entity.protocols.oauth2
    strict = {zone.issuer}
    return frozenset(strict if oauth2.strict_assertion_audience else strict | {str(oauth2.token_endpoint)})
