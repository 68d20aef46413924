"""The `aud` values that client assertions may have."""

from runtime.services.zones import CachedZone


def accepted_audiences(zone: CachedZone) -> frozenset[str]:
    """The zone's issuer, and unless the zone is strict its token endpoint; at every endpoint the same.

    While a zone is moved, each of its addresses has both: a client keeps the one that it knows.

    Spec: zone interface, section 4; draft-ietf-oauth-rfc7523bis, which wants the issuer alone.
    """
    if zone.entity.protocols.oauth2.strict_assertion_audience:
        return zone.issuers
    endpoints = (zone.at(issuer).entity.protocols.oauth2.token_endpoint for issuer in zone.issuers)
    return zone.issuers.union(map(str, endpoints))
