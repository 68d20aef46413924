"""Withdrawn names: tokens issued to a name before it was given up are refused."""

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.services import cache_sizes
from runtime.services.zones.tagged_cache import ChangeHistory, ReadThroughCache
from runtime.storage.sql import revocations
from runtime.storage.sql.database import Database


class WithdrawalCache:
    """When names of one zone were last given up."""

    def __init__(self, database: Database, zone_id: str, history: ChangeHistory) -> None:
        self._zone_id = zone_id
        self._instants: ReadThroughCache[int] = ReadThroughCache(database, cache_sizes.WITHDRAWALS, history)

    async def is_withdrawn(self, claim: str, name: str, *, issued_at: float) -> bool:
        """Tell whether the holder of a name in a token was deleted or renamed since the token was issued.

        Whoever has the name now is another, or has lost what was issued until then.

        Args:
            claim: the claim of a token that has it: `client_id` of a credential, `actor` of an application in
                a chain, `aud` of a resource.
            issued_at: `iat` of the token, in seconds since 1970.
        """
        return issued_at <= await self._withdrawn_at(claim, name)

    async def _withdrawn_at(self, claim: str, name: str) -> int:
        """When that was for the last time, in seconds since 1970; 0 for never."""

        async def query(conn: AsyncConnection) -> int:
            found = await revocations.withdrawn_at(conn, self._zone_id, claim, name)
            return int(found.timestamp()) if found else 0

        return await self._instants.read(f"{claim}\0{name}", query, lambda _: {name})
