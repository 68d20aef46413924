"""The service's clock: this machine's own, corrected by the database's where it is off.

What one node stamps another compares with its own present: the end of a session, the beginning of a token, a
lease that has run out, how long ago a refresh token was used. So all go by one clock, and a machine whose own
is off by minutes takes nothing that has ended, and refuses nothing that has just begun.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from runtime.domain.oauth.claims import seconds
from runtime.logs import log

# What this machine and the database may differ by, so that usually nothing is corrected. Two nodes may then
# differ by twice as much.
TOLERATED = timedelta(seconds=1)
# More than that: what is stamped by one node and must count as past at all others lies back by this much.
NODES_APART = timedelta(seconds=5)


def issued_until(revoked_at: datetime) -> int:
    """The last `iat` of tokens from before an instant, whichever node has issued them, in seconds since 1970.

    Times in tokens are whole seconds, and another node's clock may be ahead. So what is issued just after
    that instant cannot be told from what was issued before, and nothing is issued then (`token_endpoint`).
    """
    return seconds(revoked_at + NODES_APART) + 1


def system_time() -> datetime:
    """The present on this machine's own clock, aware and UTC."""
    return datetime.now(UTC)


class Clock:
    """A callable that returns the current time, aware and UTC."""

    def __init__(self, system: Callable[[], datetime] = system_time) -> None:
        """Args:
        system: this machine's own clock.
        """
        self.system = system
        self._correction = timedelta(0)

    def __call__(self) -> datetime:
        present = self.system()
        return present + self._correction if self._correction else present

    def compare(self, database_at: float, *, asked_at: datetime, answered_at: datetime) -> None:
        """Go by the database's clock, where it differs by more than is tolerated.

        Args:
            database_at: what it told, in seconds since 1970.
            asked_at, answered_at: by this machine's own clock, between which it told that.
        """
        told = datetime.fromtimestamp(database_at, UTC)
        least, most = told - answered_at - TOLERATED, told - asked_at + TOLERATED
        if least <= self._correction <= most:
            return
        is_right = least <= timedelta(0) <= most
        self._correction = timedelta(0) if is_right else told - asked_at - (answered_at - asked_at) / 2
        log.warning(
            "the system clock differs from the database's clock, which the service uses",
            behind_by_seconds=round(self._correction.total_seconds(), 1),
        )
