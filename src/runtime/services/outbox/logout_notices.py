"""Back-channel logout notices in the outbox: one for each client of a session that has ended.

Spec: OpenID Connect Back-Channel Logout section 2.
"""

from collections.abc import Collection

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.zone_addresses import issuer_at
from runtime.services.outbox.delivery import Outbox
from runtime.storage.sql import logout_recipients, zone_addresses
from runtime.storage.sql.logout_recipients import LogoutRecipient

TOPIC = "backchannel-logout"


async def enqueue(
    conn: AsyncConnection, outbox: Outbox, session_ids: Collection[str], *, zone_id: str
) -> None:
    """Add a logout notice for each client of these sessions; notify the outbox after the commit."""
    listeners = await logout_recipients.of(conn, session_ids, zone_id=zone_id)
    if not listeners:
        return
    told = await zone_addresses.told_to(conn, zone_id, [each.session_id for each in listeners])
    former = await zone_addresses.former(conn, zone_id)
    notices = [
        (each.client_id, _notice(each, told.get(each.session_id) or issuer_at(former, each.began_at)))
        for each in listeners
    ]
    organization_id = listeners[0].organization_id
    await outbox.enqueue_many(conn, TOPIC, notices, organization_id=organization_id, zone_id=zone_id)


def _notice(listener: LogoutRecipient, issuer: str | None) -> dict[str, str]:
    """What the delivery of a notice takes.

    Args:
        issuer: that the client knows the zone by; None for the one that the zone has then.
    """
    told = {
        "address": listener.address,
        "client_id": listener.client_id,
        "subject": listener.subject,
        "session_id": listener.session_id,
    }
    return told if issuer is None else {**told, "issuer": issuer}
