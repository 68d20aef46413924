"""Backups of the embedded database: a SQLite file with all tables, and one more that tells what is in it.

The copy is made by SQLite's online backup in one step: it is the database as it was at one moment, and
neither readers nor writers wait for it. Spec: SQLite Online Backup API.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path

import orjson

from runtime.storage.sql import file_copies, sqlite
from runtime.storage.sql.service_secrets import TABLE as SERVICE_SECRETS

MANIFEST_TABLE = "backup_manifest"
_FORMAT = 1


class BackupUnusable(Exception):
    """The file is no backup, is damaged, or was made by a newer program; the message says which."""


class DatabaseInUse(Exception):
    """Another process has the database open."""


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """What a backup says of itself.

    Attributes:
        made_at: RFC 3339, UTC.
        zoned: the version of the program that made it.
        tables_version: the version of the tables, as `zoned migrate` counts.
        rows: table -> how many rows it has.
        digest: SHA-256 over the rows of all tables, in hexadecimal.
    """

    made_at: str
    zoned: str
    tables_version: str
    rows: dict[str, int]
    digest: str
    format: int = _FORMAT


def write(source: Path, to: Path, *, now: datetime, zoned: str) -> BackupManifest:
    """Write a backup of a database, which others may be using, to an empty file.

    Raises: BackupUnusable when the copy is damaged or has no tables; sqlite3.Error.
    """
    with closing(sqlite.connect(source, read_only=True)) as live, closing(sqlite.connect(to)) as copy:
        live.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, and none beside it
        file_copies.remove_mark(copy)
        _require_sound(copy)
        rows, digest = _content(copy)
        made_at = now.isoformat(timespec="seconds").replace("+00:00", "Z")
        manifest = BackupManifest(made_at, zoned, _version(copy), rows, digest)
        copy.execute(f"CREATE TABLE {MANIFEST_TABLE} (manifest TEXT NOT NULL)")
        copy.execute(f"INSERT INTO {MANIFEST_TABLE} VALUES (?)", (orjson.dumps(asdict(manifest)).decode(),))  # noqa: S608 - a constant
    return manifest


def verify(path: Path) -> BackupManifest:
    """What a backup says of itself, once all of it was compared with that. Raises BackupUnusable."""
    try:
        with closing(sqlite.connect(path, read_only=True)) as backup:
            manifest = _manifest(backup)
            _require_sound(backup)
            if (manifest.rows, manifest.digest) != _content(backup):
                raise BackupUnusable("its rows are not those that were backed up")
            if manifest.tables_version != _version(backup):
                raise BackupUnusable("its tables are of another version than it says")
    except sqlite3.Error as failure:
        raise BackupUnusable(f"it is no backup of zoned, or it is damaged: {failure}") from None
    return manifest


def copy_out(path: Path, to: Path) -> bytes | None:
    """Write the database of a backup to an empty file; a wrapped secret in it, to try the key on.

    Raises: sqlite3.Error.
    """
    with closing(sqlite.connect(path, read_only=True)) as backup, closing(sqlite.connect(to)) as copy:
        backup.backup(copy)
        copy.execute(f"DROP TABLE {MANIFEST_TABLE}")
        found = copy.execute(f"SELECT wrapped FROM {SERVICE_SECRETS} WHERE name = 'pepper'").fetchone()  # noqa: S608
    return None if found is None else bytes(found[0])


@contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """Keep everybody else from a database; what it has beside its file is in the file then.

    Raises: DatabaseInUse; sqlite3.Error.
    """
    with closing(sqlite.connect(path, wait_seconds=0)) as own:
        try:
            own.execute("PRAGMA locking_mode = EXCLUSIVE")
            own.execute("PRAGMA journal_mode = DELETE")  # refused while anybody else has it open
            own.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as refusal:
            if refusal.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise
            raise DatabaseInUse from None
        yield


def _manifest(backup: sqlite3.Connection) -> BackupManifest:
    (text,) = backup.execute(f"SELECT manifest FROM {MANIFEST_TABLE}").fetchone() or ("",)  # noqa: S608 - a constant
    try:
        told = orjson.loads(text)
        if told["format"] != _FORMAT:
            raise BackupUnusable("it was made by a newer zoned: restore it with that one")
        return BackupManifest(**told)
    except (ValueError, TypeError, KeyError):
        raise BackupUnusable("it does not say what is in it") from None


def _require_sound(database: sqlite3.Connection) -> None:
    (found,) = database.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise BackupUnusable(f"it is damaged: {found}")
    if database.execute("PRAGMA foreign_key_check").fetchone():
        raise BackupUnusable("it is damaged: rows refer to others that are not there")


def _version(database: sqlite3.Connection) -> str:
    try:
        (found,) = database.execute("SELECT version_num FROM alembic_version").fetchone() or (None,)
    except sqlite3.OperationalError:
        found = None
    if found is None:
        raise BackupUnusable("it has no tables of this service")
    return str(found)


def _content(database: sqlite3.Connection) -> tuple[dict[str, int], str]:
    """How many rows each table has, and a digest of all of them."""
    digest, counts = sha256(), {}
    named = database.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
    ).fetchall()
    for (table,) in named:
        if table == MANIFEST_TABLE:
            continue
        counts[table] = 0
        digest.update(f"{table}\n".encode())
        for row in database.execute(f'SELECT * FROM "{table}"'):  # noqa: S608 - a table of this database
            counts[table] += 1
            digest.update(repr(row).encode("utf-8", "surrogatepass"))
    return counts, digest.hexdigest()
