"""The audit records of one unit of work: collected, chained by hash, and written in batches."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from runtime.domain.identifiers import new_id
from runtime.services.management.audit_chain import chained
from runtime.services.management.unit_of_work.organization_lock import OrganizationLock
from runtime.storage.sql import organization_revision

_BATCH = 1_000  # audit records that are written with one statement


@dataclass
class AuditWriter:
    """Appends audit records to the log of the caller's organization, under its lock."""

    lock: OrganizationLock
    now: datetime
    request_id: str
    changeset_id: str | None
    _pending: list[dict[str, Any]] = field(default_factory=list, init=False)

    @property
    def count(self) -> int:
        """How many records the unit of work has."""
        head, first = self.lock.head, self.lock.first_head
        written = 0 if head is None or first is None else head.audit_sequence - first.audit_sequence
        return written + len(self._pending)

    @property
    def sequence_range(self) -> tuple[int, int] | None:
        """The sequence numbers of the first and the last record; None without any."""
        first = self.lock.first_head
        if first is None or not (count := self.count):
            return None
        return first.audit_sequence + 1, first.audit_sequence + count

    async def append(
        self,
        action: str,
        kind: str,
        entity_id: str,
        zone_id: str | None,
        *,
        before: Mapping[str, Any] | None,
        after: Mapping[str, Any] | None,
    ) -> None:
        """Add a record. The caller of this method has made sure that the values have no secrets."""
        caller = self.lock.caller
        self._pending.append(
            {
                "id": new_id(),
                "at": self.now,
                "actor_type": caller.kind,
                "actor_id": caller.id,
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
        if len(self._pending) == _BATCH:
            await self.flush()

    async def flush(self) -> None:
        """Write the records that are not written yet."""
        head = await self.lock.acquire()
        records, self._pending = chained(head, self._pending), []
        self.lock.head = await organization_revision.append(
            self.lock.conn, self.lock.caller.organization_id, head, records
        )
