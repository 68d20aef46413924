"""Ending what a sign-in produced, so that every worker hears of it at once."""

from runtime.services.exchange import epochs
from runtime.services.parts import Parts
from runtime.storage.sql import refresh, sessions


async def end(parts: Parts, zone_id: str, *, session_id: str, family_id: str | None = None) -> None:
    """End a session with everything below it, and a refresh family. What is not there stays as it is."""
    async with parts.database.transaction() as conn:
        ended = await sessions.revoke(conn, session_id, zone_id=zone_id, now=parts.clock())
        if family_id is not None:
            await refresh.revoke(conn, family_id, zone_id=zone_id)
    await epochs.publish(parts.state, {epochs.session_key(each): epoch for each, epoch in ended.items()})
