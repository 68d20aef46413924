"""Caches the last snapshot with its ETag, so that an unchanged one is not sent again."""

import hashlib
from pathlib import Path
from typing import NamedTuple

from reconciler.files import read_private, write_private

from .connection import Connection


class CachedSnapshot(NamedTuple):
    """A snapshot's body and the entity tag it came with."""

    etag: str
    body: bytes


class SnapshotCache:
    """Snapshots in a directory, one file for each server, caller and path; this user's only."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "snapshots"

    def find(self, connection: Connection, path: str) -> CachedSnapshot | None:
        """The last snapshot under that path, as that caller saw it."""
        try:
            etag, _, body = read_private(self._file(connection, path)).partition(b"\n")
            return CachedSnapshot(etag.decode("ascii"), body)
        except (OSError, UnicodeDecodeError):
            return None

    def keep(self, connection: Connection, path: str, etag: str, body: bytes) -> None:
        """Remember a snapshot. One that cannot be written is fetched again next time."""
        try:
            write_private(self._file(connection, path), etag.encode("ascii") + b"\n" + body)
        except (OSError, UnicodeEncodeError):
            return

    def _file(self, connection: Connection, path: str) -> Path:
        key = hashlib.sha256(f"{connection.server}\0{connection.caller}\0{path}".encode()).hexdigest()
        return self._directory / f"{key[:40]}.ndjson"
