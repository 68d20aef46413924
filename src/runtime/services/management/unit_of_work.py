"""One management write: a transaction with its revision, its audit records and its invalidations.

Nothing leaves the process before the commit: epochs are published, and callbacks run, only afterwards.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, cast

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.adapters.keys.signing import Algorithm, SigningKey
from runtime.domain.errors import Forbidden
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import ZONE, Entity, Kind
from runtime.domain.kinds.marks import Mark
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth.resource_overlaps import ResourceOverlaps
from runtime.services import epochs, zone_keys
from runtime.services.container import Services
from runtime.services.management.access.caller import Caller
from runtime.services.management.audit_chain import chained
from runtime.storage.sql import organization_revision, tombstones
from runtime.storage.sql.ownership import OwnershipRecord
from runtime.storage.sql.tombstones import TombstoneRecord

_TOGETHER = 1_000  # audit records that are written with one statement
_NOT_TOLD = (Mark.INTERNAL, Mark.SEALED, Mark.DERIVED, Mark.INPUT)


Check = Callable[[], Awaitable[None]]


@dataclass
class UnitOfWork:
    """What a service function works with: the connection, who asks, and what the request adds up to.

    Attributes:
        now: the time of everything that this unit writes.
        dry_run: everything is done and checked, where nobody sees it, and nothing of it is kept.
        shown_once: entity id -> member -> secret in clear, for the answer of this operation alone.
        known: (zone id, kind name, id) of entities seen to be in place during this unit, so that many
            operations that refer to the same entity ask once.
        zones: id -> zone, likewise.
        owners: (kind name, id) -> the configuration that manages the entity, or None, as far as was asked.
        slugs: (kind name, ids of the scope) -> the slugs that are taken, once that has been worth asking.
        slugs_asked: how many slugs have been looked for there.
        checks: (kind name, id) -> what has to hold of an entity when the unit ends, not in the middle of
            it: a changeset asks for each with its operation, `finish` for those that are left.
        resource_overlaps: zone id -> its resources by URL, once all has been written.
        keeps_zones: nothing that is cached of a zone goes out of date: what is written concerns one user,
            whose epoch is bumped in its place.
        signing_keys: zone id -> kid -> key, opened once a unit.
        keys_to_give: signing keys for zones that are going to be made, a set for each: making them takes so
            long that it is done while nobody waits for the transaction.
    """

    conn: AsyncConnection
    caller: Caller
    services: Services
    now: datetime
    request_id: str
    changeset_id: str | None = None
    dry_run: bool = False
    keeps_zones: bool = False
    shown_once: dict[str, dict[str, str]] = field(default_factory=dict)
    known: set[tuple[str, str, str]] = field(default_factory=set)
    zones: dict[str, Zone] = field(default_factory=dict)
    owners: dict[tuple[str, str], str | None] = field(default_factory=dict)
    slugs: dict[tuple[str, ...], set[str]] = field(default_factory=dict)
    slugs_asked: dict[tuple[str, ...], int] = field(default_factory=dict)
    checks: dict[tuple[str, str], Check] = field(default_factory=dict)
    resource_overlaps: dict[str, ResourceOverlaps] = field(default_factory=dict)
    signing_keys: dict[str, dict[str, SigningKey]] = field(default_factory=dict)
    keys_to_give: list[dict[Algorithm, SigningKey]] = field(default_factory=list, repr=False)
    head: organization_revision.OrganizationHead | None = None
    _advanced: bool = False
    _records: list[dict[str, Any]] = field(default_factory=list)  # those that are not written yet
    _audit_begin: int = 0
    _tombstones: list[TombstoneRecord] = field(default_factory=list)
    _touched: set[str] = field(default_factory=set)
    _gone: set[str] = field(default_factory=set)
    _epochs: dict[str, int] = field(default_factory=dict)
    _noted: str | None = None
    _callbacks: list[Callable[[], Awaitable[None]]] = field(default_factory=list)

    @property
    def organization_id(self) -> str:
        """The organization that the caller belongs to, and with it everything this unit may see."""
        return self.caller.organization_id

    @property
    def records(self) -> int:
        """How many audit records this unit has come to."""
        written = self.head.audit_sequence - self._audit_begin if self.head is not None else 0
        return written + len(self._records)

    @property
    def audit_range(self) -> tuple[int, int] | None:
        """The sequence numbers of its first and its last audit record; None of a unit without any."""
        return (self._audit_begin + 1, self._audit_begin + self.records) if self.records else None

    async def next_revision(self) -> int:
        """The revision that this unit writes: the same however often it is asked.

        From here to the commit no other unit of the organization writes, so what is checked stays true.
        """
        if self.head is None or not self._advanced:
            await self._lock_head(by=1)
            self._advanced = True
        return cast(organization_revision.OrganizationHead, self.head).revision

    async def lock_organization(self) -> None:
        """Let no other unit of the organization write from here to the commit; the revision stays."""
        if self.head is None:
            await self._lock_head(by=0)

    async def _lock_head(self, *, by: int) -> None:
        """Begin to write, once those who came first have ended. Raises as `Caller.require_unchanged`.

        What ends a caller is written in turn, too: nothing is begun after it that was let in before.
        """
        is_first = self.head is None
        self.head = await organization_revision.advance(self.conn, self.organization_id, by=by)
        if is_first:
            self._audit_begin = self.head.audit_sequence
        if is_first and not self.dry_run:
            await self.caller.require_unchanged(self.conn)

    async def write(self, kind: Kind, action: str, before: Entity | None, after: Entity | None) -> None:
        """Record a change of one entity: audit without secrets, and its zone's caches out of date."""
        if self.dry_run:  # nobody will read what it was like
            await self.next_revision()
            return
        entity = cast(Entity, after or before)
        zone_id = entity.id if kind is ZONE else getattr(entity, "zone_id", None)
        await self.record(
            action,
            kind.name,
            entity.id,
            zone_id,
            before=audit_values(kind, before) if before else None,
            after=audit_values(kind, after) if after else None,
        )

    async def record(
        self,
        action: str,
        kind: str,
        entity_id: str,
        zone_id: str | None,
        *,
        before: Mapping[str, Any] | None,
        after: Mapping[str, Any] | None,
    ) -> None:
        """Record a change of something that is no entity of its own: a member, a dependency, a binding."""
        await self.next_revision()
        if self.dry_run:
            return  # nobody will read it
        await self._append(action, kind, entity_id, zone_id, before, after)
        if zone_id is not None:
            self._touched.add(zone_id)

    async def audit_read(
        self, action: str, kind: str, entity_id: str, zone_id: str | None, *, values: Mapping[str, Any]
    ) -> None:
        """Record that something was shown: nothing has changed, so no revision and no cache goes by."""
        await self.lock_organization()
        await self._append(action, kind, entity_id, zone_id, None, values)

    async def _append(
        self,
        action: str,
        kind: str,
        entity_id: str,
        zone_id: str | None,
        before: Mapping[str, Any] | None,
        after: Mapping[str, Any] | None,
    ) -> None:
        self._records.append(
            {
                "id": new_id(),
                "at": self.now,
                "actor_type": self.caller.kind,
                "actor_id": self.caller.id,
                "action": action,
                "kind": kind,
                "entity_id": entity_id,
                "zone_id": zone_id,
                "changeset_id": self.changeset_id,
                "request_id": self.request_id,
                "before": before,
                "after": after,
            }
        )
        if len(self._records) == _TOGETHER:
            await self._write_records()

    async def _write_records(self) -> None:
        head = cast(organization_revision.OrganizationHead, self.head)
        records, self._records = chained(head, self._records), []
        self.head = await organization_revision.append(self.conn, self.organization_id, head, records)

    async def add_tombstones(self, gone: Iterable[OwnershipRecord]) -> None:
        """Let the owners of what is gone hear of it: these are its ownership records.

        Raises:
            Forbidden: the caller acts for one configuration alone, and something of another would go, too.
        """
        revision, own = await self.next_revision(), self.caller.scope.owner
        for record in gone:
            if own not in (None, record.owner):
                raise Forbidden(
                    f"{record.kind} `{record.name}` of the configuration `{record.owner}` would be deleted,"
                    f" and this credential is bound to `{own}`; release or delete it there first"
                )
            zone = self.zones.get(record.zone_id or "")
            self._tombstones.append(
                TombstoneRecord(
                    kind=record.kind,
                    entity_id=record.entity_id,
                    zone_id=record.zone_id,
                    zone=zone.slug if zone else None,
                    owner=record.owner,
                    name=record.name,
                    revision=revision,
                    deleted_at=self.now,
                    actor_type=self.caller.kind,
                    actor_id=self.caller.id,
                    changeset_id=self.changeset_id,
                )
            )

    def omit_tombstones(self, owner: str | None) -> None:
        """Tell an owner nothing of what is gone: it has seen to that itself. None is every owner."""
        self._tombstones = [each for each in self._tombstones if owner not in (None, each.owner)]

    async def check(self, kind: str, entity_id: str) -> None:
        """Ask once for what has to hold of an entity in the end. Raises ManagementError."""
        if (holds := self.checks.pop((kind, entity_id), None)) is not None:
            await holds()

    def publish(self, key: str, epoch: int) -> None:
        """Let every worker hear, after the commit, that an epoch has moved."""
        self._epochs[key] = max(epoch, self._epochs.get(key, 0))

    def forget_zone(self, zone_id: str, epoch: int) -> None:
        """The zone is gone: its last epoch is published, none is written."""
        self._touched.discard(zone_id)
        self._gone.add(zone_id)
        self.publish(epochs.zone_key(zone_id), epoch)

    def after_commit(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Run this once the transaction stands; not at all when it is rolled back."""
        self._callbacks.append(callback)

    async def finish(self) -> None:
        """Write the audit records and the epochs: the last thing before the commit.

        Raises: ManagementError, as the checks that are left do.
        """
        for kind, entity_id in list(self.checks):
            await self.check(kind, entity_id)
        if self.head is None:
            return
        await self._write_records()
        await tombstones.add(self.conn, self.organization_id, self._tombstones)
        touched = set() if self.keeps_zones else self._touched - self._gone
        bumped = await organization_revision.bump_zone_epochs(self.conn, touched)
        for zone_id, epoch in bumped.items():
            self.publish(epochs.zone_key(zone_id), epoch)

    async def announce(self) -> None:
        """Note which epochs are about to move: the last thing of all before the commit."""
        self._noted = await self.services.epochs.record_changes(self.conn, self._epochs)

    async def published(self) -> None:
        """Tell the other workers, then run the callbacks: the first things after the commit."""
        await self.services.epochs.publish(self._epochs, noted=self._noted)
        for zone_id in self._touched | self._gone:
            self.services.zones.invalidate(zone_id)
        for callback in self._callbacks:
            await callback()


@asynccontextmanager
async def unit_of_work(
    services: Services,
    caller: Caller,
    request_id: str,
    *,
    changeset_id: str | None = None,
    new_zones: int = 0,
) -> AsyncIterator[UnitOfWork]:
    """A transaction that commits when the block ends well, and whose invalidations follow the commit.

    Args:
        new_zones: how many zones are going to be made: their keys are made before the transaction begins.
    """
    made = [await zone_keys.make() for _ in range(new_zones)]
    async with services.database.transaction() as conn:
        unit = UnitOfWork(
            conn, caller, services, services.clock(), request_id, changeset_id, keys_to_give=made
        )
        yield unit
        await unit.finish()
        await unit.announce()
    await unit.published()


@asynccontextmanager
async def dry_run(
    services: Services,
    caller: Caller,
    request_id: str,
    zone_ids: Collection[str],
    names: Collection[str] = (),
) -> AsyncIterator[UnitOfWork]:
    """A unit of which nothing is kept, and for which nobody waits.

    Args:
        zone_ids: the zones that it is about.
        names: what applications are going to be called in them.
    """
    async with services.database.dry_run(caller.organization_id, zone_ids, names) as conn:
        yield UnitOfWork(conn, caller, services, services.clock(), request_id, dry_run=True)


@asynccontextmanager
async def nested(unit: UnitOfWork, caller: Caller) -> AsyncIterator[UnitOfWork]:
    """A unit of another organization, in the transaction of this one: both stand, or neither.

    Args:
        caller: who acts there; the organization is theirs.
    """
    inner = UnitOfWork(unit.conn, caller, unit.services, unit.now, unit.request_id, dry_run=unit.dry_run)
    inner.keys_to_give = unit.keys_to_give
    yield inner
    await inner.finish()
    if not unit.dry_run:
        await inner.announce()
    unit.after_commit(inner.published)


@asynccontextmanager
async def read_only(services: Services, caller: Caller, request_id: str) -> AsyncIterator[UnitOfWork]:
    """A unit for operations that change nothing."""
    async with services.database.reading() as conn:
        yield UnitOfWork(conn, caller, services, services.clock(), request_id)


def audit_values(kind: Kind, entity: Entity) -> dict[str, Any]:
    """What the audit trail says of an entity: no secrets, no internal members, no derived ones."""
    return entity.model_dump(mode="json", exclude=_hidden(kind), exclude_none=True)


@cache
def _hidden(kind: Kind) -> set[str]:
    return {name for name, member in kind.members().items() if member.has(*_NOT_TOLD) or member.expand}
