"""The key with which a zone authenticates at a provider's token and revocation endpoints (RFC 7523)."""

from runtime.adapters.identity_providers.settings import ProviderSettings
from runtime.adapters.keys.signing import SigningKey
from runtime.adapters.upstream_oauth.client_authentication import ASSERTION_ALGORITHM, signs_assertions
from runtime.services.zones import CachedZone


def assertion_key(zone: CachedZone, settings: ProviderSettings) -> SigningKey | None:
    """A key that the zone publishes; None where it authenticates in another way."""
    return zone.signing(ASSERTION_ALGORITHM) if signs_assertions(settings) else None
