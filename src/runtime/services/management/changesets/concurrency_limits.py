"""Limits of changesets, snapshots and explanations: how many run at once, and how long dry runs take an hour.

A changeset keeps its body, and what is made of it, in memory; a snapshot keeps a connection of the database
for as long as its reader takes, an explanation for as long as it is worked on; a dry run writes nothing, but
takes as long as an apply.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from weakref import WeakKeyDictionary

from runtime.domain.errors import RateLimited
from runtime.services import rate_limits
from runtime.services.container import Services
from runtime.services.management.access.caller import Caller
from runtime.storage.sql.database import Database

OF_ORGANIZATION = 8  # that are applied, and as many that are tried out; in one process
OF_CALLER = 3  # of each: fewer than there are connections for dry runs, so that nobody has them all
# Of an organization's bodies that are tried out. A caller has no more of it than their largest may have, and
# a few small ones: beside a reader's there is room for the largest of somebody who applies.
BYTES = 168 * 1024 * 1024
BESIDE_BYTES = 4 * 1024 * 1024

SNAPSHOTS = 8  # in one process: most connections of the database are for what is done in no time
SNAPSHOTS_OF_ORGANIZATION = 4
SNAPSHOTS_OF_CALLER = 2

EXPLANATIONS = 8  # in one process: each reads at one instant, on a connection of its own
EXPLANATIONS_OF_ORGANIZATION = 4
EXPLANATIONS_OF_CALLER = 2
EXPLANATION_SECONDS = 10.0  # for one: a few seconds more than a chain of ten applications takes

_taken: WeakKeyDictionary[Database, Counter[tuple[str, ...]]] = WeakKeyDictionary()


@dataclass(frozen=True)
class _Share:
    """What one request takes of a limit: *takes* of the *most* that are counted under *key*."""

    key: tuple[str, ...]
    most: int
    refusal: str
    takes: int = 1


@contextmanager
def changeset_slot(
    services: Services, caller: Caller, size: int, largest: int, *, dry_run: bool
) -> Iterator[None]:
    """A slot for one changeset, from before its body is read until it is answered. Raises RateLimited.

    Args:
        size: the most bytes that its body may turn out to have.
        largest: how many a body of this caller may have.
    """
    whose = (caller.organization_id, "tried" if dry_run else "applied")
    shares = [
        _Share((*whose, caller.id), OF_CALLER, f"the caller has {OF_CALLER} changesets under way already"),
        _Share(
            whose, OF_ORGANIZATION, f"the organization has {OF_ORGANIZATION} changesets under way already"
        ),
    ]
    if dry_run:
        large = "large changesets under way"
        shares += [
            _Share((*whose, caller.id, "bytes"), largest + BESIDE_BYTES, f"the caller has {large}", size),
            _Share((*whose, "bytes"), BYTES, f"the organization has {large}", size),
        ]
    with _taking(services, shares):
        yield


@contextmanager
def snapshot_slot(services: Services, caller: Caller) -> Iterator[None]:
    """A slot for one snapshot, until it is sent. Raises RateLimited."""
    whose = (caller.organization_id, "snapshots")
    of_caller, of_organization = SNAPSHOTS_OF_CALLER, SNAPSHOTS_OF_ORGANIZATION
    shares = (
        _Share((*whose, caller.id), of_caller, f"the caller is already reading {of_caller} snapshots"),
        _Share(whose, of_organization, f"the organization is already reading {of_organization} snapshots"),
        _Share(("snapshots",), SNAPSHOTS, "too many snapshots are being read"),
    )
    with _taking(services, shares):
        yield


@contextmanager
def explanation_slot(services: Services, caller: Caller) -> Iterator[None]:
    """A slot for one explanation, while it is worked on. Raises RateLimited."""
    whose = (caller.organization_id, "explanations")
    of_caller, of_organization = EXPLANATIONS_OF_CALLER, EXPLANATIONS_OF_ORGANIZATION
    shares = (
        _Share((*whose, caller.id), of_caller, f"the caller has {of_caller} explanations under way already"),
        _Share(
            whose, of_organization, f"the organization has {of_organization} explanations under way already"
        ),
        _Share(("explanations",), EXPLANATIONS, "too many explanations are under way"),
    )
    with _taking(services, shares):
        yield


@contextmanager
def _taking(services: Services, shares: Collection[_Share]) -> Iterator[None]:
    taken = _taken.setdefault(services.database, Counter())
    for each in shares:
        if taken[each.key] + each.takes > each.most:
            raise RateLimited(f"{each.refusal}; try again when one has ended")
    for each in shares:
        taken[each.key] += each.takes
    try:
        yield
    finally:
        for each in shares:
            taken[each.key] -= each.takes
            if not taken[each.key]:
                del taken[each.key]


def require_dry_run_budget(services: Services, caller: Caller) -> None:
    """Raise RateLimited for a caller whose dry runs took their time of this hour already."""
    if seconds := services.rate_limiter.hit_local(
        rate_limits.DRY_RUN_MILLISECONDS, caller.organization_id, caller.kind, caller.id, cost=0
    ):
        minutes = rate_limits.DRY_RUN_MILLISECONDS.amount_under(services.settings) // 60_000
        raise RateLimited(
            f"dry runs of this caller took {minutes} minutes of this hour; try again in {seconds} seconds"
        )


@contextmanager
def metered_dry_run(services: Services, caller: Caller) -> Iterator[None]:
    """Count the time that the block takes against the caller's budget, however it ends."""
    began = perf_counter()
    try:
        yield
    finally:
        spent = round((perf_counter() - began) * 1000) + 1
        services.rate_limiter.hit_local(
            rate_limits.DRY_RUN_MILLISECONDS, caller.organization_id, caller.kind, caller.id, cost=spent
        )
