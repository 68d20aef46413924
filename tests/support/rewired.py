"""Services with some of their parts exchanged, and everything made anew that was built on these parts."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from runtime.services.container import Services
from runtime.services.epochs import Epochs
from runtime.services.jobs.runner import JobRunner
from runtime.services.rate_limiter import RateLimiter
from runtime.services.schedule import JOBS
from runtime.services.zones import ZoneRegistry
from runtime.storage.state import StateStore


def with_new_zones(
    services: Services, *, clock: Callable[[], datetime] | None = None, epochs: Epochs | None = None
) -> Services:
    """The services with an empty cache of zones, which goes by that clock."""
    clock, epochs = clock or services.clock, epochs or services.epochs
    zones = ZoneRegistry(services.database, clock, epochs, services.data_keys, services.settings)
    return replace(services, clock=clock, epochs=epochs, zones=zones)


def with_limits_on(services: Services, state: StateStore) -> Services:
    """The services with that short-lived state, on which rate limits are counted, too."""
    return replace(services, state=state, rate_limiter=RateLimiter(state, services.clock, services.settings))


async def run_job(services: Services, name: str) -> int | None:
    """Run a job of the schedule now, as `JobRunner.run_now` does."""
    return await JobRunner(services, JOBS).run_now(name)
