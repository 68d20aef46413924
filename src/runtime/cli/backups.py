"""`zoned backup` and `zoned restore`: the embedded database in one file, and back."""

import asyncio
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import click

from runtime import files
from runtime.cli.commands import ReadOnlyCommand
from runtime.cli.database_lock import hold_database
from runtime.cli.execution import CommandError, errors_in_one_line
from runtime.cli.operators import current_operator
from runtime.cli.setup import migrate_recorded
from runtime.services.data_keys import binding_of_secret
from runtime.services.encryption_keys import key_encryption_of
from runtime.services.management import audit
from runtime.settings import Settings
from runtime.storage.sql import backups
from runtime.storage.sql import migrate as migrations
from runtime.storage.sql.backups import BackupManifest, BackupUnusable, DatabaseInUse
from runtime.storage.sql.database import Database
from runtime.storage.sql.sqlite import files_of

_FILE = click.Path(path_type=Path, dir_okay=False)
_GUIDE = "docs/operating/data.md"


@click.command(cls=ReadOnlyCommand)
@click.argument("file", type=_FILE)
@click.pass_obj
def backup(settings: Settings, file: Path) -> None:
    """Write a backup of the embedded database to FILE, while the service runs or not.

    FILE must not exist. The key-encryption key is not in it. PostgreSQL is backed up with pg_dump.
    """
    source = _database_of(settings, "pg_dump")
    if not source.exists():
        raise CommandError(f"there is no database at `{source}`")
    if file.exists():
        raise CommandError(f"`{file}` exists: choose another name")
    with errors_in_one_line(), files.draft_beside(file) as draft:
        try:
            manifest = backups.write(source, draft, now=datetime.now(UTC), zoned=version("zonewright"))
        except (BackupUnusable, sqlite3.Error) as failure:
            raise CommandError(f"`{source}` cannot be backed up: {failure}") from None
        try:
            files.place(draft, file)
        except FileExistsError:
            raise CommandError(f"`{file}` exists: choose another name") from None
    click.echo(f"backup    {file}\nmade at   {manifest.made_at}\n{_content(manifest)}")
    click.echo(
        f"The key-encryption key is not in it. It is in {_place_of_key(settings)}: keep a copy apart from "
        "the backup. Without it nothing that is encrypted in the backup can be read."
    )


@click.command()
@click.argument("file", type=_FILE)
@click.option("--replace", is_flag=True, help="Replace the database that is there.")
@click.pass_obj
def restore(settings: Settings, file: Path, replace: bool) -> None:
    """Restore the embedded database from FILE, which `zoned backup` has written.

    Stop every `zoned` first, and put the key-encryption key in its place. All of FILE is verified, and its
    tables are migrated, before anything is replaced. Short-lived state in Redis is deleted: it is newer than
    FILE.
    """
    target = _database_of(settings, "pg_restore")
    if target.exists() and not replace:
        raise CommandError(f"there is a database at `{target}`: to lose what is in it, add --replace")
    if not file.exists():
        raise CommandError(f"there is no `{file}`")
    with errors_in_one_line(), _without_servers(settings):
        files.make_directory(target.parent)
        try:
            manifest = backups.verify(file)
            with files.draft_beside(target) as draft:
                _prepare(settings, file, manifest, draft)
                with backups.alone_with(target) if target.exists() else nullcontext():
                    _forget_short_lived(settings)
                    if not target.exists():
                        _remove_leftovers(settings)
                    files.place(draft, target, replacing=replace)
        except BackupUnusable as refusal:
            raise CommandError(f"`{file}` cannot be restored: {refusal}") from None
        except DatabaseInUse:
            raise CommandError(f"`{target}` is in use: stop every `zoned` first") from None
        except FileExistsError:
            raise CommandError(
                f"there is a database at `{target}`: to lose what is in it, add --replace"
            ) from None
    click.echo(f"restored  {target}\nmade at   {manifest.made_at}\n{_content(manifest)}")
    click.echo(
        f"What was done since {manifest.made_at} is undone: run `zoned doctor`, start the service, run "
        "`zonectl plan` for each configuration, and repeat the revocations made since then; "
        f"{_GUIDE} has the details."
    )


@contextmanager
def _without_servers(settings: Settings) -> Iterator[None]:
    """Let no server start on the database until the block ends. Raises CommandError while one runs."""
    held = hold_database(settings)
    try:
        yield
    finally:
        if held is not None:
            os.close(held)


def _prepare(settings: Settings, file: Path, manifest: BackupManifest, draft: Path) -> None:
    """Make a database of a backup that can be served from, with a record of where it comes from.

    Raises: KeyUnusable, SealBroken, VersionUnusable; BackupUnusable.
    """
    wrapped = backups.copy_out(file, draft)
    if wrapped is not None:
        asyncio.run(_require_key(settings, wrapped))
    url = f"sqlite+aiosqlite:///{draft.resolve()}"
    migrate_recorded(url)
    asyncio.run(_record(url, manifest))
    with backups.alone_with(draft):
        pass  # everything is in this one file now


async def _require_key(settings: Settings, wrapped: bytes) -> None:
    """Check that the key opens what is in the backup. Raises KeyUnusable, SealBroken, KeyRefused."""
    keys = key_encryption_of(settings)
    try:
        await keys.unwrap(wrapped, binding_of_secret("pepper"))
    finally:
        await keys.aclose()


async def _record(url: str, manifest: BackupManifest) -> None:
    database = Database.open(url)
    try:
        async with database.transaction() as conn:
            told = {"made_at": manifest.made_at, "version": manifest.tables_version}
            by, now = current_operator(), datetime.now(UTC)
            await audit.record_database(conn, "database.restore", by=by, now=now, before=None, after=told)
    finally:
        await database.close()
    await migrations.require_usable(url)


def _remove_leftovers(settings: Settings) -> None:
    """Remove what an earlier database has left beside its file: SQLite would write it into the next one."""
    _, *beside = files_of(settings.resolved_database_url)
    for each in beside:
        each.unlink(missing_ok=True)


def _forget_short_lived(settings: Settings) -> None:
    if settings.redis_url is not None:
        # Redis is an optional part of the installation.
        from runtime.storage.state.clearing import clear

        asyncio.run(clear(settings.redis_url))


def _database_of(settings: Settings, tool: str) -> Path:
    """The file of the embedded database. Raises CommandError where there is another one."""
    found = files_of(settings.resolved_database_url)
    if not found:
        raise CommandError(f"ZONED_DATABASE_URL is no SQLite file: use `{tool}`, as {_GUIDE} says")
    return found[0]


def _place_of_key(settings: Settings) -> str:
    own = settings.key_encryption_key
    if own is None:
        return f"`{settings.key_file}`"
    text = own.get_secret_value().strip()
    return f"`{text}`" if ":" in text else "ZONED_KEY_ENCRYPTION_KEY"


def _content(manifest: BackupManifest) -> str:
    rows = manifest.rows
    told = ", ".join(f"{rows.get(table, 0):,} {table}" for table in ("organizations", "zones", "users"))
    return f"contains  {told}; {sum(rows.values()):,} rows, version {manifest.tables_version}"
