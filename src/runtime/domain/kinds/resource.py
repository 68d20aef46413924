"""Resources: the protected resources that access tokens are issued for."""

from typing import Annotated

from pydantic import Field

from runtime.domain.identifiers import example_id
from runtime.domain.kinds.application import Application
from runtime.domain.kinds.base import Kind, Listing, PageShape, ZoneEntity
from runtime.domain.kinds.marks import Embed, Example, Mark, Ref
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.queries import Query
from runtime.domain.kinds.values import (
    ApplicationType,
    Description,
    Id,
    Identifier,
    Metadata,
    Name,
    OwnerType,
    Scopes,
    Slug,
)
from runtime.domain.kinds.zone import ZONE


class Resource(ZoneEntity):
    """An API or tool server that accepts access tokens. Its identifier is the `aud` of those tokens."""

    identifier: Annotated[Identifier, Mark.HANDLE, Example("https://calendar.acme.example/v1")]
    name: Annotated[Name, Example("Calendar API")]
    slug: Annotated[Slug, Mark.SERVER, Mark.UNIQUE, Example("calendar-api")]
    owner_type: Annotated[OwnerType, Mark.SERVER] = OwnerType.CUSTOMER
    application: Annotated[Application | None, Mark.DERIVED, Embed("application_id")] = None
    application_id: Annotated[Id | None, Ref("Application")] = None
    application_type: ApplicationType = ApplicationType.WEB
    credential_lifetime_seconds: Annotated[
        Annotated[int, Field(ge=1, le=31_536_000)] | None, Example(3600)
    ] = None
    credential_provider: Annotated[Provider | None, Mark.DERIVED, Embed("credential_provider_id")] = None
    credential_provider_id: Annotated[
        Id | None, Ref("Provider", deleted="deleted_credential_provider_id")
    ] = None
    # Whoever had chosen a provider has not chosen that the zone issues the tokens once it is deleted.
    deleted_credential_provider_id: Annotated[Id | None, Mark.INTERNAL] = None
    description: Annotated[Description | None, Example("Everybody's calendar")] = None
    metadata: Metadata | None = None
    prefix: bool = False
    scopes: Annotated[Scopes | None, Mark.SET] = None
    when_accessing: Annotated[list[Id] | None, Mark.DERIVED, Example([example_id("Resource")])] = None


RESOURCE = Kind(
    entity=Resource,
    collection="resources",
    operations="resources",
    parent=ZONE,
    listing=Listing(
        envelope=PageShape.ZONE,
        filters=("id", "identifier", "slug", "owner_type"),
        plain={"identifier": "identifier", "slug": "slug", "credentialProviderId": "credential_provider_id"},
        search=("identifier", "name"),
        sorts=("created_at", "name", "identifier"),
        cursor=True,
        single=("owner_type",),
        more=(
            Query(
                "filter[traits]",
                many=True,
                about="traits of the providing application: all of one value (commas), any of repeated ones",
            ),
        ),
    ),
    manifest=True,
    has_secrets=True,
    indexes=(("credential_lifetime_seconds",),),
)
