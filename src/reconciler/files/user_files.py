"""Files of this user: zonectl's own records, and files that the command line names."""

import os
import stat
import tempfile
from pathlib import Path

from .atomic import write_atomically
from .repository_files import FileRefused, Root

MAX_NAMED_BYTES = 256 * 1024 * 1024


def read_named(path: str | Path, *, at_most: int = MAX_NAMED_BYTES) -> bytes:
    """The content of a file that the command line names, wherever it is; also of a pipe.

    Raises:
        OSError: it cannot be read, or is larger than *at_most* bytes.
    """
    with open(path, "rb") as stream:  # noqa: PTH123
        content = stream.read(at_most + 1)
    if len(content) > at_most:
        raise OSError(0, f"it is larger than {at_most} bytes")
    return content


def read_private(file: Path) -> bytes:
    """The content of a file that zonectl wrote for itself. Raises OSError, also when others can write it."""
    handle = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "rb") as stream:
        found = os.fstat(stream.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise PermissionError(0, "it is not a regular file")
        if hasattr(os, "geteuid") and found.st_uid != os.geteuid():
            raise PermissionError(0, "it belongs to another user")
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(0, "other users can write to it")
        return stream.read()


def write_private(file: Path, content: bytes, *, durable: bool = False) -> None:
    """Put a file in place in one step, mode 0600 from its first byte on; a link there is replaced.

    *durable*: it is on the disk before this returns. Raises OSError.
    """
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(file, content, durable=durable)


def check_writable(directory: Path) -> None:
    """Make a directory for this user, unless it is there, and try to write in it. Raises OSError."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=directory, prefix="."):
        pass


def check_place(path: Path, root: Root) -> None:
    """Check that no link in the repository redirects a path of the command line.

    Raises:
        FileRefused: the path as spelled lies in the root, and is a link or leads out through one.
    """
    spelled = Path(os.path.abspath(path))  # noqa: PTH100 - links are kept
    if not spelled.is_relative_to(root.path) and spelled.parent not in root:
        return
    if spelled.parent not in root:
        raise FileRefused(str(path), "outside", "leads out of the repository through a symbolic link")
    if spelled.is_symlink():
        raise FileRefused(str(path), "link", "is a symbolic link in the repository; name what it leads to")


def write_named(path: Path, content: bytes) -> None:
    """Write a file that the command line names; also to a pipe. Raises OSError."""
    path.write_bytes(content)
