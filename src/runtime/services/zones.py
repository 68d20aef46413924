"""What the zone endpoints know about a zone: a view of it, made once an epoch and filled as it is asked.

A view holds only what somebody asked for, so a zone with a hundred thousand entities costs no more than
one with ten. A management write bumps the zone's epoch; the next look at the zone then starts a new view.
Nothing that is missing is remembered, so what is new is seen at once wherever it was asked for before.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.adapters import cedar
from runtime.adapters.cedar import CompiledPolicies, PolicyBroken, PolicyDecision
from runtime.adapters.keys.sealing import Sealer
from runtime.adapters.keys.signing import SigningKey, VerificationKey
from runtime.domain.errors import NotFound, Unavailable
from runtime.domain.kinds.application import Application
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.role import User
from runtime.domain.kinds.user_agent import Registration
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth import switches
from runtime.domain.oauth.resources import ResourceIndex, canonical
from runtime.domain.policy import requests, schema
from runtime.domain.policy.circumstances import UNKNOWN, Reads, reads_of
from runtime.services import keys
from runtime.services.exchange import epochs
from runtime.services.parties import ApplicationClient, Client, UserAgentClient
from runtime.storage.sql import exchange as storage
from runtime.storage.sql import revocations, roots, user_agents
from runtime.storage.sql.exchange import ZoneInternals
from runtime.storage.sql.roots import NO_MEMBERSHIPS, DelegatedGrantRow, SessionRow

if TYPE_CHECKING:
    from runtime.services.parts import Parts

T = TypeVar("T")

_KEPT = 20_000  # of each sort, in one view
_KEPT_SMALL = 2_000
_KEPT_ZONES = 1_000
_BOUNDARIES = ("/", "?")
RECENT_SECONDS = 1.0


class Kept(Generic[T]):
    """A bounded dictionary that forgets what it has held longest."""

    __slots__ = ("_items", "_limit")

    def __init__(self, limit: int = _KEPT) -> None:
        self._items: dict[str, T] = {}
        self._limit = limit

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: str) -> T | None:
        """What is kept under the key."""
        return self._items.get(key)

    def put(self, key: str, value: T) -> None:
        """Keep a value in place of what is there."""
        if len(self._items) >= self._limit and key not in self._items:
            del self._items[next(iter(self._items))]
        self._items[key] = value

    def drop(self, key: str) -> None:
        """Forget what is kept under the key."""
        self._items.pop(key, None)


@dataclass(frozen=True, slots=True)
class UserView:
    """A user with groups and roles, as policies see them.

    Attributes:
        own_policies: id of the policy set version that the user has made; None without one.
    """

    user: User
    principal: requests.User
    own_policies: str | None = None

    @property
    def groups(self) -> tuple[requests.Group, ...]:
        """The groups, each with the roles it hands down."""
        return self.principal.groups

    @property
    def roles(self) -> tuple[str, ...]:
        """Identifiers of the roles assigned directly."""
        return self.principal.roles


@dataclass(frozen=True, slots=True)
class RootView:
    """A session that chains start from, and the user whose authority it carries."""

    session: SessionRow
    user: UserView
    delegated: tuple[DelegatedGrantRow, ...]

    @property
    def epochs(self) -> tuple[int, int]:
        """The epochs of the session and of the user that this was read under."""
        return self.session.epoch, self.session.user_epoch


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of a set, parsed, with what each of their rules looks at."""

    compiled: CompiledPolicies
    reads: tuple[Reads, ...]


class ZoneView:
    """A zone at one epoch, with everything about it that was asked for so far.

    Attributes:
        issuer: as stored when the zone was made: no request can change it.
        keys: kid -> key that tokens of this zone may be signed with.
        jwks: the members of the published JWK set.
        valid_until: when the zone's keys change next; the view is made again then.
        switches: how the zone departs from the usual.
        denials: how many single tokens of the zone were ever revoked, an epoch of its own.
        denied: the ids of those of them that may be alive.
        sealer: seals under the zone's data key.
        checked_at: seconds on the monotonic clock, when it was last found to be the newest.
        memo: what other modules worked out from this view and want to work out only once an epoch.
    """

    def __init__(
        self,
        parts: "Parts",
        zone: Zone,
        internals: ZoneInternals,
        sealer: Sealer,
        ring: keys.KeyRing,
        denied: tuple[int, frozenset[str]],
    ) -> None:
        self._parts = parts
        self.zone = zone
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
        self.memo: dict[str, Any] = {}
        self.subjects: Kept[Any] = Kept()
        self.introspected: Kept[Any] = Kept()
        self.decisions: Kept[PolicyDecision] = Kept()
        self.looked_at: Kept[frozenset[str]] = Kept(_KEPT_SMALL)
        self.parties: Kept[tuple[requests.Application, requests.Resource]] = Kept(_KEPT_SMALL)
        self.consents: Kept[tuple[int, frozenset[str]]] = Kept()
        self._signing = ring.signing
        self._clients: Kept[Client] = Kept(_KEPT_SMALL)
        self._workloads: Kept[tuple[ApplicationClient, ...]] = Kept(_KEPT_SMALL)
        self._applications: Kept[Application] = Kept(_KEPT_SMALL)
        self._named_applications: Kept[Application] = Kept(_KEPT_SMALL)
        self._application_facts: Kept[requests.Application] = Kept(_KEPT_SMALL)
        self._resources: Kept[Resource] = Kept()
        self._resources_by_id: Kept[Resource] = Kept()
        self._providers: Kept[Provider] = Kept(_KEPT_SMALL)
        self._dependencies: Kept[frozenset[str]] = Kept(_KEPT_SMALL)
        self._roots: Kept[RootView] = Kept()
        self._users: Kept[UserView] = Kept()
        self._policies: Policies | None = None
        self._policies_read = False

    @property
    def sites_of_clients(self) -> str:
        """The share of outbound requests in which sites are asked that clients have named.

        It is not the zone's own: whoever names slow ones must not hold up its identity provider.
        """
        return f"clients of {self.id}"

    def is_as_new_as(self, epoch: int | None, denials: int | None) -> bool:
        """Tell whether nothing newer was published; no, when it is not known what was."""
        return epoch is not None and denials is not None and epoch <= self.epoch and denials <= self.denials

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
        async with self._parts.database.querying() as conn:
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

    async def provider(self, provider_id: str) -> Provider | None:
        """The provider of that id."""
        return await self._kept(
            self._providers, provider_id, lambda conn: storage.provider(conn, self.id, provider_id)
        )

    async def user_provider(self) -> Provider | None:
        """The provider that signs the zone's users in; None when the zone does that itself."""
        provider_id = self.zone.user_identity_provider_id
        return await self.provider(provider_id) if provider_id else None

    async def resource(self, identifier: str) -> Resource | None:
        """The registered resource that a request means: the one of that name, else the longest prefix."""
        return await self._kept(self._resources, identifier, lambda conn: _resolve(conn, self.id, identifier))

    async def default_resource(self) -> Resource | None:
        """The resource that is meant when a request names none."""
        resource_id = self.zone.default_resource_id
        return await self.resource_of(resource_id) if resource_id else None

    async def resource_of(self, resource_id: str) -> Resource | None:
        """The resource of that id."""
        return await self._kept(
            self._resources_by_id, resource_id, lambda conn: storage.resource(conn, self.id, resource_id)
        )

    async def dependencies(self, application_id: str) -> frozenset[str]:
        """Ids of the resources that an application declares."""

        async def read(conn: AsyncConnection) -> frozenset[str]:
            return await storage.dependencies(conn, self.id, application_id)

        return await self._kept(self._dependencies, application_id, read)

    async def policies(self) -> Policies | None:
        """The policies that decide here, parsed; None when no set is active, which denies everything."""
        if not self._policies_read:
            async with self._parts.database.reading() as conn:
                active = await storage.active_policies(conn, self.id)
            self._policies = self._parts.zones.compiled(active) if active else None
            self._policies_read = True
        return self._policies

    async def own_policies(self, set_version_id: str) -> Policies | None:
        """The policies that a user has made, parsed; None when they are gone. Raises PolicyBroken."""

        async def read(conn: AsyncConnection) -> Policies | None:
            found = await storage.policies_of(conn, self.id, set_version_id)
            return _compiled(found) if found else None

        return await self._kept(self._parts.zones.own_policies, set_version_id, read)

    async def user(self, user_id: str) -> UserView | None:
        """A user with groups and roles, at the user's present epoch."""
        held = self._users.get(user_id)
        published = await self._parts.zones.published([epochs.user_key(user_id)])
        if held and published[0] is not None and published[0] <= held.user.epoch:
            return held
        async with self._parts.database.querying() as conn:
            user = await roots.user(conn, self.id, user_id)
            own = await roots.own_policies(conn, self.id, user_id) if user else None
            found = await self._viewed(conn, user, own_policies=own) if user else None
        if found:
            with suppress(Unavailable):
                await epochs.remember(self._parts.state, {epochs.user_key(user_id): found.user.epoch})
        return found

    async def _viewed(
        self, conn: AsyncConnection, user: User, *, own_policies: str | None, has_memberships: bool = True
    ) -> UserView:
        """The view of a user just read; groups and roles from memory when the user's epoch is the same."""
        held = self._users.get(user.id)
        if held is None or held.user.epoch != user.epoch:
            found = NO_MEMBERSHIPS
            if has_memberships:
                found = await roots.memberships(conn, user.zone_id, user.id)
            groups = tuple(requests.Group(name, title, roles) for name, title, roles in found.groups)
            # An address that nobody has proved to be theirs must not open what a policy gives to it.
            email = str(user.email) if user.email_verified else None
            principal = requests.User(user.identifier, email, groups, found.roles)
            held = UserView(user, principal, own_policies)
            self._users.put(user.id, held)
        return held

    def held_root(self, session_id: str) -> RootView | None:
        """The root of that session as it was when last read; whether it still stands, epochs tell."""
        return self._roots.get(session_id)

    async def read_root(self, session_id: str) -> RootView | None:
        """The root of that session as it stands now, from the database."""
        # The epochs are read first: what is read after them can only be newer than they say.
        async with self._parts.database.querying() as conn:
            found = await roots.session(conn, self.id, session_id)
            if found is None:
                self._roots.drop(session_id)
                return None
            session, user = found
            delegated = await roots.delegated(conn, self.id, user.id) if session.has_delegated else ()
            viewed = await self._viewed(
                conn, user, own_policies=session.own_policies, has_memberships=session.has_memberships
            )
            root = RootView(session, viewed, delegated)
        self._roots.put(session_id, root)
        return root

    async def root(self, session_id: str) -> RootView | None:
        """The root of that session as it stands now, from memory when its epochs say that it may be."""
        held = self._roots.get(session_id)
        if held is not None:
            session_epoch, user_epoch = await self._parts.zones.published(
                [epochs.session_key(session_id), epochs.user_key(held.session.user_id)]
            )
            if (
                session_epoch is not None
                and user_epoch is not None
                and session_epoch <= held.session.epoch
                and user_epoch <= held.session.user_epoch
            ):
                return held
        return await self.read_root(session_id)

    @overload
    async def _kept(self, kept: Kept[T], key: str, read: Callable[[AsyncConnection], Awaitable[T]]) -> T: ...

    @overload
    async def _kept(
        self, kept: Kept[T], key: str, read: Callable[[AsyncConnection], Awaitable[T | None]]
    ) -> T | None: ...

    async def _kept(
        self, kept: Kept[T], key: str, read: Callable[[AsyncConnection], Awaitable[T | None]]
    ) -> T | None:
        """What is kept under the key, read and kept when it is not; what is missing is not remembered."""
        if (held := kept.get(key)) is not None:
            return held
        async with self._parts.database.querying() as conn:
            found = await read(conn)
        if found is not None:
            kept.put(key, found)
        return found


class Zones:
    """The views of this process, each kept as long as its zone's epoch stands."""

    def __init__(self) -> None:
        self._parts: Parts | None = None
        self._views: dict[str, ZoneView] = {}
        self._loading: dict[str, asyncio.Lock] = {}
        self._parsed_keys: dict[str, dict[str, SigningKey]] = {}
        self._compiled: Kept[Policies] = Kept(_KEPT_ZONES)
        # By the id of the set version, which never changes.
        self.own_policies: Kept[Policies] = Kept(_KEPT_ZONES)
        self._ids_by_slug: Kept[str] = Kept(_KEPT_ZONES)

    def attach(self, parts: "Parts") -> None:
        """Work with these parts from now on."""
        self._parts = parts

    @property
    def parts(self) -> "Parts":
        """The parts this works with."""
        if self._parts is None:
            raise RuntimeError("attach() comes first")
        return self._parts

    def held(self, zone_id: str) -> ZoneView | None:
        """A view that was right when it was made: for those who compare its epoch before they answer."""
        view = self._views.get(zone_id)
        return view if view and self._is_current(view) else None

    async def view(self, zone_id: str) -> ZoneView:
        """The zone as it stands now. Raises NotFound."""
        held = self.held(zone_id)
        if held is not None:
            asked_at = monotonic()
            epoch, denials = await self.published([epochs.zone_key(zone_id), epochs.denials_key(zone_id)])
            if held.is_as_new_as(epoch, denials):
                held.checked_at = asked_at
                return held
        return await self.refresh(zone_id)

    async def recent(self, zone_id: str) -> ZoneView:
        """The zone as it stood a second ago at most. Raises NotFound.

        For what is public, and kept for minutes by those who read it.
        """
        held = self.held(zone_id)
        if held is not None and monotonic() - held.checked_at < RECENT_SECONDS:
            return held
        return await self.view(zone_id)

    def doubt(self, zone_id: str) -> None:
        """Look again before the next answer: this process has just changed the zone."""
        if (held := self._views.get(zone_id)) is not None:
            held.checked_at = -inf

    async def refresh(self, zone_id: str) -> ZoneView:
        """The zone as the database has it now. Raises NotFound."""
        lock = self._loading.setdefault(zone_id, asyncio.Lock())
        async with lock:
            asked_at = monotonic()
            async with self.parts.database.reading() as conn:
                found = await storage.zone_epochs(conn, zone_id)
                view = self.held(zone_id)
                if view is None or found is None or view.epoch != found[0]:
                    view = await self._load(conn, zone_id)
                elif view.denials != found[1]:
                    denied = await revocations.denied(conn, zone_id, now=self.parts.clock())
                    view.denials, view.denied = denied
            if view is None:
                self._views.pop(zone_id, None)
                self._parsed_keys.pop(zone_id, None)
                self._loading.pop(zone_id, None)
                raise NotFound(f"there is no zone `{zone_id}`")
            view.checked_at = asked_at
        read = {epochs.zone_key(zone_id): view.epoch, epochs.denials_key(zone_id): view.denials}
        with suppress(Unavailable):
            await epochs.remember(self.parts.state, read)
        return view

    async def locate(self, slug: str) -> str:
        """The id of the zone whose issuer is the template filled with that slug. Raises NotFound."""
        settings = self.parts.settings
        issuer = settings.zone_url_template.format(public_url=settings.public_url, zone_id="", slug=slug)
        found = self._ids_by_slug.get(slug)
        if found is None:
            async with self.parts.database.querying() as conn:
                found = await storage.zone_with_slug(conn, slug, issuer)
            if found is None:
                raise NotFound("there is no such zone")
            self._ids_by_slug.put(slug, found)
        return found

    async def find_id(self, id_or_slug: str) -> str:
        """The id of the zone an operator names by id or slug. Raises NotFound; also for an ambiguous slug."""
        async with self.parts.database.querying() as conn:
            found = await storage.zones_named(conn, id_or_slug)
        if not found:
            raise NotFound(f"there is no zone `{id_or_slug}`")
        if len(found) > 1:
            raise NotFound(
                f"{len(found)} zones have the slug `{id_or_slug}`: name one by its id, {', '.join(found)}"
            )
        return found[0]

    async def published(self, names: list[str]) -> list[int | None]:
        """The published epochs, in one trip; None for those unknown, and for all when the state is away."""
        try:
            return [int(value) if value else None for value in await self.parts.state.fetch(names)]
        except Unavailable:
            return [None] * len(names)

    def compiled(self, active: storage.ActivePolicies) -> Policies:
        """Policies parsed, now or before: their versions never change. Raises PolicyBroken."""
        key = "\0".join([active.schema_version, *(each[0] for each in active.policies)])
        if (found := self._compiled.get(key)) is None:
            found = _compiled(active)
            self._compiled.put(key, found)
        return found

    def _is_current(self, view: ZoneView) -> bool:
        return view.valid_until is None or self.parts.clock() < view.valid_until

    async def _load(self, conn: AsyncConnection, zone_id: str) -> ZoneView | None:
        """A new view of a zone, kept from now on; None when there is no such zone."""
        found = await storage.zone(conn, zone_id)
        if found is None:
            return None
        zone, internals = found
        stored = await storage.keys(conn, zone_id)
        sealer = keys.open_sealer(self.parts.key_encryption, internals)
        parsed = self._parsed_keys.setdefault(zone.id, {})
        now = self.parts.clock()
        ring = await asyncio.to_thread(keys.key_ring, stored, sealer, parsed, now)
        denied = await revocations.denied(conn, zone_id, now=now)
        view = ZoneView(self.parts, zone, internals, sealer, ring, denied)
        if len(self._views) >= _KEPT_ZONES and zone.id not in self._views:
            oldest = next(iter(self._views))
            del self._views[oldest]
            self._parsed_keys.pop(oldest, None)
        self._views[zone.id] = view
        return view


def _compiled(active: storage.ActivePolicies) -> Policies:
    words = cedar.parse_schema(schema.get(active.schema_version).text)
    texts = [
        (version_id, raw if raw is not None else cedar.from_json(parsed or {}))
        for version_id, raw, parsed in active.policies
    ]
    reads = tuple(each for _, text in texts for each in _reads(text))
    return Policies(cedar.compile_policies(texts, words), reads)


def _reads(text: str) -> list[Reads]:
    try:
        return reads_of(cedar.to_json(text))
    except PolicyBroken:  # too deep for that form
        return [UNKNOWN]


async def _resolve(conn: AsyncConnection, zone_id: str, requested: str) -> Resource | None:
    """The resource that a request means, among the few whose registered spelling can be meant."""
    if (key := canonical(requested)) is None:
        return None
    shorter = {key[: at + keep] for at in range(len(key)) if key[at] in _BOUNDARIES for keep in (0, 1)}
    prefixes = shorter | {key, f"{key}/"}
    exact = {requested, key, f"{key}/", requested.removesuffix("/")}
    found = await storage.resources_named(conn, zone_id, exact=exact, prefixes=prefixes)
    return ResourceIndex((each.identifier, each.prefix, each) for each in found).find(requested)
