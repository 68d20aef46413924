"""Files that the service writes: atomic, and readable by its own account alone.

Nothing else of the service makes a file or a directory, so that none is forgotten: a test reads the code.
"""

import fcntl
import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import ENOTDIR
from pathlib import Path
from typing import BinaryIO

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700
# What a file with the key-encryption key in it must not allow: a group may read it at most, as one that comes
# from a volume of secrets does. Whoever else could read it may know the key, so it is refused and not mended.
NOT_FOR_A_KEY = 0o027
_OTHERS = 0o077  # the bits of the group and of everybody else


@dataclass(frozen=True, slots=True)
class ExposedPath:
    """A file or directory that other accounts of the machine can get at.

    Attributes:
        mode: its permission bits.
        owner: uid of the account that it belongs to.
    """

    path: Path
    mode: int
    owner: int

    @property
    def is_ours(self) -> bool:
        """Tell whether this process may mend it."""
        return self.owner == os.geteuid()

    @property
    def problem(self) -> str:
        """What is wrong."""
        return f"`{self.path}` is open to other accounts of this machine (mode {self.mode:o})"

    @property
    def remedy(self) -> str:
        """What to do."""
        mend = f"`chmod {'700' if self.path.is_dir() else '600'} {self.path}`"
        return mend if self.is_ours else f"it belongs to the account {self.owner}, which can {mend}"

    def __str__(self) -> str:
        """What is wrong, and what to do, as one line."""
        return f"{self.problem}: {self.remedy}"


def make_directory(path: Path) -> None:
    """Make a directory, and the parents that it lacks; one that is there stays as it is. Raises OSError."""
    lacking = [each for each in (path, *path.parents) if not each.exists()]
    for each in reversed(lacking):
        with suppress(FileExistsError):  # another process was first
            each.mkdir(mode=DIRECTORY_MODE)
            each.chmod(DIRECTORY_MODE)
    if not path.is_dir():
        raise NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR), str(path))


def make_empty(path: Path) -> None:
    """Make an empty file for a library to write to; one that is there stays as it is. Raises OSError.

    A file that is there is not even opened: to close it would end the locks that SQLite has on it.
    """
    with suppress(FileExistsError):
        os.close(_new(path))


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that nobody sees in part, in place of one of that name. Raises OSError."""
    draft = _draft(path, content)
    try:
        draft.rename(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def rewrite(path: Path, content: bytes) -> None:
    """As `write_whole`, without waiting for the disk: for what may go with the machine. Raises OSError."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(_new(draft), "wb") as file:
            file.write(content)
        draft.rename(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def make_temporary_directory(prefix: str) -> Path:
    """A new directory where the system keeps temporary ones. Raises OSError."""
    return Path(tempfile.mkdtemp(prefix=prefix))


def remove_directory(path: Path) -> None:
    """Remove a directory with all that is in it, as far as that goes."""
    shutil.rmtree(path, ignore_errors=True)


def write_once(path: Path, content: bytes) -> bool:
    """Write a file that nobody sees in part, unless there is one of that name; whether it was written.

    It is on the disk when this returns. Of several that do so at once one wins. Raises OSError.
    """
    draft = _draft(path, content)
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


@contextmanager
def draft_beside(path: Path) -> Iterator[Path]:
    """An empty hidden file beside a path, for a library to write to; gone with the block, unless placed.

    Raises OSError.
    """
    made = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    os.close(_new(made))
    try:
        yield made
    finally:
        for left in (made, *made.parent.glob(f"{made.name}-*")):
            left.unlink(missing_ok=True)


def place(draft: Path, path: Path, *, replacing: bool = False) -> None:
    """Give a draft that is complete its name, on the disk when this returns.

    Raises: FileExistsError unless *replacing*; OSError.
    """
    with draft.open("rb") as written:
        os.fsync(written.fileno())
    if replacing:
        draft.rename(path)
    else:
        os.link(draft, path)
        draft.unlink()
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


@contextmanager
def unnamed(content: bytes) -> Iterator[str]:
    """The path of a file for a library that reads no other: in memory, and only this process can open it.

    On systems without such files it is one on the disk, which has no name there.
    """
    with _unnamed() as file:
        file.write(content)
        file.seek(0)
        yield f"/dev/fd/{file.fileno()}"


def hold(path: Path) -> int | None:
    """A lock on a file of that name until this process ends, and nobody else's; None when another has it.

    Returns the descriptor that has the lock: it ends when that is closed. Who has it is in the file, as the
    process id. Raises OSError.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
    return handle


def room_of(directory: Path) -> tuple[int, int]:
    """The size of the disk that a directory is on, and what this account may still write; bytes."""
    found = os.statvfs(directory)
    return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize


def open_to_others(paths: Iterable[Path]) -> Iterator[ExposedPath]:
    """Those of the files and directories that accounts besides their owner's can get at; missing ones not."""
    for path in paths:
        with suppress(OSError):
            found = path.stat()
            if (mode := stat.S_IMODE(found.st_mode)) & _OTHERS:
                yield ExposedPath(path, mode, found.st_uid)


def close_to_others(found: ExposedPath) -> bool:
    """Take away what others may do with it; whether that could be done.

    Not with what belongs to another account, nor with a directory that is there for all, such as `/tmp`.
    """
    if not found.is_ours or found.mode & stat.S_ISVTX:
        return False
    try:
        found.path.chmod(found.mode & ~_OTHERS)
    except OSError:
        return False
    return True


def _unnamed() -> BinaryIO:
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("unnamed"), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


def _new(path: Path) -> int:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    os.fchmod(handle, FILE_MODE)
    return handle


def _draft(path: Path, content: bytes) -> Path:
    """The content on the disk, under a hidden name beside the one that it is to have."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with os.fdopen(_new(draft), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return draft
