"""One management write: a transaction with its revision, its audit records and its invalidations.

Nothing leaves the process before the commit: epochs are published, and callbacks run, only afterwards.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain import cache_tags
from runtime.domain.kinds import ZONE, Entity, Kind
from runtime.domain.kinds.marks import Mark
from runtime.services.container import Services
from runtime.services.management.access.caller import Caller
from runtime.services.management.unit_of_work.audit_writer import AuditWriter
from runtime.services.management.unit_of_work.epoch_updates import EpochUpdates
from runtime.services.management.unit_of_work.lookup_cache import LookupCache
from runtime.services.management.unit_of_work.organization_lock import OrganizationLock
from runtime.services.management.unit_of_work.tombstones import Tombstones
from runtime.services.zone_keys import KeyChange, KeyTrial, PreparedKeys, PreparedZone

_NOT_AUDITED = (Mark.INTERNAL, Mark.SEALED, Mark.DERIVED, Mark.INPUT)

Check = Callable[[], Awaitable[None]]
_NO_KEYS = PreparedKeys()


@dataclass
class UnitOfWork:
    """What a service function works with: the connection, who asks, and what the request adds up to.

    Attributes:
        now: the time of everything that this unit writes.
        dry_run: everything is done and checked, where nobody sees it, and nothing of it is kept.
        new_zones: the ids and keys of zones that are going to be created: making them takes so long that it
            is done before the transaction begins.
        key_changes: zone id -> how its data key is going to be wrapped, likewise.
        key_trials: ARN of a zone's own key, or None -> what came of trying it before a dry run.
        lock: on the organization, with its revision.
        cache: what was looked up already.
        shown_once: entity id -> member -> secret in clear, for the answer of this operation alone.
        deferred_checks: (kind name, id) -> subject -> what has to hold of an entity when the unit ends, not
            in the middle of it: a changeset runs each with its operation, `flush` those that are left.
    """

    conn: AsyncConnection
    caller: Caller
    services: Services
    now: datetime
    request_id: str
    changeset_id: str | None = None
    dry_run: bool = False
    new_zones: list[PreparedZone] = field(default_factory=list, repr=False)
    key_changes: Mapping[str, KeyChange] = field(default_factory=dict, repr=False)
    key_trials: Mapping[str | None, KeyTrial] = field(default_factory=dict)
    lock: OrganizationLock = field(init=False)
    audit: AuditWriter = field(init=False)
    tombstones: Tombstones = field(init=False)
    epochs: EpochUpdates = field(default_factory=EpochUpdates, init=False)
    cache: LookupCache = field(default_factory=LookupCache, init=False)
    shown_once: dict[str, dict[str, str]] = field(default_factory=dict, init=False)
    deferred_checks: dict[tuple[str, str], dict[str, Check]] = field(default_factory=dict, init=False)
    _callbacks: list[Callable[[], Awaitable[None]]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.lock = OrganizationLock(self.conn, self.caller, self.dry_run)
        self.audit = AuditWriter(self.lock, self.now, self.request_id, self.changeset_id)
        self.tombstones = Tombstones(self.lock, self.cache, self.now, self.changeset_id)

    @property
    def organization_id(self) -> str:
        """The organization that the caller belongs to, and with it everything this unit may see."""
        return self.caller.organization_id

    async def next_revision(self) -> int:
        """The revision that this unit writes. Until the commit no other unit of the organization writes."""
        return await self.lock.next_revision()

    async def lock_organization(self) -> None:
        """Let no other unit of the organization write until the commit, without taking a revision."""
        await self.lock.acquire()

    # --- audit

    async def write(self, kind: Kind, action: str, before: Entity | None, after: Entity | None) -> None:
        """Record a change of one entity: audit without secrets, and what is cached of it out of date."""
        entity = after or before
        if self.dry_run or entity is None:  # nobody will read what it was like
            await self.next_revision()
            return
        zone_id = entity.id if kind is ZONE else getattr(entity, "zone_id", None)
        told = audit_values(kind, before) if before else None, audit_values(kind, after) if after else None
        tags = cache_tags.of_write(kind.name, before, after)
        await self._record(action, kind.name, entity.id, zone_id, *told, tags)

    async def record(
        self,
        action: str,
        kind: str,
        entity_id: str,
        zone_id: str | None,
        *,
        before: Mapping[str, Any] | None,
        after: Mapping[str, Any] | None,
        tags: Collection[str] | None = None,
    ) -> None:
        """Record a change of something that is no entity of its own: a member, a dependency, a binding.

        Args:
            tags: of the cached data that it puts out of date, where the record does not tell that.
        """
        known = cache_tags.of_record(action, entity_id, after or before or {}) if tags is None else tags
        await self._record(action, kind, entity_id, zone_id, before, after, known)

    async def _record(
        self,
        action: str,
        kind: str,
        entity_id: str,
        zone_id: str | None,
        before: Mapping[str, Any] | None,
        after: Mapping[str, Any] | None,
        tags: Collection[str] | None,
    ) -> None:
        await self.next_revision()
        if self.dry_run:
            return  # nobody will read it
        await self.audit.append(action, kind, entity_id, zone_id, before=before, after=after)
        if zone_id is not None:
            self.epochs.zone_changed(zone_id, tags)

    async def audit_read(
        self, action: str, kind: str, entity_id: str, zone_id: str | None, *, values: Mapping[str, Any]
    ) -> None:
        """Record that something was shown: nothing has changed, so there is no revision and no epoch."""
        await self.lock_organization()
        await self.audit.append(action, kind, entity_id, zone_id, before=None, after=values)

    # --- before and after the commit

    def defer_check(self, kind: Kind, entity_id: str, subject: str, check: Check) -> None:
        """Have this checked of an entity when the unit ends, in place of an earlier check on the subject."""
        self.deferred_checks.setdefault((kind.name, entity_id), {})[subject] = check

    def deferred_check(self, kind: Kind, entity_id: str, subject: str) -> Check | None:
        """What is going to be checked of an entity on that subject."""
        return self.deferred_checks.get((kind.name, entity_id), {}).get(subject)

    async def run_checks(self, kind: str, entity_id: str) -> None:
        """Run the deferred checks of an entity. Raises ManagementError."""
        for check in self.deferred_checks.pop((kind, entity_id), {}).values():
            await check()

    def after_commit(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Run this after the commit; not at all when the transaction is rolled back."""
        self._callbacks.append(callback)

    async def flush(self) -> None:
        """Write the audit records, the tombstones and the epochs of zones.

        Raises: ManagementError, as the deferred checks do that are left.
        """
        for kind, entity_id in list(self.deferred_checks):
            await self.run_checks(kind, entity_id)
        if self.lock.head is None:
            return
        await self.audit.flush()
        await self.tombstones.flush()
        await self.epochs.write(self.conn)

    async def announce_epochs(self) -> None:
        """Note which epochs are about to move: the last step before the commit."""
        await self.epochs.announce(self.services, self.conn)

    async def committed(self) -> None:
        """Publish the epochs, then run the callbacks: the first steps after the commit."""
        await self.epochs.publish(self.services)
        for callback in self._callbacks:
            await callback()


@asynccontextmanager
async def unit_of_work(
    services: Services,
    caller: Caller,
    request_id: str,
    *,
    changeset_id: str | None = None,
    prepared: PreparedKeys | None = None,
    zone_ids: Collection[str] = (),
) -> AsyncIterator[UnitOfWork]:
    """A transaction that commits when the block ends well, and whose invalidations follow the commit.

    Args:
        prepared: the keys of zones that are going to be made, or to have their data key wrapped anew.
        zone_ids: zones whose data keys may be needed: they are loaded before the transaction begins.
    """
    await services.data_keys.preload(services.database, zone_ids)
    async with services.database.transaction(tenant=caller.organization_id, is_exclusive=True) as conn:
        unit = UnitOfWork(conn, caller, services, services.clock(), request_id, changeset_id)
        if prepared is not None:
            unit.new_zones, unit.key_changes = list(prepared.new_zones), prepared.changes
        yield unit
        await unit.flush()
        await unit.announce_epochs()
    await unit.committed()


@asynccontextmanager
async def dry_run_unit(
    services: Services,
    caller: Caller,
    request_id: str,
    zone_ids: Collection[str],
    names: Collection[str] = (),
    prepared: PreparedKeys = _NO_KEYS,
) -> AsyncIterator[UnitOfWork]:
    """A unit of which nothing is kept, and for which nobody waits.

    Args:
        zone_ids: the zones that it is about.
        names: what applications are going to be called in them.
        prepared: the keys of zones that it makes, and what came of trying those that it gives to zones.
    """
    await services.data_keys.preload(services.database, zone_ids)
    async with services.database.dry_run(caller.organization_id, zone_ids, names) as conn:
        unit = UnitOfWork(conn, caller, services, services.clock(), request_id, dry_run=True)
        unit.new_zones, unit.key_trials = list(prepared.new_zones), prepared.trials
        yield unit


@asynccontextmanager
async def nested(unit: UnitOfWork, caller: Caller) -> AsyncIterator[UnitOfWork]:
    """A unit of another organization, in the transaction of this one: both stand, or neither.

    Args:
        caller: who acts there; the organization is theirs.
    """
    inner = UnitOfWork(unit.conn, caller, unit.services, unit.now, unit.request_id, dry_run=unit.dry_run)
    inner.new_zones, inner.key_changes = unit.new_zones, unit.key_changes
    inner.key_trials = unit.key_trials
    yield inner
    await inner.flush()
    if not unit.dry_run:
        await inner.announce_epochs()
    unit.after_commit(inner.committed)


@asynccontextmanager
async def read_only(
    services: Services, caller: Caller, request_id: str, *, brief: bool = False, apart: bool = False
) -> AsyncIterator[UnitOfWork]:
    """A unit for operations that change nothing.

    Args:
        brief: as `Database.reading` has it.
        apart: for those of which a tenant has few at a time already.
    """
    tenant = caller.organization_id
    async with services.database.reading(tenant=tenant, apart=apart, brief=brief) as conn:
        yield UnitOfWork(conn, caller, services, services.clock(), request_id)


def audit_values(kind: Kind, entity: Entity) -> dict[str, Any]:
    """What the audit trail says of an entity: no secrets, no internal members, no derived ones."""
    return entity.model_dump(mode="json", exclude=_hidden(kind), exclude_none=True)


@cache
def _hidden(kind: Kind) -> set[str]:
    return {name for name, member in kind.members().items() if member.has(*_NOT_AUDITED) or member.expand}
