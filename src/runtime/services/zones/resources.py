"""Finding the registered resource that a request means."""

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.resources import ResourceIndex, canonical
from runtime.storage.sql import exchange as storage

_BOUNDARIES = ("/", "?")


async def resolve(conn: AsyncConnection, zone_id: str, requested: str) -> Resource | None:
    """The resource that a request means, among the few whose registered spelling can be meant."""
    if (key := canonical(requested)) is None:
        return None
    shorter = {key[: at + keep] for at in range(len(key)) if key[at] in _BOUNDARIES for keep in (0, 1)}
    prefixes = shorter | {key, f"{key}/"}
    exact = {requested, key, f"{key}/", requested.removesuffix("/")}
    found = await storage.resources_named(conn, zone_id, exact=exact, prefixes=prefixes)
    return ResourceIndex((each.identifier, each.prefix, each) for each in found).find(requested)
