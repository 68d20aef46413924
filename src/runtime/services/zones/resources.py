"""The resources of a zone, and which registered resource a request means (RFC 8707)."""

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.resources import ResourceIndex, canonical
from runtime.services import cache_sizes
from runtime.services.zones.read_through import ReadThroughCache
from runtime.storage.sql import zone_data as storage
from runtime.storage.sql.database import Database

_BOUNDARIES = ("/", "?")


class ResourceCache:
    """The resources of one zone."""

    def __init__(self, database: Database, zone_id: str) -> None:
        self._zone_id = zone_id
        self._by_identifier: ReadThroughCache[Resource] = ReadThroughCache(database, cache_sizes.RESOURCES)
        self._by_id: ReadThroughCache[Resource] = ReadThroughCache(database, cache_sizes.RESOURCES)
        self._by_application: ReadThroughCache[tuple[Resource, ...]] = ReadThroughCache(
            database, cache_sizes.RESOURCES_BY_APPLICATION
        )

    async def resolve(self, requested: str) -> Resource | None:
        """The registered resource that a request means: the one of that name, else the longest prefix."""
        return await self._by_identifier.read(requested, lambda conn: resolve(conn, self._zone_id, requested))

    async def get(self, resource_id: str) -> Resource | None:
        """The resource of that id."""
        return await self._by_id.read(
            resource_id, lambda conn: storage.resource(conn, self._zone_id, resource_id)
        )

    async def provided_by(self, application_id: str) -> tuple[Resource, ...]:
        """The resources that an application provides."""

        async def query(conn: AsyncConnection) -> tuple[Resource, ...] | None:
            return await storage.resources_of(conn, self._zone_id, application_id) or None

        return await self._by_application.read(application_id, query) or ()


async def resolve(conn: AsyncConnection, zone_id: str, requested: str) -> Resource | None:
    """The resource that a request means, among the few whose registered spelling can be meant."""
    if (key := canonical(requested)) is None:
        return None
    shorter = {key[: at + keep] for at in range(len(key)) if key[at] in _BOUNDARIES for keep in (0, 1)}
    prefixes = shorter | {key, f"{key}/"}
    exact = {requested, key, f"{key}/", requested.removesuffix("/")}
    found = await storage.resources_named(conn, zone_id, exact=exact, prefixes=prefixes)
    return ResourceIndex((each.identifier, each.prefix, each) for each in found).find(requested)
