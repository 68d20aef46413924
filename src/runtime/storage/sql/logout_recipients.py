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
_READ = [
    _sessions.c[name]
    for name in (
        "organization_id",
        "zone_id",
        "id",
        "user_id",
        "client_id",
        "created_at",
        "application_id",
        "user_agent_id",
    )
]


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
    theirs = select(*_READ).where(_sessions.c.zone_id == zone_id, _sessions.c.client_id.is_not(None))
    # The sessions come first, each part by its index: PostgreSQL, which does not know how many they are when
    # it plans this, may begin with all users of the zone, and compare each session with all of these.
    found_by_index = union_all(theirs.where(among(_sessions.c.id, session_ids)), theirs.where(begun_in))
    told = found_by_index.cte("told").prefix_with("MATERIALIZED", dialect="postgresql")
    asked = (
        select(
            told.c.organization_id,
            told.c.id,
            told.c.client_id,
            told.c.created_at,
            _users.c.identifier,
            told.c.application_id,
            told.c.user_agent_id,
            _applications.c.protocols,
            _user_agents.c.client_metadata,
        )
        .join(_users, and_(_users.c.zone_id == told.c.zone_id, _users.c.id == told.c.user_id))
        .outerjoin(
            _applications,
            and_(_applications.c.zone_id == told.c.zone_id, _applications.c.id == told.c.application_id),
        )
        .outerjoin(
            _user_agents,
            and_(_user_agents.c.zone_id == told.c.zone_id, _user_agents.c.id == told.c.user_agent_id),
        )
    )
    found = await conn.execute(asked)
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
