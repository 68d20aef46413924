"""The client `zonectl` and the resource "Management API" in the home zone of an organization.

The platform's own client `zonectl` runs on people's machines, and is sent back to a loopback address on
whatever port is free there. It depends on the one resource that the management API is.
"""

from runtime.domain.errors import Conflict
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import APPLICATION, APPLICATION_CREDENTIAL, RESOURCE
from runtime.domain.kinds.application import (
    Application,
    ApplicationOAuth2,
    ApplicationProtocols,
    PublicCredential,
)
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.values import Consent, OwnerType
from runtime.domain.kinds.zone import Zone
from runtime.services.management import entities
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import applications
from runtime.storage.sql import entities as storage

CLIENT = "zonectl"
REDIRECT_URIS = ["http://127.0.0.1/callback", "http://localhost/callback"]


async def create_client_and_resource(unit: UnitOfWork, zone: Zone) -> None:
    """Create the client and the resource in the home zone, where they do not exist."""
    client = await _client(unit, zone)
    resource = await _management_api(unit, zone)
    if resource.id not in await applications.dependencies_of(unit.conn, client.id, zone_id=zone.id):
        await applications.upsert_dependency(
            unit.conn, client.id, resource.id, zone_id=zone.id, when_accessing=(), now=unit.now
        )


async def _client(unit: UnitOfWork, zone: Zone) -> Application:
    """The platform's client, public and without consent: it is a part of this service.

    Raises: Conflict for an application of the customer's with that identifier.
    """
    scope = {"zone_id": zone.id}
    found = await storage.find_by(unit.conn, APPLICATION, "identifier", CLIENT, within=scope)
    if found is not None:
        if found.owner_type is not OwnerType.PLATFORM:
            raise Conflict(
                f"rename the application `{CLIENT}` in zone `{zone.id}`: the service needs that name"
            )
        return found
    made = await entities.new_entity(
        unit,
        APPLICATION,
        scope,
        {"identifier": CLIENT, "name": CLIENT},
        owner_type=OwnerType.PLATFORM,
        consent=Consent.IMPLICIT,
        description="Signs people in who manage this organization",
        protocols=ApplicationProtocols(oauth2=ApplicationOAuth2(redirect_uris=REDIRECT_URIS)),
    )
    await storage.insert(unit.conn, APPLICATION, made)
    credential = PublicCredential(
        id=new_id(),
        organization_id=zone.organization_id,
        zone_id=zone.id,
        created_at=unit.now,
        updated_at=unit.now,
        revision=await unit.next_revision(),
        application_id=made.id,
        identifier=CLIENT,
        slug=await entities.free_slug(unit, APPLICATION_CREDENTIAL, scope, CLIENT),
    )
    await storage.insert(unit.conn, APPLICATION_CREDENTIAL, credential)
    return made


async def _management_api(unit: UnitOfWork, zone: Zone) -> Resource:
    """The resource whose identifier is the `aud` that the management API asks for."""
    scope, identifier = {"zone_id": zone.id}, unit.services.settings.public_url
    found = await storage.find_by(unit.conn, RESOURCE, "identifier", identifier, within=scope)
    if found is None:
        found = await entities.new_entity(
            unit,
            RESOURCE,
            scope,
            {"identifier": identifier, "name": "Management API"},
            owner_type=OwnerType.PLATFORM,
            description="Manages this organization and its zones",
        )
        await storage.insert(unit.conn, RESOURCE, found)
    return found
