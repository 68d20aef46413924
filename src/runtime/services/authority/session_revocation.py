"""Revoking sessions: with those below, their refresh tokens, and back-channel logout of their clients."""

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds.zone import Zone
from runtime.services import epochs
from runtime.services.container import Services
from runtime.services.outbox import logout_notices
from runtime.services.zones import CachedZone
from runtime.storage.sql import refresh_families, sessions


async def end(
    services: Services, zone: CachedZone | Zone, *, session_id: str, family_id: str | None = None
) -> None:
    """End a session with everything below it, and a refresh family. What is not there stays as it is."""
    async with services.epochs.transaction(tenant=zone.organization_id) as (conn, bumped):
        bumped.update(await revoke(conn, services, zone.id, session_id))
        if family_id is not None:
            await refresh_families.revoke(conn, family_id, zone_id=zone.id)
    services.outbox.notify()


async def revoke(
    conn: AsyncConnection, services: Services, zone_id: str, *session_ids: str
) -> dict[str, int]:
    """End sessions, those below them and every chain that starts there; the epochs that it bumps.

    Clients that want to hear of it do once the outbox is notified after the commit.
    """
    ended = await sessions.revoke(conn, *session_ids, zone_id=zone_id, now=services.clock())
    await logout_notices.enqueue(conn, services.outbox, ended, zone_id=zone_id)
    return {epochs.session_key(each): epoch for each, epoch in ended.items()}
