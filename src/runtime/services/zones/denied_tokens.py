"""Single tokens of a zone that were revoked: all that may be alive, brought up to date by what is new.

Each revocation has every process read what it does not know. A client may revoke tokens by the ten thousand,
so that is a few rows, whatever the zone has of them.
"""

from copy import copy
from datetime import UTC, datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.services.clock import NODES_APART
from runtime.storage.sql import revocations

# What another node stamps, and commits a moment later, is not stamped before a reading by more than that.
_OVERLAP = 2 * NODES_APART
# So many are kept beyond their expiry before all are read anew.
_FEW = 1000


class DeniedTokens:
    """The ids of these tokens.

    Attributes:
        count: how many were ever revoked, which says what has been read: a larger one was published for more.
    """

    def __init__(self) -> None:
        self.count = -1
        self._ids = set[str]()
        self._most = 0
        self._all_read_at = self._read_at = datetime.fromtimestamp(0, UTC)

    def __contains__(self, token_id: str) -> bool:
        return token_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def copy(self) -> "DeniedTokens":
        """The same, to be brought up to date apart."""
        made = copy(self)
        made._ids = self._ids.copy()
        return made

    async def read(self, conn: AsyncConnection, zone_id: str, count: int, *, now: datetime) -> None:
        """Have what the database has: what is new where that is known to be all, else everything.

        Args:
            conn: `Database.reading`, whose statements see the database at one instant.
            count: as it was read there.
        """
        if count == self.count:
            return
        if 0 <= self.count < count and len(self._ids) + count - self.count <= self._most:
            # Those that had expired when all were read are not among the ids, so they do not count here.
            rows = await revocations.denied(
                conn, zone_id, alive_at=self._all_read_at, after=self._read_at - _OVERLAP
            )
            new = rows - self._ids
            if len(new) == count - self.count:
                self._ids |= new
                self.count, self._read_at = count, now
                return
        ids = await revocations.denied(conn, zone_id, alive_at=now)
        self._ids, self.count, self._most = set(ids), count, 2 * len(ids) + _FEW
        self._all_read_at = self._read_at = now
