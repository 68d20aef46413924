"""The providers of a zone."""

from runtime.domain import cache_tags
from runtime.domain.kinds.provider import Provider
from runtime.services import cache_sizes
from runtime.services.zones.tagged_cache import ChangeHistory, ReadThroughCache
from runtime.storage.sql import zone_data as storage
from runtime.storage.sql.database import Database


class ProviderCache:
    """The providers of one zone."""

    def __init__(self, database: Database, zone_id: str, history: ChangeHistory) -> None:
        self._zone_id = zone_id
        self._by_id: ReadThroughCache[Provider] = ReadThroughCache(database, cache_sizes.PROVIDERS, history)

    async def get(self, provider_id: str) -> Provider | None:
        """The provider of that id."""
        return await self._by_id.read(
            provider_id,
            lambda conn: storage.provider(conn, self._zone_id, provider_id),
            lambda found: {found.id, cache_tags.shown(found.id)},
        )
