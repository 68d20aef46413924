"""Clients that registered themselves: kept, found by client id, and forgotten when nobody uses them."""

from typing import cast

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import USER_AGENT
from runtime.domain.kinds.user_agent import UserAgent
from runtime.storage.sql import entities


async def find(conn: AsyncConnection, client_id: str, *, zone_id: str) -> UserAgent | None:
    """The user agent of that client id in that zone."""
    found = await entities.find_by(conn, USER_AGENT, "identifier", client_id, within={"zone_id": zone_id})
    return cast(UserAgent | None, found)
