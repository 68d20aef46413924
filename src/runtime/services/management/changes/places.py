"""How many changesets are worked on at once: each keeps its body, and what is made of it, in memory."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from runtime.domain.errors import RateLimited
from runtime.services.management.access.caller import Caller
from runtime.services.parts import Parts
from runtime.storage.sql.database import Database

OF_ORGANIZATION = 8  # that are applied, and as many that are tried out; in one process
OF_CALLER = 4  # that one caller tries out
BYTES = 96 * 1024 * 1024  # of an organization's bodies that are tried out: one that is large, or several

_taken: WeakKeyDictionary[Database, Counter[tuple[str, ...]]] = WeakKeyDictionary()


@contextmanager
def place(parts: Parts, caller: Caller, size: int, *, dry_run: bool) -> Iterator[None]:
    """A place for one changeset, from before its body is read until it is answered. Raises RateLimited.

    Args:
        size: the most bytes that its body may turn out to have.
    """
    taken = _taken.setdefault(parts.database, Counter())
    whose: tuple[str, ...] = (caller.organization_id, "tried" if dry_run else "applied")
    limits = {whose: OF_ORGANIZATION}
    if dry_run:
        limits[(*whose, caller.id)] = OF_CALLER
    for key, limit in limits.items():
        if taken[key] >= limit:
            by = "the caller" if len(key) > len(whose) else "the organization"
            raise RateLimited(f"{by} has {limit} changesets under way already; try again when one has ended")
    steps = dict.fromkeys(limits, 1)
    if dry_run:
        steps[(*whose, "bytes")] = size
        if taken[(*whose, "bytes")] + size > BYTES:
            raise RateLimited("the organization has large changesets under way; try again when one has ended")
    for key, step in steps.items():
        taken[key] += step
    try:
        yield
    finally:
        for key, step in steps.items():
            taken[key] -= step
            if not taken[key]:
                del taken[key]
