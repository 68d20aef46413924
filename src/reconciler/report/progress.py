"""Shows the progress of a changeset: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from reconciler.client.api import Progress
from reconciler.terminal import has_styles, print_lines

SECONDS_BEFORE_BAR = 0.5
SECONDS_BETWEEN_LINES = 2.0


@contextmanager
def show_progress(total: int, doing: str) -> Iterator[Progress]:
    """Something to report progress to, on standard error, once it takes a while.

    Args:
        total: how many operations there are.
        doing: what is done to them, "applying" for one.
    """
    if sys.stderr.isatty() and has_styles():
        with ExitStack() as stack:
            yield _bar(stack, total, doing)
    else:
        yield _lines(doing)


def _bar(stack: ExitStack, total: int, doing: str) -> Progress:
    since, shown = time.monotonic(), list[Progress]()

    def report(done: int, of: int) -> None:
        if not shown and time.monotonic() - since >= SECONDS_BEFORE_BAR:
            shown.append(_shown(stack, total, doing))
        for show in shown:
            show(done, of)

    return report


def _shown(stack: ExitStack, total: int, doing: str) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = stack.enter_context(Bar(*columns, console=Console(stderr=True), transient=True))
    task = bar.add_task(doing, total=total)

    def report(done: int, of: int) -> None:
        bar.update(task, completed=done, total=of)

    return report


def _lines(doing: str) -> Progress:
    last = time.monotonic()

    def report(done: int, of: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN_LINES:
            last = now
            print_lines(f"{doing}: {done:,} of {of:,}", err=True)

    return report
