"""The turns of organizations in one run of a job: one that cannot be written to keeps no other waiting.

Whatever writes to an organization waits for its lock. Its own requests can hold that again and again, each
for longer than a statement may wait.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from runtime.domain.errors import Unavailable
from runtime.logs import throttled_warnings
from runtime.services.container import Services

_T = TypeVar("_T")


class Turns:
    """One run, and the organizations that it has passed over."""

    def __init__(self, services: Services, name: str) -> None:
        """Args:
        name: of what the run does, for its log lines.
        """
        self.passed_over: set[str] = set()
        self._services = services
        self._name = name

    async def take(self, organization_id: str, work: Callable[[], Awaitable[_T]]) -> _T | None:
        """Do some work on an organization; what it returns, None where the organization is passed over.

        It is passed over for the rest of the run, or each of its zones would be waited for.

        Raises: what the work raises; Unavailable only while the database does not answer at all.
        """
        if organization_id in self.passed_over:
            return None
        try:
            return await work()
        except Unavailable as failure:
            await self._services.database.ping()
            self.passed_over.add(organization_id)
            throttled_warnings.warn(
                "an organization cannot be written to now: a job passes it over",
                reason=failure.detail,
                about=f"{self._name} {organization_id}",
                job=self._name,
                organization_id=organization_id,
            )
            return None


@contextmanager
def in_turn(services: Services, name: str) -> Iterator[Turns]:
    """The turns of a run that counts as failed in the end, and is done again, where somebody was passed over.

    Raises: Unavailable.
    """
    turns = Turns(services, name)
    yield turns
    if turns.passed_over:
        raise Unavailable(f"organizations that were passed over: {len(turns.passed_over)}")
