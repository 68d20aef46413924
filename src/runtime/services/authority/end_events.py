"""The record of what ends without a token request: beside the token events, with the ending or not at all."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.identifiers import new_id
from runtime.storage.sql import decisions as storage


@dataclass(frozen=True, slots=True)
class EndEvent:
    """Something that has ended.

    Attributes:
        event: `sign-out`, `provider-sign-out`, `withdrawal`, `session-end` or `client-forgotten`.
        session_id: the session that ended, with those below it; the row of it stays.
        user_agent_id, application_id: the client that lost what it had.
        resource_id: what every client lost.
    """

    event: str
    organization_id: str
    zone_id: str
    user_id: str | None = None
    session_id: str | None = None
    application_id: str | None = None
    user_agent_id: str | None = None
    resource_id: str | None = None


async def record(conn: AsyncConnection, endings: Iterable[EndEvent], *, now: datetime) -> None:
    """Write endings as a part of the transaction that they happen in."""
    rows = [
        [
            new_id(),
            each.organization_id,
            each.zone_id,
            now,
            each.event,
            "ended",
            f"session {each.session_id}" if each.session_id else None,
            None,
            each.user_id,
            each.application_id,
            each.user_agent_id,
            each.resource_id,
            (),
            (),
            None,
            None,
        ]
        for each in endings
    ]
    if rows:
        await storage.add(conn, rows)
