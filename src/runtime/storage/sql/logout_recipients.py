"""The clients that receive a logout token when a session ends (OpenID Connect Back-Channel Logout)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import and_, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds.application import ApplicationProtocols
from runtime.domain.kinds.user_agent import ClientMetadata
from runtime.storage.sql import accountability
from runtime.storage.sql.batches import among
from runtime.storage.sql.tables import METADATA, TABLES

_users = TABLES["User"]
_applications = TABLES["Application"]
_user_agents = TABLES["UserAgent"]
_sessions = METADATA.tables["sessions"]


@dataclass(frozen=True, slots=True)
class LogoutRecipient:
    """A client with the session that it is to hear of.

    Attributes:
        subject: the user's zone identifier.
    """

    organization_id: str
    session_id: str
    subject: str
    client_id: str
    address: str
    began_at: datetime


async def of(conn: AsyncConnection, session_ids: Collection[str], *, zone_id: str) -> list[LogoutRecipient]:
    """The clients behind these sessions, applications and user agents, that gave an address for it.

    Those are the clients that users have signed in to, `offline_access` included: that is for the refresh
    token, which stays. Who got a token of the session by exchange alone has no session to end. An application
    that is ended receives nothing.

    Spec: OpenID Connect Back-Channel Logout section 2.7.
    """
    if not session_ids:
        return []
    # Offline sessions that were begun in one of these outlive it; their clients are told all the same.
    begun_in = and_(among(_sessions.c.browser_session_id, session_ids), _sessions.c.status == "active")
    asked = (
        select(
            _sessions.c.organization_id,
            _sessions.c.id,
            _sessions.c.client_id,
            _sessions.c.created_at,
            _users.c.identifier,
            _sessions.c.application_id,
            _sessions.c.user_agent_id,
            _applications.c.protocols,
            _user_agents.c.client_metadata,
        )
        .join(_users, and_(_users.c.zone_id == _sessions.c.zone_id, _users.c.id == _sessions.c.user_id))
        .outerjoin(
            _applications,
            and_(
                _applications.c.zone_id == _sessions.c.zone_id,
                _applications.c.id == _sessions.c.application_id,
            ),
        )
        .outerjoin(
            _user_agents,
            and_(
                _user_agents.c.zone_id == _sessions.c.zone_id,
                _user_agents.c.id == _sessions.c.user_agent_id,
            ),
        )
        .where(
            _sessions.c.zone_id == zone_id,
            _sessions.c.client_id.is_not(None),
        )
    )
    # Two queries by index: of a subquery with both, PostgreSQL may read the whole once for each session.
    found = await conn.execute(
        union_all(asked.where(among(_sessions.c.id, session_ids)), asked.where(begun_in))
    )
    rows = list({row.id: row for row in found}.values())
    # Of many sessions, few clients: each is read once.
    clients = {(row.application_id, row.user_agent_id): row for row in rows}
    addresses = {
        client: address
        for client, row in clients.items()
        if (address := _address(row.protocols, row.client_metadata))
    }
    applications = {application_id for application_id, _ in addresses if application_id is not None}
    ended = set(await accountability.ended(conn, zone_id, applications)) if applications else ()
    return [
        LogoutRecipient(row.organization_id, row.id, row.identifier, row.client_id, address, row.created_at)
        for row in rows
        if (address := addresses.get((row.application_id, row.user_agent_id)))
        and row.application_id not in ended
    ]


def _address(protocols: Mapping[str, Any] | None, metadata: Mapping[str, Any] | None) -> str | None:
    if metadata is not None:
        return ClientMetadata.model_validate(metadata).backchannel_logout_uri
    oauth2 = ApplicationProtocols.model_validate(protocols or {}).oauth2
    return oauth2.backchannel_logout_uri if oauth2 else None
