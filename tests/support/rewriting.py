"""Assertions of test modules are rewritten once, by all cores, before the processes of a run collect them.

Each of these processes would otherwise parse and rewrite every module by itself, which takes longer than all
else that collecting takes, and again in each run where Python is told to write no bytecode.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from _pytest.assertion import rewrite


def modules_of(arguments: Iterable[str], root: Path) -> list[Path]:
    """The test modules below what pytest was called with, and the `conftest.py` files there."""
    found: set[Path] = set()
    for argument in arguments:
        path = root / argument.partition("::")[0]
        inside = path.rglob("*.py") if path.is_dir() else [path]
        found.update(each for each in inside if each.name.startswith("test_") or each.name == "conftest.py")
    return sorted(each for each in found if each.is_file())


def prepare(modules: Sequence[Path], config: pytest.Config, *, processes: int) -> None:
    """Write what pytest reads in place of these modules, where it is not there or older than they are."""
    stale = [path for path in modules if _written(path) is None]
    children = []
    for number in range(min(processes, len(stale))):
        if (child := os.fork()) == 0:
            _write(stale[number::processes], config)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def _place(module: Path) -> Path:
    return rewrite.get_cache_dir(module) / f"{module.stem}{rewrite.PYC_TAIL}"


def _written(module: Path) -> object | None:
    """The rewritten module, as pytest reads it; None where it has to be made."""
    return rewrite._read_pyc(module, _place(module))


def _write(modules: Iterable[Path], config: pytest.Config) -> None:
    """Write some of them, as the whole work of a process. What cannot be written is made by who collects."""
    try:
        for module in modules:
            status, code = rewrite._rewrite_test(module, config)
            place = _place(module)
            place.parent.mkdir(exist_ok=True)
            rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, status, place)
    finally:
        os._exit(0)
