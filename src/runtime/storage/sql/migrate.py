"""Migrations: written by hand in `migrations/versions`, run by `zoned migrate`, never by starting up."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import stamina
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import Unavailable
from runtime.domain.operator_errors import OperatorError
from runtime.storage.sql import autovacuum, column_statistics, compatibility
from runtime.storage.sql.columns import ONLY_ON
from runtime.storage.sql.database import Database
from runtime.storage.sql.tables import METADATA

_SCRIPTS = Path(__file__).parent / "migrations"
# An arbitrary number that everything migrating this schema on one PostgreSQL server waits for.
_LOCK = 7_286_193_001
# While a migration waits for a table, whoever comes next waits behind it. So it gives way, before PostgreSQL
# would look for a deadlock (after a second) and might end a request for it, and tries again.
_LOCK_TIMEOUT_MS = 500
_TRY_FOR_SECONDS = 300.0
# What is answered where the version is no secret, but nobody's business: the log names both.
_OF_A_NEWER = "a newer zoned has migrated the database, which this one cannot serve: run the newer one here"
_OF_AN_OLDER = "the database is that of an older zoned: run `zoned migrate`"


class VersionUnusable(OperatorError):
    """The database is at another version than this build works with; the message says what to do."""


@dataclass(frozen=True)
class Migration:
    """The versions of a database before it was migrated and afterwards; `before` is None for a new one."""

    before: str | None
    after: str | None


# Is told the version before and the one after, inside the transaction of the migration.
Then = Callable[[AsyncConnection, str, str], Awaitable[None]]


async def migrate(url: str, *, then: Then | None = None) -> Migration:
    """Bring the database to the newest version, in one transaction and one process at a time; the versions.

    Programs that serve meanwhile wait while a table is changed, and half a second while a lock is asked for.
    A database that a newer build has migrated is left as it is, where this one may serve it.

    Args:
        then: what belongs to it, done once the tables are those of the newest version; not for a new
            database, nor for one that is at that version already.
    Raises: VersionUnusable for a database that this build cannot serve after all, or whose tables are in use
        by a long transaction.
    """
    database = Database.open(url, migrating=True)
    try:
        async for attempt in stamina.retry_context(
            on=autovacuum.is_locked_out,
            attempts=None,
            timeout=_TRY_FOR_SECONDS,
            wait_initial=0.2,
            wait_max=2.0,
        ):
            with attempt:
                migrated = await _migrate(database, then)
        if database.dialect == "postgresql" and migrated.before not in (None, migrated.after):
            await column_statistics.count_again(database)
        return migrated
    except DBAPIError as failure:
        if not autovacuum.is_locked_out(failure):
            raise
        raise VersionUnusable(
            "the tables are in use by a transaction or a vacuum that does not end, and nothing was changed",
            "end it (`pg_stat_activity` has it), and run `zoned migrate` again",
        ) from None
    finally:
        await database.close()


async def _migrate(database: Database, then: Then | None) -> Migration:
    async with database.transaction() as connection:
        if database.dialect == "postgresql":
            await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        before = await connection.run_sync(_version)
        if before is not None and before not in lineage():
            await connection.run_sync(_refuse_incompatible, before)
            return Migration(before, before)
        if database.dialect == "postgresql":
            if before not in (None, newest()):
                await _keep_autovacuum_off(connection)
            await connection.execute(text(f"SET LOCAL lock_timeout = {_LOCK_TIMEOUT_MS}"))
        await connection.run_sync(_upgrade)
        after = await connection.run_sync(_version)
        if (
            database.dialect == "sqlite"
            and (await connection.execute(text("PRAGMA foreign_key_check"))).first()
        ):
            raise RuntimeError("a migration left rows behind that refer to nothing; nothing was changed")
        if then is not None and before is not None and after is not None and before != after:
            await then(connection, before, after)
        return Migration(before, after)


async def _keep_autovacuum_off(connection: AsyncConnection) -> None:
    """From all tables, or from none where one does not give way: the migration may not need that table."""
    there = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
    try:
        async with connection.begin_nested():
            for statement in autovacuum.keep_off(METADATA.tables.keys() & {*there}):
                await connection.exec_driver_sql(statement)
    except DBAPIError as failure:
        if not autovacuum.is_locked_out(failure):
            raise


async def require_usable(url: str) -> None:
    """Raise VersionUnusable unless this build may serve the database.

    It is at the newest version that this build knows, or at one of a newer build that says that this one may.
    """
    database = Database.open(url)
    try:
        async with database.reading() as connection:
            await connection.run_sync(_refuse_unusable)
    finally:
        await database.close()


def _refuse_unusable(connection: Connection) -> None:
    found = _version(connection)
    if found is None:
        raise VersionUnusable("the database has no tables of this service yet", "run `zoned init`")
    if found not in lineage():
        _refuse_incompatible(connection, found)
    elif found != newest():
        raise VersionUnusable(
            f"the database is at version {found}, and this zoned works with {newest()}", "run `zoned migrate`"
        )


def _refuse_incompatible(connection: Connection, found: str) -> None:
    oldest = compatibility.noted(connection)
    if oldest in lineage():
        return
    raise VersionUnusable(
        f"the database is at version {found}, which this zoned does not know: the newest that it works"
        f" with is {newest()}",
        "run the newer zoned that has migrated it, or restore a back-up from before",
    )


async def refusal(conn: AsyncConnection) -> Unavailable | None:
    """What to answer in place of serving the database; None where this build may, by the rule of a start."""
    found = await conn.scalar(text("SELECT version_num FROM alembic_version"))
    if found is None or found == newest():
        return None
    try:
        await conn.run_sync(_refuse_unusable)
    except VersionUnusable as unusable:
        is_newer = found not in lineage()
        return Unavailable(_OF_A_NEWER if is_newer else _OF_AN_OLDER, internal=str(unusable))
    return None


async def newer_version(conn: AsyncConnection) -> str | None:
    """The version of the database where a newer build has migrated it; None where this one knows it."""
    found = await conn.run_sync(_version)
    return None if found is None or found in lineage() else found


async def differences(conn: AsyncConnection) -> list[str]:
    """What of the tables is not as the migrations make them, in words: somebody else has changed it.

    What a newer build has added to them is none.
    """
    is_newer = await newer_version(conn) is not None
    return await conn.run_sync(
        lambda connection: sorted(set(_differences(connection, additions=not is_newer)))
    )


def _differences(connection: Connection, *, additions: bool) -> Iterator[str]:
    options = {"compare_type": True, **what_is_compared(connection)}
    context = MigrationContext.configure(connection, opts=options)
    for found in compare_metadata(context, METADATA):
        # A change of a column comes in a list of all that changes about it.
        for change in found if isinstance(found, list) else [found]:
            if additions or not change[0].startswith("remove_"):
                yield _in_words(change)


def what_is_compared(connection: Connection) -> dict[str, Any]:
    """Options of Alembic: without partitions, which come and go, its own table, indexes of other databases.

    Spec: Alembic, `EnvironmentContext.configure`, `include_name` and `include_object`.
    """
    dialect, left_out = connection.dialect.name, {compatibility.TABLE}
    if dialect == "postgresql":
        left_out.update(connection.scalars(text("SELECT relname FROM pg_class WHERE relispartition")))

    def is_of_this_database(subject: Any, _name: str, sort: str, *_: Any) -> bool:
        return sort != "index" or subject.info.get(ONLY_ON, dialect) == dialect

    return {
        "include_name": lambda name, sort, _parents: sort != "table" or name not in left_out,
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


@cache
def lineage() -> tuple[str, ...]:
    """Every version that this build knows, the first one first."""
    known = [script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()]
    return tuple(reversed(known))


def newest() -> str:
    """The newest version this build knows."""
    return lineage()[-1]


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    return config


def _upgrade(connection: Connection) -> None:
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    compatibility.note(connection, compatibility.oldest_supported(lineage()))


def _version(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()
