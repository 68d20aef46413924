"""Withdrawn names: tokens issued to a name before it was given up are refused."""

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.services import cache_sizes
from runtime.services.clock import issued_until
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
        return issued_at <= await self._issued_until(claim, name)

    async def seconds_left(self, names: Iterable[tuple[str, str]], now: datetime) -> float:
        """How long nothing is to be issued to the holder of these names, as (claim, name); 0 for not at all.

        What is issued sooner after such a name was given up is refused as what was issued before. It is some
        seconds at most, also where a clock was set back since.
        """
        until = max([await self._issued_until(claim, name) for claim, name in names], default=0)
        longest = issued_until(now) + 1 - now.timestamp()
        return min(max(0.0, until + 1 - now.timestamp()), longest)

    async def _issued_until(self, claim: str, name: str) -> int:
        """The last `iat` of tokens that are refused, as the revocation list has it; 0 for none."""

        async def query(conn: AsyncConnection) -> int:
            found = await revocations.withdrawn_at(conn, self._zone_id, claim, name)
            return issued_until(found) if found else 0

        return await self._instants.read(f"{claim}\0{name}", query, lambda _: {name})
