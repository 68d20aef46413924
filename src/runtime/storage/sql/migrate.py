"""Migrations: written by hand in `migrations/versions`, run by `zoned migrate`, never by starting up."""

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.storage.sql.columns import ONLY_ON
from runtime.storage.sql.database import Database
from runtime.storage.sql.tables import METADATA

_SCRIPTS = Path(__file__).parent / "migrations"
# An arbitrary number that everything migrating this schema on one PostgreSQL server waits for.
_LOCK = 7_286_193_001


class VersionUnusable(Exception):
    """The database is at another version than this build works with; the message says what to do."""


# Is told the version before and the one after, inside the transaction of the migration.
Then = Callable[[AsyncConnection, str, str], Awaitable[None]]


async def migrate(url: str, *, then: Then | None = None) -> None:
    """Bring the database to the newest version, in one transaction and one process at a time.

    Args:
        then: what belongs to it, done once the tables are those of the newest version; not for a new
            database, nor for one that is at that version already.
    Raises: VersionUnusable for a database that a newer build has migrated.
    """
    database = Database.open(url, migrating=True)
    try:
        async with database.transaction() as connection:
            if database.dialect == "postgresql":
                await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            before = await connection.run_sync(_version)
            _refuse_unknown(before)
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


async def require_current(url: str) -> None:
    """Raise VersionUnusable unless the database is at the newest version this build knows."""
    database = Database.open(url)
    try:
        async with database.reading() as connection:
            found = await connection.run_sync(_version)
    finally:
        await database.close()
    _refuse_unknown(found)
    if found is None:
        raise VersionUnusable("the database has no tables of this service yet: run `zoned init`")
    if found != newest():
        raise VersionUnusable(
            f"the database is at version {found}, and this zoned works with {newest()}: run `zoned migrate`"
        )


async def differences(conn: AsyncConnection) -> list[str]:
    """What of the tables is not as the migrations make them, in words: somebody else has changed it."""
    return await conn.run_sync(lambda connection: sorted(set(_differences(connection))))


def _differences(connection: Connection) -> Iterator[str]:
    options = {"compare_type": True, **what_is_compared(connection)}
    context = MigrationContext.configure(connection, opts=options)
    for found in compare_metadata(context, METADATA):
        # A change of a column comes in a list of all that changes about it.
        for change in found if isinstance(found, list) else [found]:
            yield _in_words(change)


def what_is_compared(connection: Connection) -> dict[str, Any]:
    """Options of Alembic: without partitions, which come and go, and indexes of the other database.

    Spec: Alembic, `EnvironmentContext.configure`, `include_name` and `include_object`.
    """
    dialect, partitions = connection.dialect.name, set[str]()
    if dialect == "postgresql":
        partitions.update(connection.scalars(text("SELECT relname FROM pg_class WHERE relispartition")))

    def is_of_this_database(subject: Any, _name: str, sort: str, *_: Any) -> bool:
        return sort != "index" or subject.info.get(ONLY_ON, dialect) == dialect

    return {
        "include_name": lambda name, sort, _parents: sort != "table" or name not in partitions,
        "include_object": is_of_this_database,
    }


def _in_words(change: tuple[Any, ...]) -> str:
    what, subject = change[0], change[1]
    if what in ("add_table", "remove_table"):
        return f"{_THERE[what]} table `{subject.name}`"
    if what in ("add_column", "remove_column"):
        return f"{_THERE[what]} column `{change[2]}.{change[3].name}`"
    if what.startswith(("add_", "remove_")):
        kind, verb = what.partition("_")[2], what.partition("_")[0]
        return (
            f"{_THERE[f'{verb}_table']} {_KINDS.get(kind, kind)} `{subject.name}` of `{subject.table.name}`"
        )
    return f"changed column `{change[2]}.{change[3]}`"


# What would have to be done about it -> what it is now.
_THERE = {
    "add_table": "missing",
    "remove_table": "unknown",
    "add_column": "missing",
    "remove_column": "unknown",
}
_KINDS = {"fk": "foreign key"}


def _refuse_unknown(found: str | None) -> None:
    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if found is not None and found not in known:
        raise VersionUnusable(
            f"the database is at version {found}, which this zoned does not know: the newest that it works"
            f" with is {newest()}. Run the newer zoned that has migrated it, or restore a back-up from before"
        )


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
