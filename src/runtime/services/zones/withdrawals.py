"""Withdrawn names: tokens issued to a name before it was given up are refused."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.oauth.revocable_names import Name, TokenNames
from runtime.services import cache_sizes
from runtime.services.clock import issued_until
from runtime.services.zones.tagged_cache import ChangeHistory, ReadThroughCache, TaggedCache
from runtime.storage.sql import revocations
from runtime.storage.sql.database import Database


class WithdrawalCache:
    """When names of one zone were last given up."""

    def __init__(self, database: Database, zone_id: str, history: ChangeHistory) -> None:
        self._zone_id = zone_id
        self._history = history
        self._instants: ReadThroughCache[int] = ReadThroughCache(database, cache_sizes.WITHDRAWALS, history)
        # The same of all names of a token together, which those of one client for one resource share.
        self._latest: TaggedCache[int] = TaggedCache(cache_sizes.WITHDRAWALS_OF_TOKENS, history)

    async def is_withdrawn(self, name: Name, *, issued_at: float) -> bool:
        """Tell whether what a token is called by was given up since the token was issued.

        Whoever has the name now is another, or has lost what was issued until then.

        Args:
            issued_at: `iat` of the token, in seconds since 1970.
        """
        return issued_at <= await self._issued_until(name)

    async def issued_until(self, names: TokenNames) -> int:
        """The last `iat` of tokens that are refused for one of these names; 0 for none."""
        key = _key_of_all(names)
        latest = self._latest.get(key)
        if latest is None:
            as_of, each_name = self._history.epoch, list(names.in_zone())
            latest = max([await self._issued_until(name) for name in each_name])
            self._latest.keep(key, latest, {value for _, value in each_name}, as_of=as_of)
        return latest

    async def _issued_until(self, name: Name) -> int:
        """The last `iat` of tokens that are refused, as the revocation list has it; 0 for none."""
        claim, value = name

        async def query(conn: AsyncConnection) -> int:
            found = await revocations.withdrawn_at(conn, self._zone_id, claim, value)
            return issued_until(found) if found else 0

        return await self._instants.read(_key(name), query, lambda _: {value})


def _key(name: Name) -> str:
    return f"{name[0]}\0{name[1]}"


def _key_of_all(names: TokenNames) -> str:
    """A key of all names of a token: none of them has a NUL in it, nor is one missing and there at once."""
    client_id, audience, actors, own = names
    return "\0".join(
        (client_id, "\0" if audience is None else audience, "\0" if own is None else own, *actors)
    )


def issued_until_in_session(withdrawn: Mapping[Name, datetime], names: Iterable[Name]) -> int:
    """The last `iat` of tokens that are refused of those of one session; 0 for none.

    Args:
        withdrawn: when the user took back what has that name there.
        names: of the token.
    """
    if not withdrawn:
        return 0
    return max((issued_until(withdrawn[each]) for each in names if each in withdrawn), default=0)
