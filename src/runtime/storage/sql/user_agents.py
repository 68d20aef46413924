"""Clients that registered themselves: kept, found by client id, and forgotten when nobody uses them."""

from datetime import datetime, timedelta
from typing import cast

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import USER_AGENT
from runtime.domain.kinds.user_agent import UserAgent
from runtime.storage.sql import entities
from runtime.storage.sql.tables import TABLES

_user_agents = TABLES["UserAgent"]


async def find(conn: AsyncConnection, client_id: str, *, zone_id: str) -> UserAgent | None:
    """The user agent of that client id in that zone."""
    found = await entities.find_by(conn, USER_AGENT, "identifier", client_id, within={"zone_id": zone_id})
    return cast(UserAgent | None, found)


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
