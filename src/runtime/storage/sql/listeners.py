"""Whose clients want to hear that a session has ended."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import and_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds.user_agent import ClientMetadata
from runtime.storage.sql.tables import METADATA, TABLES

_users = TABLES["User"]
_user_agents = TABLES["UserAgent"]
_sessions = METADATA.tables["sessions"]


@dataclass(frozen=True, slots=True)
class Listener:
    """A client with the session that it is to hear of.

    Attributes:
        subject: the user's zone identifier.
    """

    organization_id: str
    session_id: str
    subject: str
    client_id: str
    address: str


async def of(conn: AsyncConnection, session_ids: Collection[str], *, zone_id: str) -> list[Listener]:
    """The clients behind these sessions that gave an address for it. An application has no member for one."""
    found = await conn.execute(
        select(
            _sessions.c.organization_id,
            _sessions.c.id,
            _users.c.identifier,
            _user_agents.c.identifier.label("client_id"),
            _user_agents.c.client_metadata,
        )
        .join(_users, and_(_users.c.zone_id == _sessions.c.zone_id, _users.c.id == _sessions.c.user_id))
        .join(
            _user_agents,
            and_(
                _user_agents.c.zone_id == _sessions.c.zone_id,
                _user_agents.c.id == _sessions.c.user_agent_id,
            ),
        )
        .where(_sessions.c.zone_id == zone_id, _sessions.c.id.in_(session_ids))
    )
    return [
        Listener(row.organization_id, row.id, row.identifier, row.client_id, address)
        for row in found
        if (address := ClientMetadata.model_validate(row.client_metadata).backchannel_logout_uri)
    ]
