"""The resources of a zone, and which registered resource a request means (RFC 8707)."""

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain import cache_tags
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.resources import ResourceIndex, canonical
from runtime.services import cache_sizes
from runtime.services.zones.tagged_cache import ChangeHistory, ReadThroughCache
from runtime.storage.sql import zone_data as storage
from runtime.storage.sql.database import Database

_BOUNDARIES = ("/", "?")
_MOST_NAMES = 24  # remembered of one request: its sender chooses how many there are


class ResourceCache:
    """The resources of one zone."""

    def __init__(self, database: Database, zone_id: str, history: ChangeHistory) -> None:
        self._zone_id = zone_id
        size = cache_sizes.RESOURCES
        self._by_identifier: ReadThroughCache[Resource] = ReadThroughCache(database, size, history)
        self._by_id: ReadThroughCache[Resource] = ReadThroughCache(database, size, history)
        self._by_application: ReadThroughCache[tuple[Resource, ...]] = ReadThroughCache(
            database, cache_sizes.RESOURCES_BY_APPLICATION, history
        )

    async def resolve(self, requested: str) -> Resource | None:
        """The registered resource that a request means: the one of that name, else the longest prefix."""
        return await self._by_identifier.read(
            requested,
            lambda conn: resolve(conn, self._zone_id, requested),
            lambda found: _tags(found) | _tags_of_name(requested),
        )

    async def get(self, resource_id: str) -> Resource | None:
        """The resource of that id."""
        return await self._by_id.read(
            resource_id, lambda conn: storage.resource(conn, self._zone_id, resource_id), _tags
        )

    async def provided_by(self, application_id: str) -> tuple[Resource, ...]:
        """The resources that an application provides."""

        async def query(conn: AsyncConnection) -> tuple[Resource, ...] | None:
            return await storage.resources_of(conn, self._zone_id, application_id) or None

        def tags(found: tuple[Resource, ...]) -> set[str]:
            return {cache_tags.provided_by(application_id), *(tag for each in found for tag in _tags(each))}

        return await self._by_application.read(application_id, query, tags) or ()


async def resolve(conn: AsyncConnection, zone_id: str, requested: str) -> Resource | None:
    """The resource that a request means, among the few whose registered spelling can be meant."""
    if (key := canonical(requested)) is None:
        return None
    exact, prefixes = _names(requested, key)
    found = await storage.resources_named(conn, zone_id, exact=exact, prefixes=prefixes)
    return ResourceIndex((each.identifier, each.prefix, each) for each in found).find(requested)


def _names(requested: str, key: str) -> tuple[set[str], set[str]]:
    """The identifiers of resources that can be meant: of any, and of one that is registered as a prefix."""
    shorter = {key[: at + keep] for at in range(len(key)) if key[at] in _BOUNDARIES for keep in (0, 1)}
    return {requested, key, f"{key}/", requested.removesuffix("/")}, shorter | {key, f"{key}/"}


def _tags(resource: Resource) -> set[str]:
    """Of a resource, and of who provides it: nobody does any more once that application is gone."""
    provider = {resource.application_id} if resource.application_id else set()
    return {resource.id, cache_tags.shown(resource.id)} | provider


def _tags_of_name(requested: str) -> set[str]:
    """What is asked for may mean a new resource: one of these names, or any if there are many of them."""
    exact, prefixes = _names(requested, canonical(requested) or requested)
    names = exact | prefixes
    return names if len(names) <= _MOST_NAMES else {cache_tags.RESOURCES}
