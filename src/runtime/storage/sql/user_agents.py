"""Dynamically registered clients (user agents): found by client id, and deleted when they are unused."""

from datetime import datetime, timedelta

from sqlalchemy import delete, exists, not_, or_, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import USER_AGENT
from runtime.domain.kinds.user_agent import Registration, UserAgent
from runtime.storage.sql import entities
from runtime.storage.sql.tables import TABLES
from runtime.storage.sql.tables import refresh_families as _families
from runtime.storage.sql.tables import sessions as _sessions

_user_agents = TABLES["UserAgent"]


async def find(conn: AsyncConnection, client_id: str, *, zone_id: str) -> UserAgent | None:
    """The user agent of that client id in that zone."""
    return await entities.find_by(conn, USER_AGENT, "identifier", client_id, within={"zone_id": zone_id})


async def touch(conn: AsyncConnection, user_agent_id: str, *, zone_id: str, now: datetime) -> None:
    """Remember that a user agent was used, once a day."""
    await conn.execute(
        update(_user_agents)
        .where(
            _user_agents.c.zone_id == zone_id,
            _user_agents.c.id == user_agent_id,
            _user_agents.c.used_at < now - timedelta(days=1),
        )
        .values(used_at=now)
    )


async def described_with_sessions(conn: AsyncConnection, zone_id: str, *, now: datetime) -> list[str]:
    """The client ids of the zone's clients by metadata document that somebody is signed in to."""
    standing = exists().where(
        _sessions.c.zone_id == _user_agents.c.zone_id,
        _sessions.c.user_agent_id == _user_agents.c.id,
        _sessions.c.status == "active",
        _sessions.c.expires_at > now,
    )
    found = await conn.scalars(
        select(_user_agents.c.identifier).where(
            _user_agents.c.zone_id == zone_id,
            _user_agents.c.registration == Registration.METADATA_DOCUMENT.value,
            standing,
        )
    )
    return list(found)


async def forget_unused(
    conn: AsyncConnection, *, before: datetime, now: datetime, limit: int
) -> list[tuple[str, str, str]]:
    """Delete user agents unused since then, of whatever zone; organization, zone and id of each that is gone.

    What still works is in use: a refresh family, or a session. Nothing but what goes with it by foreign key
    refers to a user agent.
    """
    alive = [
        exists().where(
            table.c.zone_id == _user_agents.c.zone_id,
            table.c.user_agent_id == _user_agents.c.id,
            table.c.status == "active",
            table.c.expires_at > now,
        )
        for table in (_families, _sessions)
    ]
    unused = (
        select(_user_agents.c.zone_id, _user_agents.c.id)
        .where(_user_agents.c.used_at < before, not_(or_(*alive)))
        .limit(limit)
    )
    gone = await conn.execute(
        delete(_user_agents)
        .where(tuple_(_user_agents.c.zone_id, _user_agents.c.id).in_(unused))
        .returning(_user_agents.c.organization_id, _user_agents.c.zone_id, _user_agents.c.id)
    )
    return [tuple(row) for row in gone]
