"""Connecting an account again, from the account page, when its provider issues no more tokens for it."""

from urllib.parse import urlencode

from runtime.domain.kinds.values import Consent
from runtime.services.authority import consents
from runtime.services.authority.browser_sessions import SignedInUser
from runtime.services.authority.connect_links import MissingAuthorization, new_link
from runtime.services.client_types import Client
from runtime.services.clients import client_lookup
from runtime.services.container import Services
from runtime.services.zones import CachedZone
from runtime.storage.sql import connected_applications
from runtime.storage.sql.connected_applications import GivenGrant


async def find_client(
    services: Services, zone: CachedZone, signed_in: SignedInUser, grant: GivenGrant
) -> Client | None:
    """A client that the user lets have all of the grant already: the account is connected for it.

    Connecting consents to the grant's scopes for that client, so it must have them. None where there is no
    such client by now. One that asks for more makes its own link.
    """
    resource = await zone.resources.get(grant.resource_id)
    if resource is None:
        return None
    async with services.database.reading() as conn:
        known = await connected_applications.client_ids(
            conn,
            zone_id=zone.id,
            user_id=signed_in.user.id,
            resource_id=resource.id,
            now=services.clock(),
        )
    for client_id in dict.fromkeys(known):
        client = await zone.clients.get(client_id)
        if client is None or not await client_lookup.may_request(zone, client, resource):
            continue
        agreed = await consents.consents_of(services, zone, client, signed_in.user)
        given = agreed.given.get(resource.id)
        if client.consent is Consent.IMPLICIT or (given is not None and given.scopes >= grant.scopes):
            return client
    return None


async def address(services: Services, zone: CachedZone, signed_in: SignedInUser, grant_id: str) -> str | None:
    """Where the user connects the account of a grant of theirs again; None where nothing is to be done."""
    async with services.database.reading() as conn:
        grants = await connected_applications.grants(
            conn, zone_id=zone.id, user_id=signed_in.user.id, now=services.clock()
        )
    grant = next((each for each in grants if each.id == grant_id and each.needs_connecting), None)
    if grant is None or (client := await find_client(services, zone, signed_in, grant)) is None:
        return None
    resource = await zone.resources.get(grant.resource_id)
    missing = MissingAuthorization(signed_in.session, grant.scopes, (client.identifier,), services.clock())
    link = new_link(zone, client, resource, missing) if resource is not None else None
    return f"{zone.issuer}/oauth/connect?{urlencode({'link': link})}" if link is not None else None
