"""Tells a copy of a SQLite file in use that lacks its `-wal`, and with it the latest writes.

While a server runs, the file has a mark, and the `-wal` beside it says that there is none. So whoever reads
both sees none, be it after a crash or from a copy of both, and whichever program has written the one into the
other. Who has the file alone sees the mark. Spec: SQLite, Write-Ahead Logging, PRAGMA application_id.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from runtime.storage.sql import sqlite

EVERY_SECONDS = 0.5
# SQLite itself writes the `-wal` into the file from 4 MiB on, and the mark is missing until the next look.
_RENEWED_FROM_BYTES = 2 * 2**20
_WAIT_SECONDS = 1.0  # for others' writes
_LAST_WAIT_SECONDS = 10.0  # with what is closed then, the file gets what the `-wal` says

_NONE = 0
_IN_USE = 0x7A6F_6E31
_INCOMPLETE = 0x7A6F_6E32  # somebody serves from such a copy: it has a `-wal` of its own, and lacks the other


def is_incomplete(path: Path) -> bool:
    """Tell whether a database is such a copy, which may be in use. Raises sqlite3.Error.

    It is asked before this process opens the file: to do so makes a `-wal`.
    """
    if not path.exists():
        return False
    if not _wal_bytes(path):
        return _mark_of_file(path) in (_IN_USE, _INCOMPLETE)
    with closing(sqlite.connect(path, read_only=True)) as own:
        found = _mark(own)
    if found == _IN_USE:  # killed while it marked the file: nothing is missing, and whoever closes it next
        with suppress(sqlite3.Error):  # would write the mark into it for good
            _change(path, _NONE)
    return found == _INCOMPLETE


def note_incomplete(path: Path) -> bool:
    """What `is_incomplete` tells, which it goes on telling when the file is used. Raises sqlite3.Error."""
    if not is_incomplete(path):
        return False
    with suppress(sqlite3.Error):  # of one that takes no writes it will be told once it is not in use
        _change(path, _INCOMPLETE)
    return True


def accept(path: Path) -> None:
    """Let a copy be as complete as any other database from now on. Raises sqlite3.Error."""
    if is_incomplete(path):
        _change(path, _NONE)


def remove_mark(copy: sqlite3.Connection) -> None:
    """Take the mark from a backup, which is complete if what it was made of is. Raises sqlite3.Error."""
    if _mark(copy) == _IN_USE:
        _set(copy, _NONE)


@contextmanager
def marked(path: Path) -> Iterator[None]:
    """Let copies of the file alone have the mark until the block ends.

    One process at a time does so, and not of a database that is such a copy itself.
    """
    enough = Event()
    keeper = Thread(target=_keep, args=(path, enough), name="file_copies", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        enough.set()
        keeper.join()


def _keep(path: Path, enough: Event) -> None:
    own: sqlite3.Connection | None = None
    known_bytes = 0  # of the `-wal` at the last renewal: somebody who reads for long lets it grow
    while True:
        # Read-only, full, or busy: that is told by whoever needs to write.
        with suppress(sqlite3.Error, OSError):
            own = own or _opened(path)
            known_bytes = _renew(own, path, known_bytes)
        if enough.wait(EVERY_SECONDS):
            break
    if own is not None:
        with suppress(sqlite3.Error):
            own.execute(f"PRAGMA busy_timeout = {int(1_000 * _LAST_WAIT_SECONDS)}")
            if _mark(own) == _IN_USE:  # somebody's long write has come between
                _set(own, _NONE)
        own.close()


def _opened(path: Path) -> sqlite3.Connection:
    own = sqlite.connect(path, wait_seconds=_WAIT_SECONDS)
    own.execute("PRAGMA synchronous = NORMAL")
    own.execute("PRAGMA journal_size_limit = 0")  # a `-wal` that begins anew is as large as what is in it
    return own


def _renew(own: sqlite3.Connection, path: Path, known_bytes: int) -> int:
    """Mark the file, unless it is marked and little has been written since; the size of the `-wal` then."""
    bytes_now = _wal_bytes(path)
    if bytes_now < known_bytes:
        known_bytes = 0
    is_marked = _mark(own) == _NONE and _mark_of_file(path) == _IN_USE
    if is_marked and bytes_now - known_bytes < _RENEWED_FROM_BYTES:
        return known_bytes
    _set(own, _IN_USE)
    try:
        own.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()  # as far as that goes without waiting
    finally:
        _set(own, _NONE)
    return _wal_bytes(path)


def _change(path: Path, mark: int) -> None:
    with closing(sqlite.connect(path)) as own:
        _set(own, mark)


def _set(own: sqlite3.Connection, mark: int) -> None:
    own.execute(f"PRAGMA application_id = {mark}")


def _mark(own: sqlite3.Connection) -> int:
    (found,) = own.execute("PRAGMA application_id").fetchone()
    return int(found)


def _mark_of_file(path: Path) -> int:
    """The mark as the file alone has it, whatever is in its `-wal`."""
    with closing(sqlite.connect_alone(path)) as own:
        return _mark(own)


def _wal_bytes(path: Path) -> int:
    """The size of the `-wal`, which lies beside the file itself, not beside a link to it."""
    file = path.resolve()
    wal = file.with_name(f"{file.name}-wal")
    try:
        return wal.stat().st_size
    except FileNotFoundError:
        return 0
