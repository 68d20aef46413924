"""Watches files and runs something each time they were saved."""

from collections.abc import Callable, Iterator
from pathlib import Path

from watchfiles import Change, DefaultFilter, watch

DEBOUNCE_MILLISECONDS = 400


class _ConfigurationFiles(DefaultFilter):
    """Manifests and policies; editors' own files and hidden directories are left out."""

    def __call__(self, change: Change, path: str) -> bool:
        return path.endswith((".yaml", ".yml", ".cedar")) and super().__call__(change, path)


def watch_files(paths: list[Path], run: Callable[[list[str]], None]) -> None:
    """Run at once, then whenever files were saved; several saves in a moment count as one.

    Ends with KeyboardInterrupt.
    """
    run([])
    for changed in _changes(paths):
        run(changed)


def _changes(paths: list[Path]) -> Iterator[list[str]]:
    for batch in watch(*paths, watch_filter=_ConfigurationFiles(), debounce=DEBOUNCE_MILLISECONDS):
        yield sorted({path for _, path in batch})
