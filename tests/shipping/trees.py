"""Copies of the project, each a repository of its own with one commit of a fixed time."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Whatever a build or a release reads.
PARTS = (
    *("src", "schemas", "requirements", "docs", "deploy", "tools"),
    *("Makefile", "README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", ".gitignore"),
)
_MOMENT = "2026-01-02T03:04:05Z"


def tree(folder: Path) -> Path:
    """The project at another place, on its branch `main`."""
    for name in PARTS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "secrets"))
        else:
            shutil.copy(source, folder / name)
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "config", "user.name", "Somebody")
    git(folder, "config", "user.email", "somebody@example.com")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "all")
    return folder


def git(folder: Path, *arguments: str) -> str:
    """What git says in a folder. Raises CalledProcessError."""
    dates = {"GIT_AUTHOR_DATE": _MOMENT, "GIT_COMMITTER_DATE": _MOMENT}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=os.environ | dates, capture_output=True, text=True, check=True
    )
    return done.stdout.rstrip()
