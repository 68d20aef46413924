"""The lock on an organization: one writer at a time, and one revision for each unit of work that writes."""

from dataclasses import dataclass, field

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.services.management.access.caller import Caller
from runtime.storage.sql import organization_revision
from runtime.storage.sql.organization_revision import OrganizationHead


@dataclass
class OrganizationLock:
    """Locks the head row of the caller's organization, from the first write to the end of the transaction.

    Attributes:
        is_dry_run: the caller may have changed meanwhile: nothing is kept, so nothing is asked again.
        head: revision, and the last audit record as of the last write; None while the lock is not held.
        first_head: the head as it was when the lock was taken.
    """

    conn: AsyncConnection
    caller: Caller
    is_dry_run: bool
    head: OrganizationHead | None = None
    first_head: OrganizationHead | None = None
    _has_revision: bool = field(default=False, init=False)

    async def acquire(self) -> OrganizationHead:
        """Lock the organization without taking a revision. Raises as `Caller.require_unchanged`."""
        return self.head if self.head is not None else await self._advance(by=0)

    async def next_revision(self) -> int:
        """Lock the organization, and take one revision: the same however often it is asked for.

        Raises: as `Caller.require_unchanged`.
        """
        if self.head is None or not self._has_revision:
            self.head = await self._advance(by=1)
            self._has_revision = True
        return self.head.revision

    async def _advance(self, *, by: int) -> OrganizationHead:
        """Wait for earlier writers, then check that the caller was not ended by one of them."""
        head = await organization_revision.advance(self.conn, self.caller.organization_id, by=by)
        is_first, self.head = self.head is None, head
        if is_first:
            self.first_head = head
            if not self.is_dry_run:
                await self.caller.require_unchanged(self.conn)
        return head
