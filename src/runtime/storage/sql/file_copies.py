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
from urllib.parse import quote

from runtime.storage.sql import sqlite

EVERY_SECONDS = 0.5
# SQLite itself writes the `-wal` into the file from 4 MiB on, and the mark is missing until the next look.
_RENEWED_FROM_BYTES = 2 * 2**20
_WAIT_SECONDS = 1.0  # for others' writes

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
    """Take the mark from a copy that is complete. Raises sqlite3.Error."""
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
    while True:
        try:
            own = own or sqlite.connect(path, wait_seconds=_WAIT_SECONDS)
            _renew(own, path)
        except sqlite3.Error:  # read-only, full, or busy: that is told by whoever needs to write
            pass
        if enough.wait(EVERY_SECONDS):
            break
    if own is not None:
        own.close()


def _renew(own: sqlite3.Connection, path: Path) -> None:
    """Mark the file, unless it is marked and little has been written since."""
    is_marked = _mark(own) == _NONE and _mark_of_file(path) == _IN_USE
    if is_marked and _wal_bytes(path) < _RENEWED_FROM_BYTES:
        return
    own.execute("PRAGMA journal_size_limit = 0")  # a `-wal` that begins anew is as large as what is in it
    _set(own, _IN_USE)
    try:
        own.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()  # as far as that goes without waiting
    finally:
        _set(own, _NONE)


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
    address = f"file:{quote(str(path))}?mode=ro&immutable=1"
    with closing(sqlite3.connect(address, uri=True)) as own:
        return _mark(own)


def _wal_bytes(path: Path) -> int:
    """The size of the `-wal`, which lies beside the file itself, not beside a link to it."""
    file = path.resolve()
    wal = file.with_name(f"{file.name}-wal")
    try:
        return wal.stat().st_size
    except FileNotFoundError:
        return 0
