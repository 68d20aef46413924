"""When a token may be issued: once it can be told from what was revoked under one of its names.

Tokens name clients, applications and resources, and times in them are whole seconds of clocks that differ.
What is issued within seconds of a revocation could not be told from what was revoked: the zone and everybody
with its revocation list would refuse it for as long as it lasts. So the request waits, for seven seconds at
most. Every grant asks here before it decides anything about the token, with all that the token will be
called by.

A token that is made after the wait is later than all of these revocations, so nothing that was established
before it may count: the request is worked on anew, from the authentication of its client on.
"""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

from runtime.domain.oauth.revocable_names import Name, TokenNames
from runtime.services.clock import issued_until
from runtime.services.zones import CachedZone
from runtime.services.zones.withdrawals import issued_until_in_session

NOTHING: Mapping[Name, datetime] = MappingProxyType({})
# The event loop's timers are set in whole milliseconds, rounded, from an instant that is rounded down.
_TIMERS_ARE_EARLY = 0.01


class NotSettled(Exception):
    """A token could not be told from what was revoked.

    Attributes:
        seconds: after them the request may be worked on anew.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"not before {seconds:.1f} s")
        self.seconds = seconds


async def seconds_to_wait(
    zone: CachedZone, names: TokenNames, now: datetime, *, withdrawn: Mapping[Name, datetime] = NOTHING
) -> float:
    """How long a token of these names is not to be issued; 0 for not at all.

    It is some seconds at most, also where a clock was set back since.

    Args:
        withdrawn: what the user has taken back from the tokens of the session that it is for.
    """
    until = await zone.withdrawals.issued_until(names)
    if withdrawn:
        until = max(until, issued_until_in_session(withdrawn, names.in_session()))
    seconds = until + 1 - now.timestamp()
    return min(seconds, issued_until(now) + 1 - now.timestamp()) if seconds > 0 else 0.0


async def require_settled(
    zone: CachedZone, names: TokenNames, now: datetime, *, withdrawn: Mapping[Name, datetime] = NOTHING
) -> None:
    """Check that a token of these names may be issued now. Raises NotSettled."""
    if seconds := await seconds_to_wait(zone, names, now, withdrawn=withdrawn):
        raise NotSettled(seconds)


async def wait(seconds: float) -> None:
    """Let so much time pass, and no less: a request has few attempts, and each would come too early."""
    await asyncio.sleep(seconds + _TIMERS_ARE_EARLY)
