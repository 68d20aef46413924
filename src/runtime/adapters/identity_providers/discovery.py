"""Discovery: what external providers publish about themselves, cached and checked. Spec: RFC 8414."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from runtime.adapters.identity_providers.answers import ProviderRefused, metadata_address
from runtime.adapters.identity_providers.settings import ProviderSettings
from runtime.adapters.outbound import Outbound, OutboundFailed, pause_after
from runtime.adapters.shared_fetch import SharedFetch

DISCOVERY_SECONDS = 300


class ProviderDiscovery:
    """The metadata of every provider of every zone, remembered for five minutes."""

    def __init__(self, outbound: Outbound) -> None:
        self._outbound = outbound
        self._discovered: SharedFetch[Mapping[str, Any]] = SharedFetch(
            lifetime_seconds=DISCOVERY_SECONDS, failure_lifetime=pause_after
        )

    async def metadata(self, settings: ProviderSettings) -> Mapping[str, Any]:
        """The document at the address of OpenID Connect Discovery section 4.

        Raises: ProviderRefused when the published issuer is not byte for byte the configured one;
            OutboundRefused, OutboundFailed.
        """
        return await self._document(settings, metadata_address(settings))

    async def oauth_metadata(self, settings: ProviderSettings) -> Mapping[str, Any]:
        """The OpenID document, or where there is none that of RFC 8414 section 3; raises as `metadata`."""
        try:
            return await self.metadata(settings)
        except OutboundFailed as failed:
            if failed.status not in (404, 410):
                raise
        return await self._document(settings, oauth_metadata_address(settings.issuer))

    async def _document(self, settings: ProviderSettings, address: str) -> Mapping[str, Any]:
        async def fetch() -> Mapping[str, Any]:
            fetched = await self._outbound.get_json(address, partition=settings.partition)
            if not isinstance(fetched.json, dict):
                raise OutboundFailed("the answer is not provider metadata", temporary=False)
            return fetched.json

        # For each zone by itself: one that holds up its own fetches must not hold up another's.
        document = await self._discovered.get(address, fetch, partition=settings.partition)
        if document.get("issuer") != settings.issuer:
            raise ProviderRefused("issuer_mismatch", "the provider publishes another issuer than configured")
        return document


def oauth_metadata_address(issuer: str) -> str:
    """Where an authorization server publishes its metadata. Spec: RFC 8414 section 3.1."""
    parts = urlsplit(issuer)
    path = f"/.well-known/oauth-authorization-server{parts.path.rstrip('/')}"
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))
