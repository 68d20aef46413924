"""How long one caller's dry runs may take together: they write nothing, but they take as long as an apply.

Places bound how many there are at once, and this how many there are one after the other.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from runtime.domain.errors import RateLimited
from runtime.services.container import Services
from runtime.services.limits import Limit, Meter
from runtime.services.management.access.caller import Caller

# Half an hour of every hour. The plan of a large configuration takes some seconds, at each push.
SPENT = Meter(
    Limit("dry-run-milliseconds", "milliseconds that dry runs take", "a caller", 30 * 60_000, seconds=3600)
)


def require(services: Services, caller: Caller) -> None:
    """Raise RateLimited for whoever has nothing left."""
    if seconds := SPENT.count(services, caller.organization_id, caller.kind, caller.id, by=0):
        minutes = SPENT.limit.number(services.settings) // 60_000
        raise RateLimited(
            f"dry runs of this caller took {minutes} minutes of this hour; try again in {seconds} seconds"
        )


@contextmanager
def spending(services: Services, caller: Caller) -> Iterator[None]:
    """Count how long the block takes, however it ends."""
    began = perf_counter()
    try:
        yield
    finally:
        spent = round((perf_counter() - began) * 1000) + 1
        SPENT.count(services, caller.organization_id, caller.kind, caller.id, by=spent)
