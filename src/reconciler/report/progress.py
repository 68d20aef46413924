"""Progress of a changeset: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from reconciler.client.api import Progress
from reconciler.terminal import has_styles, say

SECONDS_BETWEEN_LINES = 2.0


@contextmanager
def show_progress(total: int, *, quiet: bool = False) -> Iterator[Progress | None]:
    """Something to report progress to, on standard error."""
    if quiet:
        yield None
    elif sys.stderr.isatty() and has_styles():
        with _bar(total) as report:
            yield report
    else:
        yield _lines()


@contextmanager
def _bar(total: int) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("applying"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("applying", total=total)

        def report(done: int, of: int) -> None:
            bar.update(task, completed=done, total=of)

        yield report


def _lines() -> Progress:
    last = time.monotonic()

    def report(done: int, of: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN_LINES:
            last = now
            say(f"applying: {done:,} of {of:,}", err=True)

    return report
