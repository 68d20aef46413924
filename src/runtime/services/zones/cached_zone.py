"""One zone at one epoch: what was read of it once, and what is asked anew each time."""

from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, TypeVar, overload

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.adapters.cedar import PolicyDecision
from runtime.adapters.keys.sealing import Sealer
from runtime.adapters.keys.signing import SigningKey, VerificationKey
from runtime.domain.errors import Unavailable
from runtime.domain.kinds.application import Application
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.role import User
from runtime.domain.kinds.user_agent import Registration
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth import switches
from runtime.domain.policy import requests
from runtime.services import epochs, keys
from runtime.services.bounded_cache import BoundedCache
from runtime.services.client_types import ApplicationClient, Client, UserAgentClient
from runtime.services.epochs import Epochs
from runtime.services.zones.policies import Policies, PolicyCache
from runtime.services.zones.principals import Principal, SessionRoot, principal_of
from runtime.services.zones.resources import resolve
from runtime.storage.sql import exchange as storage
from runtime.storage.sql import names, revocations, session_roots, user_agents
from runtime.storage.sql.consents import ConsentState
from runtime.storage.sql.database import Database
from runtime.storage.sql.exchange import ActivePolicies, ZoneInternals
from runtime.storage.sql.session_roots import NO_MEMBERSHIPS
from runtime.storage.sql.sessions import SessionRecord

T = TypeVar("T")

KEPT_SMALL = 2_000


class CachedZone:
    """A zone at one epoch, with everything about it that was asked for so far.

    Attributes:
        issuer: as stored when the zone was made: no request can change it.
        keys: kid -> key that tokens of this zone may be signed with.
        jwks: the members of the published JWK set.
        valid_until: when the zone's keys change next; it is made again then.
        switches: how the zone departs from the usual.
        denials: how many single tokens of the zone were ever revoked, an epoch of its own.
        denied: the ids of those of them that may be alive.
        sealer: seals under the zone's data key.
        checked_at: seconds on the monotonic clock, when it was last found to be the newest.
        is_apart: made for one request, of the database at one instant: no epoch puts that out of date.
        memo: what other modules worked out from it and want to work out only once an epoch.
    """

    def __init__(
        self,
        database: Database,
        epochs: Epochs,
        policies: PolicyCache,
        zone: Zone,
        internals: ZoneInternals,
        sealer: Sealer,
        ring: keys.KeyRing,
        denied: tuple[int, frozenset[str]],
        era: int,
    ) -> None:
        self._database = database
        self._epochs = epochs
        self._policy_cache = policies
        self.entity = zone
        self.id = zone.id
        self.organization_id = zone.organization_id
        self.issuer = str(zone.protocols.oauth2.issuer)
        self.epoch = internals.epoch
        self.access_token_algorithm = internals.access_token_algorithm
        self.switches = internals.switches or switches.DEFAULTS
        self.sealer = sealer
        self.keys: dict[str, VerificationKey] = ring.verification
        self.jwks = ring.published
        self.valid_until = ring.changes_at
        self.denials, self.denied = denied
        self.checked_at = monotonic()
        self._made_at = self.checked_at
        self.is_apart = False
        self._era = era
        self.memo: dict[str, Any] = {}
        self.verified: BoundedCache[Any] = BoundedCache()
        self.decisions: BoundedCache[PolicyDecision] = BoundedCache()
        self.looked_at: BoundedCache[frozenset[str]] = BoundedCache(KEPT_SMALL)
        self.parties: BoundedCache[tuple[requests.Application, requests.Resource]] = BoundedCache(KEPT_SMALL)
        self.consents: BoundedCache[tuple[int, frozenset[str]]] = BoundedCache()
        self.agreed: BoundedCache[tuple[int, ConsentState]] = BoundedCache()
        self.signed_in: BoundedCache[tuple[SessionRecord, User]] = BoundedCache()
        self._signing = ring.signing
        self._clients: BoundedCache[Client] = BoundedCache(KEPT_SMALL)
        self._workloads: BoundedCache[tuple[ApplicationClient, ...]] = BoundedCache(KEPT_SMALL)
        self._applications: BoundedCache[Application] = BoundedCache(KEPT_SMALL)
        self._withdrawn: BoundedCache[int] = BoundedCache(KEPT_SMALL)
        self._named_applications: BoundedCache[Application] = BoundedCache(KEPT_SMALL)
        self._application_facts: BoundedCache[requests.Application] = BoundedCache(KEPT_SMALL)
        self._principals: BoundedCache[str] = BoundedCache(KEPT_SMALL)
        self._resources: BoundedCache[Resource] = BoundedCache()
        self._resources_by_id: BoundedCache[Resource] = BoundedCache()
        self._provided: BoundedCache[tuple[Resource, ...]] = BoundedCache(KEPT_SMALL)
        self._providers: BoundedCache[Provider] = BoundedCache(KEPT_SMALL)
        self._dependencies: BoundedCache[frozenset[str]] = BoundedCache(KEPT_SMALL)
        self._roots: BoundedCache[SessionRoot] = BoundedCache()
        self._users: BoundedCache[Principal] = BoundedCache()
        self._policies: Policies | None = None
        self._policies_read = False

    @property
    def sites_of_clients(self) -> str:
        """The share of outbound requests in which sites are asked that clients have named themselves.

        It is not the zone's own: whoever names slow ones must not hold up its identity provider.
        """
        return f"clients of {self.id}"

    @property
    def sites_of_applications(self) -> str:
        """The share in which sites are asked that the zone's administrators have named for applications.

        Whoever comes along and names slow ones must not hold up these either.
        """
        return f"applications of {self.id}"

    def is_followed(self) -> bool:
        """Tell whether epochs still say what of this is out of date: for so long nobody else asks."""
        return self._era == self._epochs.era and monotonic() - self._made_at < epochs.HELD_SECONDS

    def is_as_new_as(self, epoch: int | None, denials: int | None) -> bool:
        """Tell whether nothing newer was published; no, when it is not known what was."""
        if epoch is None or denials is None or not self.is_followed():
            return False
        return epoch <= self.epoch and denials <= self.denials

    def signing(self, algorithm: str) -> SigningKey:
        """The key that signs with that algorithm now. Raises Unavailable when the zone has none."""
        if (key := self._signing.get(algorithm)) is None:
            raise Unavailable(f"no signing key for {algorithm}", internal=f"zone {self.id}")
        return key

    async def client(self, client_id: str) -> Client | None:
        """The client of that id: an application's credential goes before a user agent."""

        async def read(conn: AsyncConnection) -> Client | None:
            if found := await storage.client(conn, self.id, client_id):
                return ApplicationClient(*found)
            known = await user_agents.find(conn, client_id, zone_id=self.id)
            return UserAgentClient(known) if known else None

        return await self._kept(self._clients, client_id, read)

    async def current_client(self, client_id: str) -> Client | None:
        """The client of that id as it stands now: what a document describes changes without a new epoch."""
        client = await self.client(client_id)
        if client is None or client.registration is not Registration.METADATA_DOCUMENT:
            return client
        self._clients.drop(client_id)
        return await self.client(client_id)

    async def look_up_client(self, client_id: str) -> None:
        """Ask the database about a client whatever is known of it already."""
        async with self._database.querying() as conn:
            await storage.client_exists(conn, self.id, client_id)
            await user_agents.find(conn, client_id, zone_id=self.id)

    async def workloads(self, subject: str) -> tuple[ApplicationClient, ...]:
        """The clients whose credential is a provider's token about that subject, or about any."""

        async def read(conn: AsyncConnection) -> tuple[ApplicationClient, ...] | None:
            found = await storage.workloads(conn, self.id, subject)
            return tuple(ApplicationClient(*each) for each in found) or None

        return await self._kept(self._workloads, subject, read) or ()

    async def application(self, application_id: str) -> Application | None:
        """The application of that id."""
        return await self._kept(
            self._applications,
            application_id,
            lambda conn: storage.application(conn, self.id, application_id),
        )

    async def application_facts(self, application: Application) -> requests.Application:
        """What policies may know of an application, how it authenticated and what it depends on left out."""

        async def read(conn: AsyncConnection) -> requests.Application:
            roles = await storage.application_roles(conn, self.id, application.id)
            traits = tuple(sorted(application.traits or ()))
            return requests.Application(application.identifier, traits=traits, roles=roles)

        return await self._kept(self._application_facts, application.id, read)

    async def application_named(self, identifier: str) -> Application | None:
        """The application of that identifier."""
        return await self._kept(
            self._named_applications,
            identifier,
            lambda conn: storage.application_named(conn, self.id, identifier),
        )

    async def withdrawn_at(self, claim: str, name: str) -> int:
        """When what had that name last went, in seconds since 1970; 0 for never.

        Args:
            claim: what tokens have it in: `client_id` of a credential, `actor` of an application in a chain,
                `aud` of a resource.
        """

        async def read(conn: AsyncConnection) -> int:
            found = await revocations.withdrawn_at(conn, self.id, claim, name)
            return int(found.timestamp()) if found else 0

        return await self._kept(self._withdrawn, f"{claim}\0{name}", read)

    async def is_principal(self, application: Application) -> bool:
        """Tell whether its identifier is the application's own: no token says it of a user's."""

        async def read(conn: AsyncConnection) -> str | None:
            return application.id if await names.is_subject(conn, self.id, application.id) else None

        return await self._kept(self._principals, application.id, read) is not None

    async def provider(self, provider_id: str) -> Provider | None:
        """The provider of that id."""
        return await self._kept(
            self._providers, provider_id, lambda conn: storage.provider(conn, self.id, provider_id)
        )

    async def user_provider(self) -> Provider | None:
        """The provider that signs the zone's users in; None when the zone does that itself."""
        provider_id = self.entity.user_identity_provider_id
        return await self.provider(provider_id) if provider_id else None

    async def resource(self, identifier: str) -> Resource | None:
        """The registered resource that a request means: the one of that name, else the longest prefix."""
        return await self._kept(self._resources, identifier, lambda conn: resolve(conn, self.id, identifier))

    async def default_resource(self) -> Resource | None:
        """The resource that is meant when a request names none."""
        resource_id = self.entity.default_resource_id
        return await self.resource_of(resource_id) if resource_id else None

    async def resource_of(self, resource_id: str) -> Resource | None:
        """The resource of that id."""
        return await self._kept(
            self._resources_by_id, resource_id, lambda conn: storage.resource(conn, self.id, resource_id)
        )

    async def provided_by(self, application_id: str) -> tuple[Resource, ...]:
        """The resources that an application provides."""

        async def read(conn: AsyncConnection) -> tuple[Resource, ...] | None:
            return await storage.resources_of(conn, self.id, application_id) or None

        return await self._kept(self._provided, application_id, read) or ()

    async def dependencies(self, application_id: str) -> frozenset[str]:
        """Ids of the resources that an application declares."""

        async def read(conn: AsyncConnection) -> frozenset[str]:
            return await storage.dependencies(conn, self.id, application_id)

        return await self._kept(self._dependencies, application_id, read)

    async def policies(self) -> Policies | None:
        """The policies that decide here, parsed; None when no set is active, which denies everything."""
        if not self._policies_read:
            async with self._database.reading() as conn:
                active = await storage.active_policies(conn, self.id)
            self._policies = self._policy_cache.compiled(active) if active else None
            self._policies_read = True
        return self._policies

    async def own_policies(self, set_version_id: str) -> Policies | None:
        """The policies that a user has made, parsed; None when they are gone. Raises InvalidPolicy."""

        async def read() -> ActivePolicies | None:
            async with self._database.querying() as conn:
                return await storage.policies_of(conn, self.id, set_version_id)

        return await self._policy_cache.of_set_version(set_version_id, read)

    async def viewed(self, user: User) -> Principal:
        """The principal of a user who was read in this request."""
        held = self._users.get(user.id)
        if held is not None and held.user.epoch == user.epoch:
            return held
        async with self._database.querying() as conn:
            own = await session_roots.own_policies(conn, self.id, user.id)
            return await self._viewed(conn, user, own_policies=own)

    async def _viewed(
        self, conn: AsyncConnection, user: User, *, own_policies: str | None, has_memberships: bool = True
    ) -> Principal:
        """A user just read, as principal; groups and roles are cached until the user's epoch moves."""
        held = self._users.get(user.id)
        if held is None or held.user.epoch != user.epoch:
            found = NO_MEMBERSHIPS
            if has_memberships:
                found = await session_roots.memberships(conn, user.zone_id, user.id)
            held = principal_of(user, found, own_policies)
            self._users.put(user.id, held)
        return held

    def held_root(self, session_id: str) -> SessionRoot | None:
        """The root of that session as it was when last read; whether it still stands, epochs tell."""
        return self._roots.get(session_id)

    async def read_root(self, session_id: str) -> SessionRoot | None:
        """The root of that session as it stands now, from the database."""
        # The epochs are read first: what is read after them can only be newer than they say.
        async with self._database.querying() as conn:
            found = await session_roots.session(conn, self.id, session_id)
            if found is None:
                self._roots.drop(session_id)
                return None
            session, user, extent = found
            delegated = await session_roots.delegated(conn, self.id, user.id) if extent.has_delegated else ()
            viewed = await self._viewed(
                conn, user, own_policies=extent.own_policies, has_memberships=extent.has_memberships
            )
            root = SessionRoot(session, viewed, delegated)
        self._roots.put(session_id, root)
        return root

    async def root(self, session_id: str) -> SessionRoot | None:
        """The root of that session as it stands now, from memory when its epochs say that it may be."""
        held = self._roots.get(session_id)
        if held is not None:
            names = [epochs.session_key(session_id), epochs.user_key(held.user.user.id)]
            (session_epoch, user_epoch), _ = await self._epochs.published(names)
            if (
                self.is_followed()
                and session_epoch is not None
                and user_epoch is not None
                and session_epoch <= held.session.epoch
                and user_epoch <= held.user.user.epoch
            ):
                return held
        return await self.read_root(session_id)

    @overload
    async def _kept(
        self, kept: BoundedCache[T], key: str, read: Callable[[AsyncConnection], Awaitable[T]]
    ) -> T: ...

    @overload
    async def _kept(
        self, kept: BoundedCache[T], key: str, read: Callable[[AsyncConnection], Awaitable[T | None]]
    ) -> T | None: ...

    async def _kept(
        self, kept: BoundedCache[T], key: str, read: Callable[[AsyncConnection], Awaitable[T | None]]
    ) -> T | None:
        """What is kept under the key, read and kept when it is not; what is missing is not remembered."""
        if (held := kept.get(key)) is not None:
            return held
        async with self._database.querying() as conn:
            found = await read(conn)
        if found is not None:
            kept.put(key, found)
        return found
