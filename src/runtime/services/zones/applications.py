"""The applications of a zone, with the attributes that policies can read."""

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds.application import Application
from runtime.domain.policy import requests
from runtime.services import cache_sizes
from runtime.services.zones.accountability import AccountabilityRule
from runtime.services.zones.tagged_cache import ChangeHistory, ReadThroughCache
from runtime.storage.sql import names
from runtime.storage.sql import zone_data as storage
from runtime.storage.sql.database import Database


class ApplicationCache:
    """The applications of one zone that are not ended, and what policies can read of any."""

    def __init__(
        self, database: Database, zone_id: str, accountability: AccountabilityRule, history: ChangeHistory
    ) -> None:
        self._zone_id = zone_id
        self._accountability = accountability
        size = cache_sizes.APPLICATIONS
        self._by_id: ReadThroughCache[Application] = ReadThroughCache(database, size, history)
        self._by_identifier: ReadThroughCache[Application] = ReadThroughCache(database, size, history)
        self._roles: ReadThroughCache[tuple[str, ...]] = ReadThroughCache(database, size, history)
        self._policy_facts: ReadThroughCache[requests.PolicyApplication] = ReadThroughCache(
            database, size, history
        )
        self._principals: ReadThroughCache[str] = ReadThroughCache(database, size, history)
        self._dependencies: ReadThroughCache[frozenset[str]] = ReadThroughCache(database, size, history)

    async def get(self, application_id: str) -> Application | None:
        """The application of that id."""

        async def query(conn: AsyncConnection) -> Application | None:
            found = await storage.application(conn, self._zone_id, application_id)
            return await self._accountability.active(conn, found)

        return await self._by_id.read(application_id, query, self._accountability.tags)

    async def by_identifier(self, identifier: str) -> Application | None:
        """The application of that identifier."""

        async def query(conn: AsyncConnection) -> Application | None:
            found = await storage.application_named(conn, self._zone_id, identifier)
            return await self._accountability.active(conn, found)

        return await self._by_identifier.read(identifier, query, self._accountability.tags)

    async def policy_facts(self, application: Application) -> requests.PolicyApplication:
        """What policies may know of an application, how it authenticated and what it depends on left out."""

        async def query(conn: AsyncConnection) -> tuple[str, ...]:
            return await storage.application_roles(conn, self._zone_id, application.id)

        roles = await self._roles.read(application.id, query, lambda _: {application.id})
        return _policy_facts(application, roles)

    async def policy_facts_of(self, application_id: str) -> requests.PolicyApplication | None:
        """The same of the application of that id, also while it is ended; None when there is none.

        A rule about who provides a resource holds whether that application may act or not.
        """

        async def query(conn: AsyncConnection) -> requests.PolicyApplication | None:
            found = await storage.application(conn, self._zone_id, application_id)
            if found is None:
                return None
            return _policy_facts(found, await storage.application_roles(conn, self._zone_id, found.id))

        return await self._policy_facts.read(application_id, query, lambda _: {application_id})

    async def is_principal(self, application: Application) -> bool:
        """Tell whether its identifier is the application's own: no token says it of a user's."""

        async def query(conn: AsyncConnection) -> str | None:
            return application.id if await names.is_subject(conn, self._zone_id, application.id) else None

        return await self._principals.read(application.id, query, lambda of: {of}) is not None

    async def dependencies(self, application_id: str) -> frozenset[str]:
        """Ids of the resources that an application declares."""

        async def query(conn: AsyncConnection) -> frozenset[str]:
            return await storage.dependencies(conn, self._zone_id, application_id)

        return await self._dependencies.read(application_id, query, lambda _: {application_id})


def _policy_facts(application: Application, roles: tuple[str, ...]) -> requests.PolicyApplication:
    traits = tuple(sorted(application.traits or ()))
    return requests.PolicyApplication(application.identifier, traits=traits, roles=roles)
