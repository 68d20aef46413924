"""Caches which file contents are valid: an unchanged file is read but not parsed again.

An entry is keyed by the digest of the content; the whole memory is bound to the schemas and the reader's
version. It is JSON, so nothing in it can run, and losing it costs time only.
"""

import hashlib
import os
from pathlib import Path
from typing import Any

import orjson

from reconciler.files import read_private, write_private
from reconciler.kinds import Kinds

from .source_files import SourceFiles

_FORMAT = "1"

Entry = list[list[Any]]  # [line, value] of every document


def cache_directory() -> Path:
    """`ZONECTL_CACHE_DIR`, else `zonewright` in the user's cache directory."""
    if given := os.environ.get("ZONECTL_CACHE_DIR"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zonewright"


class ValidationCache:
    """Valid documents by content digest, for one set of named paths."""

    def __init__(self, source: SourceFiles, kinds: Kinds) -> None:
        key = hashlib.sha256(
            "\0".join([_FORMAT, kinds.digest, *map(str, source.named)]).encode(errors="surrogateescape")
        ).hexdigest()
        self._file = cache_directory() / "manifests" / f"{key[:40]}.json"
        # What a repository brings along is no memory of ours: its documents would go unchecked.
        self._usable = self._file not in source.opener
        self._known = self._read()
        self._used: dict[str, Entry] = {}
        self._new = False

    def _read(self) -> dict[str, Entry]:
        if not self._usable:
            return {}
        try:
            content = orjson.loads(read_private(self._file))
        except (OSError, orjson.JSONDecodeError):
            return {}
        return content if isinstance(content, dict) else {}

    def find(self, digest: str) -> Entry | None:
        """The documents of a content that was valid before."""
        entry = self._known.get(digest)
        if entry is not None:
            self._used[digest] = entry
        return entry

    def keep(self, digest: str, entry: Entry) -> None:
        """Remember a content that is valid."""
        self._used[digest] = entry
        self._new = True

    def save(self) -> None:
        """Write what this run used. A cache that cannot be written is done without."""
        if self._usable and (self._new or len(self._used) != len(self._known)):
            try:
                write_private(self._file, orjson.dumps(self._used))
            except OSError:
                return
