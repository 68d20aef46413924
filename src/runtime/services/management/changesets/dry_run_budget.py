"""How long one caller's dry runs may take together: they write nothing, but they take as long as an apply.

Places bound how many there are at once, and this how many there are one after the other.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from runtime.domain.errors import RateLimited
from runtime.services import rate_limits
from runtime.services.container import Services
from runtime.services.management.access.caller import Caller


def require(services: Services, caller: Caller) -> None:
    """Raise RateLimited for whoever has nothing left."""
    if seconds := services.rate_limiter.hit_local(
        rate_limits.DRY_RUN_MILLISECONDS, caller.organization_id, caller.kind, caller.id, cost=0
    ):
        minutes = rate_limits.DRY_RUN_MILLISECONDS.amount_under(services.settings) // 60_000
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
        services.rate_limiter.hit_local(
            rate_limits.DRY_RUN_MILLISECONDS, caller.organization_id, caller.kind, caller.id, cost=spent
        )
