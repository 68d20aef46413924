"""Token events of sessions and grants that end outside the token endpoint: logout, withdrawal, deletion."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.identifiers import new_id
from runtime.domain.oauth.decision_events import DecisionEvent, DecisionOutcome
from runtime.services.decision_log import current_decision
from runtime.storage.sql import token_events as storage
from runtime.storage.sql.token_events import TokenEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEndEvent:
    """Something that has ended.

    Attributes:
        event: what has ended it.
        session_id: the session that ended, with those below it; the row of it stays.
        user_agent_id, application_id: the client that lost what it had.
        resource_id: what every client lost.
    """

    event: DecisionEvent
    organization_id: str
    zone_id: str
    user_id: str | None = None
    session_id: str | None = None
    application_id: str | None = None
    user_agent_id: str | None = None
    resource_id: str | None = None


async def record(conn: AsyncConnection, endings: Iterable[SessionEndEvent], *, now: datetime) -> None:
    """Write endings as a part of the transaction that they happen in, with the id of the request."""
    events = [
        TokenEvent(
            id=new_id(),
            organization_id=each.organization_id,
            zone_id=each.zone_id,
            at=now,
            event=each.event,
            outcome=DecisionOutcome.ENDED,
            reason=f"session {each.session_id}" if each.session_id else None,
            user_id=each.user_id,
            application_id=each.application_id,
            user_agent_id=each.user_agent_id,
            resource_id=each.resource_id,
            request_id=current_decision().request_id or None,
        )
        for each in endings
    ]
    if events:
        await storage.add(conn, events)
