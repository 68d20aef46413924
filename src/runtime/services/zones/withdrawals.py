"""Withdrawn names: tokens issued to a name before it was given up are refused."""

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.services import cache_sizes
from runtime.services.zones.read_through import ReadThroughCache
from runtime.storage.sql import revocations
from runtime.storage.sql.database import Database


class WithdrawalCache:
    """When names of one zone were last given up."""

    def __init__(self, database: Database, zone_id: str) -> None:
        self._zone_id = zone_id
        self._instants: ReadThroughCache[int] = ReadThroughCache(database, cache_sizes.WITHDRAWALS)

    async def withdrawn_at(self, claim: str, name: str) -> int:
        """When the holder of that name was last deleted or renamed, in seconds since 1970; 0 for never.

        Args:
            claim: the claim of a token that has it: `client_id` of a credential, `actor` of an application in
                a chain, `aud` of a resource.
        """

        async def query(conn: AsyncConnection) -> int:
            found = await revocations.withdrawn_at(conn, self._zone_id, claim, name)
            return int(found.timestamp()) if found else 0

        return await self._instants.read(f"{claim}\0{name}", query)
