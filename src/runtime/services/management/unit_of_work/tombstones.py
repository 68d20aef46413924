"""The tombstones of one unit of work: what it deletes, told to the configurations that managed it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from runtime.domain.errors import Forbidden
from runtime.services.management.unit_of_work.lookup_cache import LookupCache
from runtime.services.management.unit_of_work.organization_lock import OrganizationLock
from runtime.storage.sql import tombstones as storage
from runtime.storage.sql.ownership import OwnershipRecord
from runtime.storage.sql.tombstones import TombstoneRecord


@dataclass
class Tombstones:
    """Collects a tombstone for each managed object that is deleted; they are written before the commit."""

    lock: OrganizationLock
    cache: LookupCache
    now: datetime
    changeset_id: str | None
    _pending: list[TombstoneRecord] = field(default_factory=list, init=False)

    async def add(self, deleted: Iterable[OwnershipRecord]) -> None:
        """Add tombstones for deleted objects, which had these ownership records.

        Raises:
            Forbidden: the caller acts for one configuration alone, and an object of another was deleted.
        """
        revision, caller = await self.lock.next_revision(), self.lock.caller
        own = caller.scope.owner
        for record in deleted:
            if own not in (None, record.owner):
                raise Forbidden(
                    f"{record.kind} `{record.name}` of the configuration `{record.owner}` would be deleted,"
                    f" and this credential is bound to `{own}`; release or delete it there first"
                )
            zone = self.cache.zones.get(record.zone_id or "")
            self._pending.append(
                TombstoneRecord(
                    kind=record.kind,
                    entity_id=record.entity_id,
                    zone_id=record.zone_id,
                    zone=zone.slug if zone else None,
                    owner=record.owner,
                    name=record.name,
                    revision=revision,
                    deleted_at=self.now,
                    actor_type=caller.kind,
                    actor_id=caller.id,
                    changeset_id=self.changeset_id,
                )
            )

    def omit(self, owner: str | None) -> None:
        """Drop the tombstones of an owner, which deletes these objects itself. None is every owner."""
        self._pending = [each for each in self._pending if owner not in (None, each.owner)]

    async def flush(self) -> None:
        """Write the tombstones."""
        await storage.add(self.lock.conn, self.lock.caller.organization_id, self._pending)
