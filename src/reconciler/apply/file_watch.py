"""Watches configuration files and runs a command after each save (`--watch`)."""

from collections.abc import Callable, Iterator
from pathlib import Path

from watchfiles import Change, DefaultFilter, watch

DEBOUNCE_MILLISECONDS = 400
POLL_MILLISECONDS = 100  # how long to wait before the first run, so that files saved during it are noticed


class _ConfigurationFiles(DefaultFilter):
    """Manifests and policies, without editors' own files and hidden directories."""

    def __call__(self, change: Change, path: str) -> bool:
        return path.endswith((".yaml", ".yml", ".cedar")) and super().__call__(change, path)


def watch_files(paths: list[Path], run: Callable[[list[str]], None]) -> None:
    """Run at once, then whenever files were saved; several saves in a moment count as one.

    The watcher starts before the first run, so that files saved during the run are noticed. Ends with
    KeyboardInterrupt.
    """
    is_first = True
    for changed in _changes(paths):
        if is_first:
            run([])
        if changed:
            run(changed)
        is_first = False


def _changes(paths: list[Path]) -> Iterator[list[str]]:
    """The paths of each save; empty whenever a while has passed without one."""
    batches = watch(
        *paths,
        watch_filter=_ConfigurationFiles(),
        debounce=DEBOUNCE_MILLISECONDS,
        rust_timeout=POLL_MILLISECONDS,
        yield_on_timeout=True,
    )
    for batch in batches:
        yield sorted({path for _, path in batch})
