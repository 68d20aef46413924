"""Who takes connections to the database while they have one."""

import asyncio
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from runtime.services.zones import ZoneRegistry
from runtime.services.zones.clients import ClientCache
from runtime.services.zones.tagged_cache import ReadThroughCache
from runtime.storage.sql.database import Database


class Connections:
    """Counts connections of this process that are taken while it watches.

    Attributes:
        inside_another: where one was taken by a task that had one, or a cache was asked that may take one.
    """

    def __init__(self) -> None:
        self.taken = 0
        self.inside_another: list[str] = []

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch during the block."""
        holders: set[asyncio.Task[Any] | None] = set()
        take = Database._connected

        @asynccontextmanager
        async def counted(database: Database, engine: Any, **options: Any) -> AsyncIterator[Any]:
            task = asyncio.current_task()
            is_second = task in holders
            self.taken += 1
            if is_second:
                self.inside_another.append("".join(traceback.format_stack(limit=12)))
            holders.add(task)
            try:
                async with take(database, engine, **options) as connection:
                    yield connection
            finally:
                if not is_second:
                    holders.discard(task)

        def asked(ask: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
            async def noted(*arguments: Any, **options: Any) -> Any:
                if asyncio.current_task() in holders:
                    self.inside_another.append("".join(traceback.format_stack(limit=12)))
                return await ask(*arguments, **options)

            return noted

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Database, "_connected", counted)
            for cache, name in ((ZoneRegistry, "get"), (ClientCache, "get"), (ReadThroughCache, "read")):
                patch.setattr(cache, name, asked(getattr(cache, name)))
            yield
