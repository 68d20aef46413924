"""What signing in asks about a client: whether it is still there, and what it may ask users for."""

from runtime.domain.kinds.resource import Resource
from runtime.services.parties import ApplicationClient, Client
from runtime.services.zones import ZoneView


async def standing(view: ZoneView, client_id: str, party_id: str) -> Client | None:
    """The client of a request that was recognised before; None when it is gone, or somebody else's now."""
    client = await view.client(client_id)
    return client if client is not None and client.party.id == party_id else None


async def may_ask(view: ZoneView, client: Client, resource: Resource) -> bool:
    """Tell whether a client may ask users for a resource at all.

    An application may for what it depends on or provides. A client that registered itself may for every
    resource of the zone: users are always asked, and a zone that wants to limit it says so in its policies.
    """
    if not isinstance(client, ApplicationClient):
        return True
    own = resource.application_id == client.application.id
    return own or resource.id in await view.dependencies(client.application.id)
