"""Who takes connections to the database while they have one."""

import asyncio
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from runtime.storage.sql.database import Database


class Connections:
    """Counts connections of this process that are taken while it watches.

    Attributes:
        inside_another: where one was taken by a task that had one.
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

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Database, "_connected", counted)
            yield
