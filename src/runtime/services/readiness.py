"""Readiness: whether this process can serve, with all it does or with less, or should get no requests now.

A balancer takes nodes that are not ready out of service. What all nodes share and can do without, as Redis,
must not take out all of them at once: then a node is ready, and says what does not work.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from enum import StrEnum

from runtime.domain.errors import Unavailable
from runtime.logs import log
from runtime.services import schema_watch
from runtime.services.container import Services
from runtime.storage.sql.database import Database

DATABASE_SECONDS = 2.5  # a server that hangs is told from a busy one in less
STATE_SECONDS = 1.5
OK = "ok"
WITHOUT_STATE = (
    "sign-in",
    "authorization codes",
    "pushed authorization requests",
    "client assertions",
    "DPoP proofs",
    "links to connect an account",
)


class Readiness(StrEnum):
    """What a process can do."""

    OK = "ok"
    DEGRADED = "degraded"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True)
class Report:
    """What was found.

    Attributes:
        database, state: `ok`, or what is wrong, in words.
        failures: the same as what was raised, for the log.
    """

    database: str
    state: str
    failures: tuple[Unavailable, ...] = ()

    @property
    def readiness(self) -> Readiness:
        """Without the database nothing is right for sure; without the short-lived state, a part."""
        if self.database != OK:
            return Readiness.UNAVAILABLE
        return Readiness.OK if self.state == OK else Readiness.DEGRADED

    @property
    def impaired(self) -> tuple[str, ...]:
        """What does not work, where the rest does."""
        return WITHOUT_STATE if self.readiness is Readiness.DEGRADED else ()


async def report(services: Services) -> Report:
    """Both parts, asked at the same time, each with a deadline."""
    failures = await asyncio.gather(
        _failure("the database", _check(services.database), within=DATABASE_SECONDS),
        _failure("the short-lived state", services.state.ping(), within=STATE_SECONDS),
    )
    database, state = (OK if failure is None else failure.detail for failure in failures)
    return Report(database, state, tuple(filter(None, failures)))


async def _check(database: Database) -> None:
    await schema_watch.check(database)
    await database.check()


async def _failure(part: str, asking: Awaitable[None], *, within: float) -> Unavailable | None:
    """Why a part is not available; None when it is."""
    try:
        async with asyncio.timeout(within):
            await asking
    except Unavailable as failure:
        return failure
    except TimeoutError:
        return Unavailable(f"{part} does not answer", internal=f"nothing within {within:g} seconds")
    except Exception as failure:  # noqa: BLE001 - a check that fails is an answer, and the failure is logged
        log.error("readiness check failed", part=part, exc_info=failure)
        return Unavailable(f"{part} cannot be checked", internal=repr(failure))
    return None
