"""A cache that reads what it does not hold from the database."""

from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.services.bounded_cache import BoundedCache
from runtime.storage.sql.database import Database

T = TypeVar("T")


class ReadThroughCache(BoundedCache[T]):
    """A bounded cache over a query. What is missing is not remembered, so what is new is found at once."""

    __slots__ = ("_database",)

    def __init__(self, database: Database, limit: int) -> None:
        super().__init__(limit)
        self._database = database

    @overload
    async def read(self, key: str, query: Callable[[AsyncConnection], Awaitable[T]]) -> T: ...

    @overload
    async def read(self, key: str, query: Callable[[AsyncConnection], Awaitable[T | None]]) -> T | None: ...

    async def read(self, key: str, query: Callable[[AsyncConnection], Awaitable[T | None]]) -> T | None:
        """The value of the key, from the cache or from the query; None when there is none."""
        if (cached := self.get(key)) is not None:
            return cached
        async with self._database.querying() as conn:
            found = await query(conn)
        if found is not None:
            self[key] = found
        return found
