"""The record of every token decision: queued in memory, written in batches, never dropped.

A full queue means that the database does not keep up: then requests are answered 503, because a token
that nobody can account for is not issued.
"""

import asyncio
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.exc import DBAPIError

from runtime.domain.errors import OAuthError, TemporarilyUnavailable, Unavailable
from runtime.logs import log
from runtime.metrics import TOKENS
from runtime.services.attached import Attached
from runtime.storage.sql import decisions as storage

MAX_QUEUED = 20_000
_MAX_BATCH = 2_000
_GATHER_SECONDS = 0.05
_RETRY_SECONDS = 0.5


@dataclass(slots=True)
class Decision:
    """What one token request came to. Filled in as the request is worked on, then recorded.

    Attributes:
        event: the grant type, in short.
        outcome: `issued` or `refused`.
        reason: the error code of a refusal, with what the log may know besides.
        step: the numbered step of an exchange that refused.
        determining: names of the policy rules that decided.
    """

    organization_id: str
    zone_id: str
    at: datetime
    request_id: str
    event: str = "token"
    outcome: str = "refused"
    reason: str | None = None
    step: int | None = None
    user_id: str | None = None
    application_id: str | None = None
    user_agent_id: str | None = None
    resource_id: str | None = None
    actors: tuple[str, ...] = ()
    determining: tuple[str, ...] = ()

    def issue(self) -> None:
        """The request got what it asked for."""
        self.outcome, self.reason, self.step = "issued", None, None

    def refuse(self, refusal: OAuthError) -> None:
        """The request was refused for that reason."""
        reason = refusal.members.get("reason")
        known = reason or refusal.internal
        self.outcome, self.reason = "refused", f"{refusal.code}: {known}" if known else refusal.code


class Decisions(Attached):
    """The queue of this process and the task that empties it."""

    def __init__(self, *, max_queued: int = MAX_QUEUED) -> None:
        self._max_queued = max_queued
        self._queued: list[list[Any]] = []
        self._wake = asyncio.Event()
        self._stopping = False
        self._writer: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()

    async def start(self) -> None:
        """Write what is recorded, from now on, in the background."""
        self._stopping = False
        if self._writer is None:
            self._writer = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Write everything that is queued, and end."""
        self._stopping = True
        self._wake.set()
        if self._writer is not None:
            await self._writer
            self._writer = None
        await self.flush()

    def record(self, decision: Decision) -> None:
        """Queue a decision. Raises TemporarilyUnavailable when the queue is full."""
        if len(self._queued) >= self._max_queued:
            raise TemporarilyUnavailable(
                "please try again shortly", internal="the queue of decisions is full"
            )
        TOKENS.labels(decision.event, decision.outcome).inc()
        self._queued.append(
            [
                secrets.token_hex(13),
                decision.organization_id,
                decision.zone_id,
                decision.at,
                decision.event,
                decision.outcome,
                decision.reason,
                decision.step,
                decision.user_id,
                decision.application_id,
                decision.user_agent_id,
                decision.resource_id,
                decision.actors,
                decision.determining,
                decision.request_id,
            ]
        )
        if not self._wake.is_set():
            self._wake.set()

    async def flush(self) -> None:
        """Write everything that is queued now. Raises what the database raises; nothing is lost by that."""
        while self._queued:
            async with self._writing:
                batch = self._queued[:_MAX_BATCH]
                if batch:
                    await self._write(batch)
                    del self._queued[: len(batch)]

    async def _run(self) -> None:
        while not self._stopping:
            await self._wake.wait()
            if not self._stopping:
                await asyncio.sleep(_GATHER_SECONDS)
            self._wake.clear()
            try:
                await self.flush()
            except (DBAPIError, OSError, Unavailable) as failure:
                log.error("decisions not written yet", queued=len(self._queued), reason=repr(failure))
                self._wake.set()
                await asyncio.sleep(_RETRY_SECONDS)

    async def _write(self, batch: list[list[Any]]) -> None:
        async with self.parts.database.transaction() as conn:
            await storage.add(conn, batch)
