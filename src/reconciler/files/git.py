"""Asks the user's own git about a repository; nothing is written into it."""

import subprocess
from pathlib import Path

# Writes nothing into the repository, and runs no program that its settings name.
_OPTIONS = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_SECONDS = 10


def ask_git(directory: Path, *arguments: str) -> "subprocess.CompletedProcess[str] | None":
    """What git answered in a directory; None where there is no git, or no answer in time."""
    try:
        return subprocess.run(  # noqa: S603 - fixed program, no shell
            ["git", *_OPTIONS, "-C", str(directory), *arguments],  # noqa: S607 - the user's own git
            capture_output=True,
            encoding="utf-8",
            errors="backslashreplace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
