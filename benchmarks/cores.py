"""Which cores processes run on: a server has one to itself, and what asks it has the others."""

import contextlib
import os
from collections.abc import Iterator

SERVER = "server"
LOAD = "load"


def can_be_shared_out() -> bool:
    """Tell whether this system lets a process choose, and there are two cores to choose from."""
    return hasattr(os, "sched_setaffinity") and len(os.sched_getaffinity(0)) > 1


@contextlib.contextmanager
def started_on(part: str | None) -> Iterator[None]:
    """Let processes that are started in the block have the cores of that part, with all their threads.

    Args:
        part: `SERVER` or `LOAD`; None for any core.
    """
    if part is None:
        yield
        return
    before = os.sched_getaffinity(0)
    first, *others = sorted(before)
    os.sched_setaffinity(0, {first} if part == SERVER else others)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
