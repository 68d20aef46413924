"""Logout notices in the outbox: which clients are told that a session of theirs has ended.

Spec: OpenID Connect Back-Channel Logout section 2.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.storage.sql import listeners

if TYPE_CHECKING:
    from runtime.services.container import Services

TOPIC = "backchannel-logout"


async def put(
    conn: AsyncConnection, services: "Services", session_ids: Collection[str], *, zone_id: str
) -> None:
    """Have the clients of these sessions told once the transaction stands; poke the outbox then."""
    for listener in await listeners.of(conn, session_ids, zone_id=zone_id):
        payload = {
            "address": listener.address,
            "client_id": listener.client_id,
            "subject": listener.subject,
            "session_id": listener.session_id,
        }
        await services.outbox.put(
            conn,
            TOPIC,
            payload,
            now=services.clock(),
            organization_id=listener.organization_id,
            zone_id=zone_id,
            receiver=listener.client_id,
        )
