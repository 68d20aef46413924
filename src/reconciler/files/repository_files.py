"""Files that a repository names: its manifests, and what they refer to.

A repository may have untrusted contributions, and planning it must be safe on a machine with secrets. So
every file that is read lies inside the root, with every link resolved, is a regular file, not hidden, and
small enough.

A directory that is replaced by a link while zonectl runs is no threat here: whoever can do that runs as this
user already.
"""

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from .atomic import write_atomically

MAX_TOTAL_BYTES = 128 * 1024 * 1024  # of all files together: a few bytes of links can name a large file often

_CHUNK_BYTES = 64 * 1024
# Never follow a link as the last step, wait for a FIFO's writer, or acquire a controlling terminal.
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)
_TYPES = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISLNK, "a symbolic link"),
)


class FileRefused(Exception):
    """A file is not read, or not written.

    Attributes:
        path: the file as it was named.
        code: `no-file`, `outside`, `hidden`, `ending`, `not-regular`, `too-large`, `unreadable`,
            `changed` or `unwritable`.
        reason: what is wrong, to follow the path.
    """

    def __init__(self, path: str, code: str, reason: str) -> None:
        super().__init__(f"`{path}` {reason}")
        self.path, self.code, self.reason = path, code, reason


class Root:
    """A directory, and the files that may be read when something in it names a file.

    Args:
        path: the directory; links in its own path are followed.
        named: directories in it that the command line named: files in them count as visible, whatever the
            directories' names.
        hidden: read hidden files, too.
    """

    def __init__(self, path: str | Path, named: Iterable[str | Path] = (), *, hidden: bool = False) -> None:
        self.path = Path(os.path.realpath(path))
        self._prefix = _as_prefix(str(self.path))
        visible = (_as_prefix(os.path.realpath(each)) for each in named)
        self._prefixes = (self._prefix, *(each for each in visible if each.startswith(self._prefix)))
        self._hidden = hidden
        self._folders: dict[str, str | None] = {}
        self._left = MAX_TOTAL_BYTES

    def __contains__(self, path: str | Path) -> bool:
        """Tell whether a path, with its links resolved, is the root or lies in it."""
        try:
            return _as_prefix(os.path.realpath(path)).startswith(self._prefix)
        except ValueError:
            return False

    def place(self, name: str, folder: str = "") -> str:
        """The place of a file named from *folder* (relative to the root), with its links resolved.

        Raises:
            FileRefused: it is outside, or hidden.
        """
        try:
            real = os.path.realpath(self._joined(name, folder))
        except ValueError as error:
            raise _unreadable(name, "its name is none that a file can have") from error
        if self._admits(real):
            return real
        if real not in self:
            lexical = os.path.normpath(self._joined(name, folder))
            linked = lexical.startswith(self._prefix)
            how = (
                "leads out of the repository through a symbolic link; put the file itself there"
                if linked
                else "is outside the repository, and only files in it are read"
            )
            raise FileRefused(name, "outside", how)
        raise FileRefused(
            name,
            "hidden",
            "is hidden: nothing is read from files and directories whose names begin with a dot",
        )

    def read(
        self,
        name: str,
        folder: str = "",
        *,
        at_most: int,
        endings: str | tuple[str, ...] = "",
        again: bool = False,
    ) -> bytes:
        """The content of a file named from *folder* (relative to the root).

        Args:
            at_most: bytes.
            endings: what the file's own name must end with, and that of a link to it; one of them.
            again: it was read before, and counts once towards `MAX_TOTAL_BYTES`.

        Raises:
            FileRefused: it does not exist, may not be read, is not a regular file, or is too large.
        """
        place = self._quick_place(name, folder)
        if not name.endswith(endings):
            raise _wrong_ending(name, endings)
        try:
            content = _read_regular(name, place, at_most)
        except FileRefused as refused:
            if refused.code != "link":
                raise
            place = self.place(name, folder)
            if not place.endswith(endings):
                raise _wrong_ending(name, endings) from None
            content = _read_linked(name, place, at_most)
        self._left -= 0 if again else len(content)
        if self._left < 0:
            raise FileRefused(
                name, "too-large", f"is not read: all files together have more than {_size(MAX_TOTAL_BYTES)}"
            )
        return content

    def replace(self, name: str, content: bytes, *, expected: bytes) -> None:
        """Replace the content of a file in the root, in one step, keeping its mode.

        For a link its target is written, if that is in the root.

        Raises:
            FileRefused: it may not be read, is not a regular file, no longer has the content *expected*, or
                cannot be written.
        """
        place = self.place(name)
        if _read_regular(name, place, len(expected)) != expected:
            raise FileRefused(name, "changed", "was changed while this command ran; run it again")
        try:
            mode = stat.S_IMODE(os.stat(place).st_mode)  # noqa: PTH116
            write_atomically(Path(place), content, mode=mode)
        except OSError as error:
            why = error.strerror or "the system does not say why"
            raise FileRefused(name, "unwritable", f"cannot be written: {why}") from error

    def _quick_place(self, name: str, folder: str) -> str:
        """The file's place unless it is a link: its folder resolved, and remembered for others in it."""
        above, base = os.path.split(self._joined(name, folder))
        if above not in self._folders:
            self._folders[above] = self._folder(above)
        real = self._folders[above]
        if real is None or not base or base[0] == "." or "\0" in base:
            return self.place(name, folder)
        return real + base

    def _folder(self, path: str) -> str | None:
        """A folder with its links resolved, as a prefix; None when nothing may be read there."""
        try:
            real = os.path.realpath(path)
        except ValueError:
            return None
        return _as_prefix(real) if self._admits(real) else None

    def _joined(self, name: str, folder: str) -> str:
        return os.path.join(self.path, folder, name)  # noqa: PTH118 - ten thousand in a moment

    def _admits(self, real: str) -> bool:
        """Tell whether a path without links is inside, and visible from the root or a named directory."""
        path = _as_prefix(real)
        return any(
            path.startswith(prefix) and (self._hidden or not _is_hidden(path[len(prefix) :]))
            for prefix in self._prefixes
        )


def _as_prefix(path: str) -> str:
    return path if path.endswith(os.sep) else path + os.sep


def _is_hidden(below: str) -> bool:
    """Tell whether a part starts with one dot. Kubernetes mounts use names with two dots: `..data`."""
    return any(part[:1] == "." and part[:2] != ".." for part in below.split(os.sep))  # noqa: PTH206


def _read_linked(name: str, place: str, at_most: int) -> bytes:
    """The content of the regular file that a link leads to. Raises FileRefused."""
    try:
        return _read_regular(name, place, at_most)
    except FileRefused as refused:
        if refused.code == "link":
            raise FileRefused(name, "link", "is a symbolic link that leads in a circle") from refused
        if refused.code == "no-file":
            raise FileRefused(name, "no-file", "is a symbolic link to a file that is not there") from refused
        raise


def _read_regular(name: str, place: str, at_most: int) -> bytes:
    """The content of a regular file at a path that is not a link. Raises FileRefused, with code `link`."""
    try:
        handle = os.open(place, _FLAGS)
    except OSError as error:
        if os.path.islink(place):  # noqa: PTH114
            raise FileRefused(name, "link", "is a symbolic link") from error
        if isinstance(error, FileNotFoundError):
            raise FileRefused(name, "no-file", "is not there") from error
        with suppress(OSError):
            _require_regular(name, os.lstat(place).st_mode)
        raise _unreadable(name, error.strerror or "the system does not say why") from error
    except ValueError as error:
        raise _unreadable(name, "its name is none that a file can have") from error
    try:
        found = os.fstat(handle)
        _require_regular(name, found.st_mode)
        return _read_at_most(name, handle, found.st_size, at_most)
    except OSError as error:
        raise _unreadable(name, error.strerror or "the system does not say why") from error
    finally:
        os.close(handle)


def _require_regular(name: str, mode: int) -> None:
    if not stat.S_ISREG(mode):
        what = next((words for test, words in _TYPES if test(mode)), "a device")
        raise FileRefused(name, "not-regular", f"is {what}, not a regular file")


def _read_at_most(name: str, handle: int, size: int, at_most: int) -> bytes:
    """The whole content of an open file. Its reported size is only a hint for the first read."""
    content = os.read(handle, size + 1) if size <= at_most else b""
    while size <= at_most and len(content) <= at_most:
        more = os.read(handle, _CHUNK_BYTES)
        if not more:
            return content
        content += more
    raise FileRefused(name, "too-large", f"is larger than {_size(at_most)}, the most that is read")


def _size(count: int) -> str:
    """A number of bytes, for people."""
    for unit, name in ((1024 * 1024, "MiB"), (1024, "KiB")):
        if count >= unit and count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} bytes"


def _wrong_ending(name: str, endings: str | tuple[str, ...]) -> FileRefused:
    known = " or ".join(f"`{each}`" for each in ((endings,) if isinstance(endings, str) else endings))
    return FileRefused(name, "ending", f"does not end with {known}, or is a link to a file that does not")


def _unreadable(name: str, why: str) -> FileRefused:
    return FileRefused(name, "unreadable", f"cannot be read: {why}")
