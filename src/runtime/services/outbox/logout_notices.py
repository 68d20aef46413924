"""Back-channel logout notices in the outbox: one for each client of a session that has ended.

Spec: OpenID Connect Back-Channel Logout section 2.
"""

from collections.abc import Collection

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.zone_addresses import issuer_at
from runtime.services.outbox.delivery import Outbox
from runtime.storage.sql import logout_recipients, zone_addresses

TOPIC = "backchannel-logout"


async def enqueue(
    conn: AsyncConnection, outbox: Outbox, session_ids: Collection[str], *, zone_id: str
) -> None:
    """Add a logout notice for each client of these sessions; notify the outbox after the commit."""
    listeners = await logout_recipients.of(conn, session_ids, zone_id=zone_id)
    told = await zone_addresses.told_to(conn, zone_id, [each.session_id for each in listeners])
    former = await zone_addresses.former(conn, zone_id) if listeners else ()
    for listener in listeners:
        issuer = told.get(listener.session_id) or issuer_at(former, listener.began_at)
        payload = {
            "address": listener.address,
            "client_id": listener.client_id,
            "subject": listener.subject,
            "session_id": listener.session_id,
            **({} if issuer is None else {"issuer": issuer}),
        }
        await outbox.enqueue(
            conn,
            TOPIC,
            payload,
            organization_id=listener.organization_id,
            zone_id=zone_id,
            receiver=listener.client_id,
        )
