"""One zone at one epoch, with the caches of what belongs to it."""

from copy import copy
from time import monotonic
from typing import Any, ClassVar, TypeVar

from runtime.adapters.keys.signing import SigningKey, VerificationKey
from runtime.domain.errors import NotFound, Unavailable
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.zone import Zone, moved
from runtime.domain.oauth import zone_settings
from runtime.domain.zone_addresses import FormerIssuer
from runtime.services import zone_keys
from runtime.services.data_keys import HeldKey
from runtime.services.epochs import Epochs, RevalidationWindow, denials_key, zone_key
from runtime.services.zones.accountability import AccountabilityRule
from runtime.services.zones.application_sessions import ApplicationSessionCache
from runtime.services.zones.applications import ApplicationCache
from runtime.services.zones.clients import ClientCache
from runtime.services.zones.denied_tokens import DeniedTokens
from runtime.services.zones.policies import Policies, PolicyCache
from runtime.services.zones.providers import ProviderCache
from runtime.services.zones.resources import ResourceCache
from runtime.services.zones.session_roots import SessionRootCache
from runtime.services.zones.tagged_cache import ChangeHistory
from runtime.services.zones.withdrawals import WithdrawalCache
from runtime.storage.sql import zone_data as storage
from runtime.storage.sql.database import Database
from runtime.storage.sql.zone_data import ActivePolicies, ZoneInternals


class ZoneCache:
    """A cache that another module keeps with a zone, for as long as the zone's epoch is valid.

    A module derives its own, typed for what it caches; `CachedZone.cache_of` gives the zone's instance.

    Attributes:
        outlives_changes: it is kept when the epoch moves by changes whose tags are known, since nothing in it
            depends on an entity of the zone but by tags, or by an epoch of its own.
    """

    outlives_changes: ClassVar[bool] = False

    def __init__(self, history: ChangeHistory) -> None:
        """Args:
        history: of the zone.
        """


C = TypeVar("C", bound=ZoneCache)


class CachedZone:
    """A zone at one epoch, with everything about it that was asked for so far.

    Attributes:
        issuer: as stored, the present one or a former one that is still answered: no request can change it.
        former: the issuers that it had before it was moved, those that have ended, too.
        issuers: the present one and the former ones that are answered: whose tokens are the zone's.
        epoch_names: where the short-lived state keeps the zone's epoch and the number of its denials.
        keys: kid -> key that tokens of this zone may be signed with.
        jwks: the members of the published JWK set.
        valid_until: when the zone's keys change next; the zone is read again then.
        settings: the zone's settings, by its operator.
        denied: the tokens that were revoked by their ids; their number is an epoch of its own.
        data_key: the zone's data key, for as long as it may be used.
        sealer: seals under it.
        history: the changes of the zone that are known, which later views of it share.
        checked_at: seconds on the monotonic clock: it has all that was committed before.
        confirmed_epoch: the last one at which the zone is known to have existed.
        is_uncached: read for one request from one database snapshot, and not revalidated.
    """

    def __init__(
        self,
        database: Database,
        epochs: Epochs,
        policies: PolicyCache,
        zone: Zone,
        internals: ZoneInternals,
        data_key: HeldKey,
        ring: zone_keys.KeyRing,
        denied: DeniedTokens,
        generation: int,
        history: ChangeHistory | None = None,
        former: tuple[FormerIssuer, ...] = (),
        answered: frozenset[str] = frozenset(),
    ) -> None:
        self._database = database
        self._policy_cache = policies
        self.entity = zone
        self.id = zone.id
        self.organization_id = zone.organization_id
        self.issuer = str(zone.protocols.oauth2.issuer)
        self.former = former
        self.issuers = answered | {self.issuer}
        self.epoch = internals.epoch
        self.history = history = history or ChangeHistory(internals.epoch)
        self.epoch_names = zone_key(zone.id), denials_key(zone.id)
        self.access_token_algorithm = internals.access_token_algorithm
        self.settings = internals.settings or zone_settings.DEFAULTS
        self.data_key = data_key
        self.sealer = data_key.sealer
        self.keys: dict[str, VerificationKey] = ring.verification
        self.jwks = ring.published
        self.valid_until = ring.changes_at
        self.denied = denied
        self.checked_at = monotonic()
        self.confirmed_epoch = internals.epoch
        self.is_uncached = False
        self._read = RevalidationWindow(epochs, generation)
        self._signing = ring.signing
        accountability = AccountabilityRule(self.settings.require_active_accountable)
        self.clients = ClientCache(database, zone.id, accountability, zone.protocols.oauth2.cimd, history)
        self.applications = ApplicationCache(database, zone.id, accountability, history)
        self.resources = ResourceCache(database, zone.id, history)
        self.providers = ProviderCache(database, zone.id, history)
        self.withdrawals = WithdrawalCache(database, zone.id, history)
        self.application_sessions = ApplicationSessionCache(database, zone.id, history)
        self.session_roots = SessionRootCache(database, epochs, zone.id, self._read, history)
        self._caches: dict[type[ZoneCache], ZoneCache] = {}
        self._at_former: dict[str, CachedZone] = {}
        self._policies: Policies | None = None
        self._policies_read = False

    def cache_of(self, kind: type[C]) -> C:
        """This zone's instance of another module's cache."""
        found = self._caches.get(kind)
        if found is None:
            found = self._caches[kind] = kind(self.history)
        return found  # type: ignore[return-value]  # the value of a class is an instance of it

    def has_missed_changes(self) -> bool:
        """Whether the database may have been set back since it was read: then its epochs tell nothing."""
        return self._read.has_missed_changes()

    def at(self, issuer: str) -> "CachedZone":
        """The zone as it answers at one of its addresses: what it says and remembers there is apart.

        Raises: NotFound where that has ended.
        """
        if issuer == self.issuer:
            return self
        if issuer not in self.issuers:
            raise NotFound("there is no such zone")
        if (found := self._at_former.get(issuer)) is None:
            found = self._at_former[issuer] = _AtFormerAddress(self, issuer, {})
        return found

    def is_itself(self, audience: str | None) -> bool:
        """Tell whether an audience or a resource is the zone itself, by whichever of its issuers."""
        return audience in self.issuers

    def later(self) -> "CachedZone":
        """The zone after the changes that its history has by now, with all that is cached of it.

        A request that has begun on this view goes on with it, and finds out that it is not the newest.
        """
        later = copy(self)
        later.epoch = later.confirmed_epoch = self.history.epoch
        later._caches = self._lasting_caches()
        later._at_former = {
            issuer: _AtFormerAddress(later, issuer, view._lasting_caches())
            for issuer, view in self._at_former.items()
        }
        return later

    def _lasting_caches(self) -> dict[type[ZoneCache], ZoneCache]:
        return {kind: held for kind, held in self._caches.items() if kind.outlives_changes}

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
        """Whether epochs can still revalidate this zone; otherwise it must be read again."""
        return self._read.is_followed()

    def is_as_new_as(self, epoch: int | None, denials: int | None) -> bool:
        """Whether no newer epoch was published; False when the published epochs are unknown."""
        if epoch is None or denials is None or not self.is_followed():
            return False
        return epoch <= self.epoch and denials <= self.denied.count

    def signing(self, algorithm: str) -> SigningKey:
        """The key that signs with that algorithm now. Raises Unavailable when the zone has none."""
        if (key := self._signing.get(algorithm)) is None:
            raise Unavailable(f"no signing key for {algorithm}", internal=f"zone {self.id}")
        return key

    async def user_provider(self) -> Provider | None:
        """The provider that signs the zone's users in; None when the zone does that itself."""
        provider_id = self.entity.user_identity_provider_id
        return await self.providers.get(provider_id) if provider_id else None

    async def default_resource(self) -> Resource | None:
        """The resource that is meant when a request names none."""
        resource_id = self.entity.default_resource_id
        return await self.resources.get(resource_id) if resource_id else None

    async def policies(self) -> Policies | None:
        """The policies that decide here, compiled; None when no set is active, which denies everything."""
        if not self._policies_read:
            async with self._database.reading() as conn:
                active = await storage.active_policies(conn, self.id)
            found = None
            if active is not None:
                tenant = self.organization_id
                found = await self._policy_cache.compiled(active, zone_id=self.id, tenant=tenant)
            self._policies, self._policies_read = found, True
        return self._policies

    async def own_policies(self, set_version_id: str) -> Policies | None:
        """The policies that a user has made, compiled; None when they are gone. Raises InvalidPolicy."""

        async def read() -> ActivePolicies | None:
            async with self._database.querying() as conn:
                return await storage.policies_of(conn, self.id, set_version_id)

        return await self._policy_cache.of_set_version(set_version_id, read, tenant=self.organization_id)


class _AtFormerAddress(CachedZone):
    """A zone as it answers at a former address: all of it is the zone's own, but for where it stands.

    What is cached in the words of an address is not shared: nothing that was issued at one is handed out, or
    found, at another.
    """

    def __init__(self, zone: CachedZone, issuer: str, caches: dict[type[ZoneCache], ZoneCache]) -> None:
        self._zone = zone
        self.issuer = issuer
        self.entity = moved(zone.entity, issuer)
        self._caches = caches

    def __getattr__(self, name: str) -> Any:
        return getattr(self._zone, name)

    def at(self, issuer: str) -> CachedZone:
        """The zone at any of its addresses."""
        return self._zone.at(issuer)
