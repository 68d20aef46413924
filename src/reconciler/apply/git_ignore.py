"""Keeps the directory of secrets that are shown once out of git: `git add` must not take them along."""

from pathlib import Path

from reconciler.files import ask_git, write_private

IGNORE_FILE = ".gitignore"
_EVERYTHING = b"*\n"


def make_ignored(directory: Path) -> None:
    """Make a directory for this user; in a work tree of git, with a `.gitignore` for all that is in it.

    A directory that is there already stays as it is. Raises OSError.
    """
    try:
        directory.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        return
    if _is_in_work_tree(directory):
        write_private(directory / IGNORE_FILE, _EVERYTHING)


def would_be_committed(file: Path) -> bool:
    """Tell whether `git add` would take a file along: it is in a work tree, and nothing ignores it."""
    return _is_in_work_tree(file.parent) and not _is_ignored(file)


def _is_in_work_tree(directory: Path) -> bool:
    whole = directory.resolve()
    return any((each / ".git").exists() for each in (whole, *whole.parents))


def _is_ignored(file: Path) -> bool:
    """Tell whether git ignores a file; also where there is no git that could add it."""
    done = ask_git(file.parent.resolve(), "check-ignore", "--quiet", "--", file.name)
    return done is None or done.returncode != 1  # 1: not ignored
