"""The clients of a zone: applications by their credentials, and user agents."""

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds.application import ANY_SUBJECT
from runtime.domain.kinds.user_agent import Registration, UserAgent
from runtime.domain.kinds.zone import ZoneCimd
from runtime.services import cache_sizes
from runtime.services.client_types import ApplicationClient, Client, UserAgentClient
from runtime.services.zones.accountability import AccountabilityRule
from runtime.services.zones.tagged_cache import ChangeHistory, ReadThroughCache
from runtime.storage.sql import user_agents
from runtime.storage.sql import zone_data as storage
from runtime.storage.sql.database import Database

# Why a client is refused that may not act, in decision records.
SUSPENDED = "the application is suspended: nobody active is accountable for it"
NOT_ADMITTED = "the zone does not admit the client's metadata document any more"


@dataclass(frozen=True, slots=True)
class FoundClient:
    """The client of a client id, which may be one that may not act.

    Attributes:
        is_active: False for an application while nobody active is accountable for it, and for a client while
            the zone does not admit its metadata document.
    """

    client: Client
    is_active: bool

    @property
    def why_inactive(self) -> str:
        """Why it may not act, where it may not."""
        return SUSPENDED if isinstance(self.client, ApplicationClient) else NOT_ADMITTED


@dataclass(frozen=True, slots=True)
class Workload:
    """An application whose credential is a provider's token, which may be suspended.

    Attributes:
        is_active: False while nobody active is accountable for it.
    """

    client: ApplicationClient
    is_active: bool


class ClientCache:
    """The clients of one zone, by client id and by a workload's subject."""

    def __init__(
        self,
        database: Database,
        zone_id: str,
        accountability: AccountabilityRule,
        cimd: ZoneCimd,
        history: ChangeHistory,
    ) -> None:
        """Args:
        cimd: whose metadata documents the zone admits.
        """
        self._database = database
        self._accountability = accountability
        self._cimd = cimd
        self._zone_id = zone_id
        self._by_id: ReadThroughCache[FoundClient] = ReadThroughCache(database, cache_sizes.CLIENTS, history)
        self._by_subject: ReadThroughCache[tuple[Workload, ...]] = ReadThroughCache(
            database, cache_sizes.WORKLOADS, history
        )

    async def get(self, client_id: str) -> Client | None:
        """The client of that id; None where there is none, or one that may not act."""
        found = await self.find(client_id)
        return found.client if found is not None and found.is_active else None

    async def find(self, client_id: str) -> FoundClient | None:
        """The client of that id, even while it may not act.

        To tell why a request is refused; whoever lets the client act must look at `is_active`, or take `get`.
        One that is suspended is read anew: a sign-in may have made somebody accountable, which leaves the
        zone's epoch as it is.
        """
        found = await self.find_cached(client_id)
        return found if found is None or found.is_active else await self.find_now(client_id)

    async def find_now(self, client_id: str) -> FoundClient | None:
        """The same, read anew."""
        self._by_id.pop(client_id, None)
        return await self.find_cached(client_id)

    async def find_cached(self, client_id: str) -> FoundClient | None:
        """The same, as it was read at the zone's present epoch: a suspended one takes no longer than others.

        An application's credential goes before a user agent.
        """
        if (held := self._by_id.get(client_id)) is not None:
            return held

        async def query(conn: AsyncConnection) -> FoundClient | None:
            if found := await storage.client(conn, self._zone_id, client_id):
                (credential, *others), application = found
                other = ApplicationClient(others[0], application) if others else None
                is_active = await self._accountability.is_active(conn, application)
                return FoundClient(ApplicationClient(credential, application, other), is_active)
            known = await user_agents.find(conn, client_id, zone_id=self._zone_id)
            return FoundClient(UserAgentClient(known), self._is_admitted(known)) if known else None

        return await self._by_id.read(client_id, query, lambda found: {client_id, *self._tags(found.client)})

    def _tags(self, client: Client) -> set[str]:
        if isinstance(client, UserAgentClient):
            return {client.user_agent.id}
        other = {client.other_secret.credential.id} if client.other_secret else set()
        return {client.credential.id, *other, *self._accountability.tags(client.application)}

    def _is_admitted(self, client: UserAgent) -> bool:
        """Whether the zone lets that client act, which its settings say; a change of these is a new epoch."""
        is_described = client.registration is Registration.METADATA_DOCUMENT
        return not is_described or self._cimd.admits(client.identifier)

    def cached_application(self, client_id: str) -> str | None:
        """Id of the application of that client id; None for others, and while it is not cached."""
        found = self._by_id.get(client_id)
        return found.client.client_ref.application_id if found is not None else None

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

    async def workloads(self, subject: str) -> tuple[Workload, ...]:
        """The clients whose credential is a provider's token about that subject, or about any.

        Whoever lets one act must look at `is_active`. Where one is suspended nothing is cached, as by `find`.
        """

        async def query(conn: AsyncConnection) -> tuple[Workload, ...] | None:
            found = [
                Workload(
                    ApplicationClient(credential, application),
                    await self._accountability.is_active(conn, application),
                )
                for credential, application in await storage.workloads(conn, self._zone_id, subject)
            ]
            return tuple(found) or None

        def tags(found: tuple[Workload, ...]) -> set[str]:
            return {subject, ANY_SUBJECT, *(tag for each in found for tag in self._tags(each.client))}

        found = await self._by_subject.read(subject, query, tags) or ()
        if not all(each.is_active for each in found):
            self._by_subject.pop(subject, None)
        return found
