"""Environments that have one wheel and what a lock pins, and nothing else; made without an index."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]


def required(root: str, extras: frozenset[str]) -> dict[str, str]:
    """What a distribution needs with these extras on this machine, however indirectly: name -> version."""
    found: dict[str, str] = {}
    todo: list[tuple[str, frozenset[str]]] = [(root, extras)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while todo:
        if (asked := todo.pop()) in seen:
            continue
        seen.add(asked)
        name, wanted = asked
        known = distribution(name)
        if name != root:
            found[canonicalize_name(name)] = known.version
        todo += [
            (each.name, frozenset(each.extras))
            for each in map(Requirement, known.requires or ())
            if each.marker is None or any(each.marker.evaluate({"extra": it}) for it in (wanted or {""}))
        ]
    return found


def environment(folder: Path, wheel: Path, packages: Iterable[str]) -> Path:
    """An environment with a wheel and these packages, which are taken from the one that this runs in.

    Returns: the folder of its programs.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    programs = folder / "bin"
    (site,) = folder.glob("lib/python*/site-packages")
    for name in packages:
        for source, place in _files(name):
            (site / place).parent.mkdir(parents=True, exist_ok=True)
            _same(source, site / place)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", programs / "python"]
    subprocess.run(
        [*pip, "install", "--quiet", "--no-index", "--no-deps", wheel],
        check=True,
    )
    return programs


def _files(name: str) -> Iterator[tuple[Path, Path]]:
    """Files of a package, and their places; without programs, which name an interpreter."""
    package = distribution(name)
    for each in package.files or ():
        if ".." not in each.parts and "__pycache__" not in each.parts:
            yield Path(str(package.locate_file(each))), Path(*each.parts)


def _same(source: Path, target: Path) -> None:
    with suppress(OSError):
        os.link(source, target)
        return
    shutil.copy(source, target)


def is_installed(name: str) -> bool:
    """Whether this environment has it: a lock also pins what other platforms need."""
    with suppress(PackageNotFoundError):
        return bool(distribution(name).version)
    return False
