"""Finds the files of a configuration, its root, and the commit it stands at."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

SETTINGS_FILE = "zonectl.yaml"
_SUFFIXES = (".yaml", ".yml")


class SourceMissing(Exception):
    """A path that was named is not there."""


@dataclass(frozen=True)
class Source:
    """The files to read.

    Attributes:
        root: the repository (nearest parent with `.git`), else the directory that was named. Paths in
            messages and plans are relative to it, and no manifest reads a file outside it.
        files: absolute paths, sorted; text, because ten thousand of them are read in a moment.
        named: the paths as they were named, resolved.
    """

    root: Path
    files: tuple[str, ...]
    named: tuple[Path, ...]

    def relative(self, path: str) -> str:
        """The path as messages and plans show it."""
        return path.removeprefix(str(self.root)).lstrip(os.sep).replace(os.sep, "/")


def find_source(paths: Sequence[str | Path]) -> Source:
    """The source that these files and directories make.

    Raises:
        SourceMissing: one of them is not there.
    """
    named = tuple(Path(path).resolve() for path in paths)
    files: set[str] = set()
    for path, given in zip(named, paths, strict=True):
        if path.is_dir():
            files.update(_walk(path))
        elif path.is_file():
            files.add(str(path))
        else:
            raise SourceMissing(f"there is no file or directory `{given}`")
    return Source(find_root(named), tuple(sorted(files)), named)


def _walk(directory: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if name.endswith(_SUFFIXES) and not name.startswith(".") and name != SETTINGS_FILE:
                yield os.path.join(folder, name)  # noqa: PTH118


def find_root(named: Sequence[Path]) -> Path:
    """The repository that holds the paths, else their common directory."""
    common = Path(os.path.commonpath(named)) if named else Path.cwd()
    start = common if common.is_dir() else common.parent
    for candidate in (start, *start.parents):
        if (candidate / ".git").exists():
            return candidate
    return start


def describe_commit(source: Source) -> dict[str, str]:
    """Repository, ref and commit, as far as git tells; `+changes` marks a commit with uncommitted changes."""
    if not (source.root / ".git").exists():
        return {}
    commit = _git(source.root, "rev-parse", "HEAD")
    if not commit:
        return {}
    if _git(source.root, "status", "--porcelain", "--", *map(str, source.named)):
        commit += "+changes"
    found = {
        "commit": commit,
        "ref": _git(source.root, "symbolic-ref", "-q", "HEAD"),
        "repository": _without_credentials(_git(source.root, "config", "--get", "remote.origin.url")),
    }
    return {name: value for name, value in found.items() if value}


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - fixed program, no shell
            ["git", "-C", str(root), *arguments],  # noqa: S607 - the user's own git
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    if not parts.scheme:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))
