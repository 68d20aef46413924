"""Upstream revocations in the outbox (RFC 7009): credentials that have ended here, and end at their provider.

They are added as the vault has them, sealed for their row. Tokens that connecting again has replaced are not
among them: many providers end all that one user has given one client with any token of it, the new one, too.
"""

from base64 import b64encode
from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.delegated_grants import issuing_addresses
from runtime.services.outbox.delivery import Outbox
from runtime.storage.sql import vault_tokens, zone_data
from runtime.storage.sql.vault_tokens import EndedCredential

TOPIC = "upstream-revocation"
MOST = 1_000  # of one change; what is beyond ends at the provider by itself


async def enqueue_of(
    conn: AsyncConnection,
    outbox: Outbox,
    *,
    zone_id: str,
    grant_id: str | None = None,
    user_id: str | None = None,
    resource_id: str | None = None,
) -> None:
    """Have the credentials revoked that are about to go with a grant, a user or a resource.

    Before they go, in the same transaction; notify the outbox after its commit.
    """
    named = {"grant_id": grant_id, "user_id": user_id, "resource_id": resource_id}
    await enqueue(conn, outbox, await vault_tokens.issued(conn, zone_id=zone_id, limit=MOST, **named))


async def enqueue(conn: AsyncConnection, outbox: Outbox, ended: Sequence[EndedCredential]) -> None:
    """Have these credentials revoked, if their provider is the same then as it is now."""
    addresses: dict[str, tuple[str | None, ...]] = {}
    for each in ended:
        if each.provider_id not in addresses:
            provider = await zone_data.provider(conn, each.zone_id, each.provider_id)
            addresses[each.provider_id] = issuing_addresses(provider) if provider is not None else ()
        refresh_token = each.tokens.refresh_token
        payload = {
            "row_id": each.row_id,
            "version": each.version,
            "provider_id": each.provider_id,
            "addresses": addresses[each.provider_id],
            "access_token": b64encode(each.tokens.access_token).decode(),
            "refresh_token": b64encode(refresh_token).decode() if refresh_token is not None else None,
        }
        await outbox.enqueue(
            conn,
            TOPIC,
            payload,
            organization_id=each.organization_id,
            zone_id=each.zone_id,
            receiver=each.provider_id,
        )
