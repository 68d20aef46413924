"""A clock that is moved on in place of waiting: requests that wait for a time to come take none."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from runtime.services.container import Services
from runtime.services.issuing import issue_time


class JumpingClock:
    """The present, and by how much it has been moved on."""

    def __init__(self, services: Services) -> None:
        self._system, self.ahead = services.clock.system, timedelta(0)

    def __call__(self) -> datetime:
        return self._system() + self.ahead

    def jump(self, seconds: float) -> None:
        """Let so much time have passed."""
        self.ahead += timedelta(seconds=seconds)


@contextmanager
def jumping(services: Services) -> Iterator[JumpingClock]:
    """The clock that services go by within the block.

    Nothing corrects it by the database's, also afterwards: a reading may be under way that began in the
    block.
    """
    real, wait = services.clock.system, issue_time.wait
    clock = JumpingClock(services)

    async def jump(seconds: float) -> None:
        clock.jump(seconds)

    services.clock.system, issue_time.wait = clock, jump
    services.clock.compare = lambda *_args, **_more: None  # type: ignore[method-assign]
    try:
        yield clock
    finally:
        services.clock.system, issue_time.wait = real, wait
