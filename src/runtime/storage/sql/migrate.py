"""Migrations: written by hand under `migrations/versions`, run by `zoned migrate`, never by starting up."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.storage.sql.database import Database

_SCRIPTS = Path(__file__).parent / "migrations"
# An arbitrary number that everything migrating this schema on one PostgreSQL server waits for.
_LOCK = 7_286_193_001


# Is told the version before and the one after, inside the transaction of the migration.
Then = Callable[[AsyncConnection, str, str], Awaitable[None]]


async def migrate(url: str, *, then: Then | None = None) -> None:
    """Bring the database to the newest version, in one transaction and one process at a time.

    Args:
        then: what belongs to it, done once the tables are those of the newest version; not for a new
            database, nor for one that is at that version already.
    """
    database = Database.open(url, migrating=True)
    try:
        async with database.transaction() as connection:
            if database.dialect == "postgresql":
                await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            before = await connection.run_sync(_version)
            await connection.run_sync(_upgrade)
            after = await connection.run_sync(_version)
            if (
                database.dialect == "sqlite"
                and (await connection.execute(text("PRAGMA foreign_key_check"))).first()
            ):
                raise RuntimeError("a migration left rows behind that refer to nothing; nothing was changed")
            if then is not None and before is not None and after is not None and before != after:
                await then(connection, before, after)
    finally:
        await database.close()


async def is_current(url: str) -> bool:
    """Tell whether the database is at the newest version this build knows."""
    database = Database.open(url)
    try:
        async with database.reading() as connection:
            return await connection.run_sync(_version) == newest()
    finally:
        await database.close()


def newest() -> str | None:
    """The newest version this build knows."""
    return ScriptDirectory.from_config(_config()).get_current_head()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    return config


def _upgrade(connection: Connection) -> None:
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _version(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()
