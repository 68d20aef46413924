"""The clients of a zone: applications by their credentials, and user agents."""

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds.user_agent import Registration
from runtime.services import cache_sizes
from runtime.services.client_types import ApplicationClient, Client, UserAgentClient
from runtime.services.zones.accountability import AccountabilityRule
from runtime.services.zones.read_through import ReadThroughCache
from runtime.storage.sql import user_agents
from runtime.storage.sql import zone_data as storage
from runtime.storage.sql.database import Database

# Why a suspended application is refused, in decision records.
SUSPENDED = "the application is suspended: nobody active is accountable for it"


@dataclass(frozen=True, slots=True)
class RegisteredClient:
    """The client of a client id, which may be an application that is suspended.

    Attributes:
        is_active: False while nobody active is accountable for it.
    """

    client: Client
    is_active: bool


class ClientCache:
    """The clients of one zone, by client id and by a workload's subject."""

    def __init__(self, database: Database, zone_id: str, accountability: AccountabilityRule) -> None:
        self._database = database
        self._accountability = accountability
        self._zone_id = zone_id
        self._by_id: ReadThroughCache[RegisteredClient] = ReadThroughCache(database, cache_sizes.CLIENTS)
        self._by_subject: ReadThroughCache[tuple[ApplicationClient, ...]] = ReadThroughCache(
            database, cache_sizes.WORKLOADS
        )

    async def get(self, client_id: str) -> Client | None:
        """The client of that id; None where there is none, or its application is suspended."""
        found = await self.registered(client_id)
        return found.client if found is not None and found.is_active else None

    async def registered(self, client_id: str) -> RegisteredClient | None:
        """The client of that id: an application's credential goes before a user agent.

        To tell why a request is refused. Who acts on what a client is takes `get`.
        """

        async def query(conn: AsyncConnection) -> RegisteredClient | None:
            if found := await storage.client(conn, self._zone_id, client_id):
                (credential, *others), application = found
                other = ApplicationClient(others[0], application) if others else None
                is_active = await self._accountability.is_active(conn, application)
                return RegisteredClient(ApplicationClient(credential, application, other), is_active)
            known = await user_agents.find(conn, client_id, zone_id=self._zone_id)
            return RegisteredClient(UserAgentClient(known), is_active=True) if known else None

        found = await self._by_id.read(client_id, query)
        if found is not None and not found.is_active:
            self._by_id.pop(client_id, None)  # a sign-in may end that, and leaves the zone's epoch as it is
        return found

    async def current(self, client_id: str) -> Client | None:
        """The client as it is now: what a metadata document describes changes without a new epoch."""
        client = await self.get(client_id)
        if client is None or client.registration is not Registration.METADATA_DOCUMENT:
            return client
        self._by_id.pop(client_id, None)
        return await self.get(client_id)

    async def query_again(self, client_id: str) -> None:
        """Ask the database about a client whatever is cached: a refusal takes as long for a known one."""
        async with self._database.querying() as conn:
            await storage.client_exists(conn, self._zone_id, client_id)
            await user_agents.find(conn, client_id, zone_id=self._zone_id)

    async def workloads(self, subject: str) -> tuple[ApplicationClient, ...]:
        """The clients whose credential is a provider's token about that subject, or about any."""

        async def query(conn: AsyncConnection) -> tuple[ApplicationClient, ...] | None:
            found = await storage.workloads(conn, self._zone_id, subject)
            clients = [
                ApplicationClient(credential, application)
                for credential, application in found
                if await self._accountability.is_active(conn, application)
            ]
            return tuple(clients) or None

        return await self._by_subject.read(subject, query) or ()
