"""The client of an authorization request: found or fetched, unchanged since, allowed for a resource."""

from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import BadLink
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.client_ids import is_address
from runtime.services.client_types import ApplicationClient, Client, UserAgentClient
from runtime.services.clients import metadata_documents
from runtime.services.container import Services
from runtime.services.zones import CachedZone
from runtime.storage.sql import user_agents, zone_data


async def resolve_client(services: Services, zone: CachedZone, client_id: str) -> Client:
    """The client that an authorize request names. Raises BadLink.

    One whose id is an address and that nobody here registered is looked up there.
    """
    client = await zone.clients.get(client_id)
    if isinstance(client, ApplicationClient) or not is_address(client_id):
        if client is None:
            raise BadLink("no application is registered here under this `client_id`")
        return client
    return await metadata_documents.current(services, zone, client_id)


async def find_unchanged(zone: CachedZone, client_id: str, party_id: str) -> Client | None:
    """The client of a request that was recognised before; None when it is gone, or somebody else's now."""
    client = await zone.clients.current(client_id)
    return client if client is not None and client.client_ref.id == party_id else None


async def may_request(zone: CachedZone, client: Client, resource: Resource) -> bool:
    """Tell whether a client may ask for tokens for a resource at all, from users or by itself.

    An application may for what it declares as a dependency: what it provides is no exception. A client that
    registered itself may for every resource of the zone: users are always asked, and a zone that wants to
    limit it says so in its policies. Spec: service interface, token exchange, step 3.
    """
    if not isinstance(client, ApplicationClient):
        return True
    return resource.id in await zone.applications.dependencies(client.application.id)


async def declares(conn: AsyncConnection, client: Client, resource: Resource) -> bool:
    """The same of an application as it is in this transaction, whatever is cached."""
    if not isinstance(client, ApplicationClient):
        return True
    return resource.id in await zone_data.dependencies(conn, resource.zone_id, client.application.id)


async def mark_used(conn: AsyncConnection, client: Client, *, now: datetime) -> None:
    """Remember that a client that registered itself is in use, so that it is not forgotten."""
    if isinstance(client, UserAgentClient):
        user_agent = client.user_agent
        await user_agents.touch(conn, user_agent.id, zone_id=user_agent.zone_id, now=now)
