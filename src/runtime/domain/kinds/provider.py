"""Providers: identity providers that sign users in, and issuers of tokens for resources."""

from typing import Annotated, Any

from pydantic import Field, model_validator

from runtime.domain.kinds.base import Kind, Listing, PageShape, ZoneEntity
from runtime.domain.kinds.marks import BoundTo, Mark
from runtime.domain.kinds.values import (
    Description,
    Identifier,
    Name,
    NonEmpty,
    OwnerType,
    Part,
    ProviderType,
    Slug,
    Uri,
)
from runtime.domain.kinds.zone import ZONE


class ProviderMetadata(Part):
    """What is shown beside a provider's name."""

    icon_url: Uri | None = None


class ProviderOAuth2(Part):
    """How to talk OAuth to an external provider; addresses given here come before discovered ones."""

    issuer: Annotated[Uri, Mark.MADE, Field(json_schema_extra={"x-default-from": "identifier"})]
    authorization_endpoint: Uri | None = None
    authorization_parameters: dict[str, str] | None = None
    authorization_resource_enabled: bool | None = None
    authorization_resource_parameter: NonEmpty | None = None
    code_challenge_methods_supported: Annotated[list[str] | None, Mark.SET] = None
    jwks_uri: Uri | None = None
    registration_endpoint: Uri | None = None
    scope_parameter: NonEmpty | None = None
    scope_separator: str | None = None
    scopes_supported: Annotated[list[str] | None, Mark.SET] = None
    token_endpoint: Uri | None = None
    token_response_access_token_pointer: NonEmpty | None = None


class ProviderOpenID(Part):
    """How to read an external provider's ID tokens."""

    external_id_claim: NonEmpty | None = None
    scopes: Annotated[list[str] | None, Mark.SET] = None
    single_logout_enabled: bool | None = None
    user_identifier_claim: NonEmpty | None = None
    userinfo_endpoint: Uri | None = None


class ProviderProtocols(Part):
    """What an external provider speaks."""

    oauth2: ProviderOAuth2 | None = None
    openid: ProviderOpenID | None = None


# Where a client secret goes, and whose word counts about who it is that takes it there.
_ADDRESSES = BoundTo(
    (
        ("protocols.oauth2.issuer", "identifier"),
        ("protocols.oauth2.token_endpoint",),
        ("protocols.oauth2.jwks_uri",),
    )
)


class Provider(ZoneEntity):
    """Signs a zone's users in, or issues the tokens a resource accepts."""

    identifier: Annotated[Identifier, Mark.HANDLE]
    name: Name
    slug: Annotated[Slug, Mark.SERVER, Mark.UNIQUE]
    owner_type: Annotated[OwnerType, Mark.SERVER] = OwnerType.CUSTOMER
    type: Annotated[ProviderType, Mark.SERVER] = ProviderType.EXTERNAL
    client_id: NonEmpty | None = None
    client_secret: Annotated[bytes | None, Mark.SEALED, _ADDRESSES] = None
    description: Description | None = None
    metadata: ProviderMetadata | None = None
    protocols: ProviderProtocols | None = None

    @model_validator(mode="before")
    @classmethod
    def _issuer_from_identifier(cls, values: Any) -> Any:
        """`protocols.oauth2.issuer` defaults to the identifier. Spec: `ProviderOAuth2.issuer`."""
        protocols = values.get("protocols") if isinstance(values, dict) else None
        oauth2 = protocols.get("oauth2") if isinstance(protocols, dict) else None
        if isinstance(oauth2, dict) and oauth2.get("issuer") is None and "identifier" in values:
            completed = {**oauth2, "issuer": values["identifier"]}
            return {**values, "protocols": {**values["protocols"], "oauth2": completed}}
        return values


PROVIDER = Kind(
    entity=Provider,
    collection="providers",
    operations="providers",
    parent=ZONE,
    listing=Listing(
        envelope=PageShape.ZONE_FULL,
        filters=("id", "identifier", "slug", "type"),
        plain={"identifier": "identifier", "slug": "slug", "type": "type"},
        search=("identifier", "name"),
        sorts=("created_at", "name", "identifier"),
        cursor=True,
    ),
    manifest=True,
)
