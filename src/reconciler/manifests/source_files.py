"""Finds the files of a configuration, its repository root, and the git commit."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from reconciler.files import FileRefused, Root, ask_git

SETTINGS_FILE = "zonectl.yaml"
ENDINGS = (".yaml", ".yml")
MAX_FILE_BYTES = 8 * 1024 * 1024  # of one file with manifests


class SourceError(Exception):
    """A named path does not exist, cannot be read, leads out of its repository, or has no manifests."""


@dataclass(frozen=True)
class SourceFiles:
    """The files to read.

    Attributes:
        root: the repository (nearest parent with `.git`), else the directory that was named. Paths in
            messages and plans are relative to it, and no manifest reads a file outside it.
        files: absolute paths, sorted; text, because ten thousand of them are read in a moment.
        named: the paths as they were named, the links to their folders resolved.
        opener: reads what is in the root.
        nested: directories below with a `zonectl.yaml` of their own: what is in them belongs to another
            configuration, and is not among the files.
    """

    root: Path
    files: tuple[str, ...]
    named: tuple[Path, ...]
    opener: Root = field(compare=False, repr=False)
    nested: tuple[Path, ...] = ()

    def relative(self, path: str) -> str:
        """The path as messages and plans show it."""
        return path.removeprefix(str(self.root)).lstrip(os.sep).replace(os.sep, "/")


def find_source_files(paths: Sequence[str | Path], *, whole: bool = False) -> SourceFiles:
    """The source that these files and directories make.

    Args:
        whole: whether to take the files of nested configurations, too.

    Raises:
        SourceError: one of them is not there, cannot be read, or leads out of its repository.
    """
    spelled = [_spelled(path) for path in paths]
    root, spelled = _root_of(spelled)
    real = Path(os.path.realpath(root))
    named = tuple(_resolved(path) for path in spelled)
    files: set[str] = set()
    nested: set[Path] = set()
    for path in named:
        files.update(_walk(path, None if whole else nested) if path.is_dir() else [str(path)])
    opener = _opener(root, real, spelled)
    return SourceFiles(real, tuple(sorted(files)), named, opener, tuple(sorted(nested.difference(named))))


def _spelled(given: str | Path) -> Path:
    """The path made absolute, its links as they are. Raises SourceError."""
    path = Path(os.path.abspath(given))  # noqa: PTH100 - links are kept
    try:
        there = path.exists()
    except OSError as failure:
        raise SourceError(f"`{given}` cannot be read: {failure.strerror}") from None
    except ValueError:
        there = False
    if not there:
        raise SourceError(f"there is no file or directory `{given}`")
    return path


def _folder(path: Path) -> Path:
    """The named directory, or the directory of the named file."""
    return path if path.is_dir() else path.parent


def _resolved(path: Path) -> Path:
    """The path with the links of its folder resolved. A link as the last step is left to the opener."""
    return path.resolve() if path.is_dir() else path.parent.resolve() / path.name


def find_root(named: Sequence[Path]) -> Path:
    """The common repository of the paths, otherwise their common directory. Raises SourceError."""
    return Path(os.path.realpath(_root_of([_spelled(path) for path in named])[0]))


def _root_of(spelled: Sequence[Path]) -> tuple[Path, list[Path]]:
    """The root as it is spelled, and the paths in it.

    A link in a repository may be an untrusted contribution: it does not decide which repository is used.
    Outside a repository, links are this user's own, unless they lie in the current directory.
    """
    for path in spelled:
        _refuse_leading_out(path)
    common = Path(os.path.commonpath(spelled))
    if (found := _repository(common)) is not None:
        return found, list(spelled)
    if any(_repository(path) is not None for path in spelled):
        raise SourceError("the paths lie in different repositories; name those of one at a time")
    resolved = [_resolved(path) for path in spelled]
    common = Path(os.path.commonpath(resolved))
    root = _repository(common) or _folder(common)
    if len(spelled) > 1 and root == root.parent:
        raise SourceError("the paths have no directory in common; name those of one at a time")
    return root, resolved


def _repositories(path: Path) -> Iterator[Path]:
    """The directories with `.git` around a path as it is spelled, nearest first."""
    start = path if path.is_dir() and not path.is_symlink() else path.parent
    return (each for each in (start, *start.parents) if (each / ".git").exists())


def _repository(path: Path) -> Path | None:
    return next(_repositories(path), None)


def _refuse_leading_out(path: Path) -> None:
    here, around = Path.cwd(), list(_repositories(path))
    if path.is_relative_to(here) and not any(here.is_relative_to(each) for each in around):
        around.append(here)  # a checkout without `.git`
    folder = _folder(path)
    for directory in around:
        if folder not in Root(directory):
            raise SourceError(
                f"`{path}` leads out of `{directory}` through a symbolic link; name the directory it leads to"
            )


def _opener(root: Path, real: Path, spelled: Sequence[Path]) -> Root:
    """The reader of the files; a hidden directory is visible when it was named itself, not through a link."""
    folders = [_folder(path) for path in spelled]
    plain = [each for each in folders if each.resolve() == real / each.relative_to(root)]
    opener = Root(real, plain)
    for folder in folders:
        try:
            opener.place(str(folder.resolve()))
        except FileRefused as refused:
            raise SourceError(f"`{folder}` {refused.reason}") from refused
    return opener


def seen_from_here(path: str | Path) -> str:
    """A path for people: relative to the current directory, unless that leads out of it."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def _walk(directory: Path, nested: set[Path] | None) -> Iterator[str]:
    """The files that may be manifests. Raises SourceError: objects of an unread file would be deleted.

    Directories with settings of their own are skipped, and put into *nested*.
    """
    for folder, folders, names in os.walk(directory, onerror=_refuse_unreadable):
        if nested is not None and SETTINGS_FILE in (*names, *folders) and folder != str(directory):
            nested.add(Path(folder))
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in folders:
            if os.path.islink(path := os.path.join(folder, name)):  # noqa: PTH114, PTH118
                raise SourceError(
                    f"`{seen_from_here(path)}` is a symbolic link to a directory, and manifests behind it "
                    "are not read; put the directory itself there, or remove the link"
                )
        for name in names:
            if not name.lower().endswith(ENDINGS) or name.startswith(".") or name == SETTINGS_FILE:
                continue
            path = os.path.join(folder, name)  # noqa: PTH118
            if not name.endswith(ENDINGS):
                raise SourceError(
                    f"`{seen_from_here(path)}` is not read: a manifest's name ends with "
                    "`.yaml` or `.yml` in small letters; rename the file"
                )
            yield path


def _refuse_unreadable(error: OSError) -> None:
    raise SourceError(f"`{seen_from_here(error.filename)}` cannot be read: {error.strerror}") from error


def describe_commit(source: SourceFiles) -> dict[str, str]:
    """Repository, ref and commit from git; `+changes` marks a commit with uncommitted changes."""
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
    done = ask_git(root, *arguments)
    return done.stdout.strip() if done is not None and done.returncode == 0 else ""


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    if not parts.scheme:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))
