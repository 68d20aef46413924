"""Checks that a client is still allowed by its zone: documents, allowlists and settings change."""

from runtime.domain.kinds.user_agent import Registration
from runtime.services.client_types import ApplicationClient, Client
from runtime.services.zones import CachedZone


async def revalidated_client(zone: CachedZone, client: Client) -> Client | None:
    """The client as it is now; None when the zone no longer allows it, or it needs a key from now on.

    Nothing is fetched for a public client: users were asked about what was read at authorization.
    """
    if isinstance(client, ApplicationClient) or client.registration is not Registration.METADATA_DOCUMENT:
        return client
    now = await zone.clients.current(client.client_id)
    return now if now is not None and now.is_public == client.is_public else None
