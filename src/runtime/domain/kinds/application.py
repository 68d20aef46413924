"""Applications, and the credentials they authenticate with."""

from typing import Annotated, Literal

from pydantic import field_validator

from runtime.domain.kinds.base import Kind, Listing, PageShape, ZoneEntity
from runtime.domain.kinds.marks import Embed, Example, Mark, Ref
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.queries import Query, values_of
from runtime.domain.kinds.values import (
    ApplicationTrait,
    Consent,
    CredentialType,
    Description,
    Id,
    Identifier,
    Metadata,
    Name,
    NonEmpty,
    OwnerType,
    Part,
    Slug,
    Uri,
)
from runtime.domain.kinds.zone import ZONE

ANY_SUBJECT = "*"  # the identifier of a `token` credential without a subject


class ApplicationOAuth2(Part):
    """The redirect URIs of an application, and where it receives back-channel logout tokens.

    `backchannel_logout_session_required` says that a logout token must have a `sid`; here each has one.
    Spec: OpenID Connect Back-Channel Logout section 2.2 for what the interface has no member for.
    """

    backchannel_logout_session_required: bool | None = None
    backchannel_logout_uri: Uri | None = None
    post_logout_redirect_uris: Annotated[list[Uri] | None, Mark.SET] = None
    redirect_uris: Annotated[
        list[Uri] | None, Mark.SET, Example(["https://calendar.acme.example/callback"])
    ] = None


class ApplicationProtocols(Part):
    """The protocol settings of an application."""

    oauth2: ApplicationOAuth2 | None = None


class DependencyInput(Part):
    """A resource that the new application depends on. `type` is accepted and not stored."""

    id: Annotated[Id, Ref("Resource")]
    type: str | None = None


class Application(ZoneEntity):
    """A client of the zone: a web or native application, an agent, a tool server."""

    identifier: Annotated[Identifier, Mark.HANDLE, Mark.SUBJECT]
    name: Name
    slug: Annotated[Slug, Mark.SERVER, Mark.UNIQUE]
    owner_type: Annotated[OwnerType, Mark.SERVER] = OwnerType.CUSTOMER
    consent: Consent = Consent.REQUIRED
    dependencies_count: Annotated[int, Mark.DERIVED] = 0
    description: Description | None = None
    metadata: Metadata | None = None
    protocols: ApplicationProtocols | None = None
    traits: Annotated[list[ApplicationTrait] | None, Mark.SET, Example(["mcp-server"])] = None
    dependencies: Annotated[list[DependencyInput] | None, Mark.INPUT] = None


class ApplicationLists(Part):
    """What a manifest of an application has besides: the resources it depends on."""

    dependencies: Annotated[list[Id], Mark.SET, Ref("Resource", late=True)] = []


class ApplicationCredential(ZoneEntity):
    """A credential of an application at the token endpoint; its variants are told apart by `type`."""

    application_id: Annotated[Id, Mark.FIXED, Ref("Application")]
    application: Annotated[Application | None, Mark.DERIVED, Embed("application_id")] = None
    slug: Annotated[Slug, Mark.SERVER, Mark.UNIQUE]
    secret_hash: Annotated[bytes | None, Mark.INTERNAL] = None


class PasswordCredential(ApplicationCredential):
    """A client id, and a client secret that the service generates and shows once."""

    type: Annotated[Literal[CredentialType.PASSWORD], Mark.FIXED] = CredentialType.PASSWORD
    identifier: Annotated[Identifier, Mark.FIXED, Mark.HANDLE, Mark.MADE]


class PasswordCredentialCreated(PasswordCredential):
    """A new password credential, with its password, which no other response has."""

    password: Annotated[str, Example("the-secret-shown-once")]


class PublicCredential(ApplicationCredential):
    """A client id alone, for applications that cannot keep a secret."""

    type: Annotated[Literal[CredentialType.PUBLIC], Mark.FIXED] = CredentialType.PUBLIC
    identifier: Annotated[Identifier, Mark.HANDLE, Mark.MADE]


class TokenCredential(ApplicationCredential):
    """A workload identity: tokens that a provider issues for one subject, or for any.

    Any subject may be every customer of a provider that many share, so that has to be said: `any_subject`.
    """

    type: Annotated[Literal[CredentialType.TOKEN], Mark.FIXED] = CredentialType.TOKEN
    identifier: Annotated[Identifier, Mark.SERVER, Mark.HANDLE]  # the subject, or `*`
    provider_id: Annotated[Id, Mark.FIXED, Ref("Provider")]
    provider: Annotated[Provider | None, Mark.DERIVED, Embed("provider_id")] = None
    subject: Annotated[NonEmpty | None, Example("ada")] = None
    any_subject: bool | None = None

    @field_validator("subject")
    @classmethod
    def _no_wildcard(cls, subject: str | None) -> str | None:
        if subject == ANY_SUBJECT:
            raise ValueError("must not be `*`; leave it out and set `any_subject` to true")
        return subject


class PublicKeyCredential(ApplicationCredential):
    """A client id, and the URL of the public keys that verify its assertions (`private_key_jwt`)."""

    type: Annotated[Literal[CredentialType.PUBLIC_KEY], Mark.FIXED] = CredentialType.PUBLIC_KEY
    identifier: Annotated[Identifier, Mark.FIXED, Mark.HANDLE, Mark.MADE]
    jwks_uri: Annotated[Uri, Mark.FIXED]


class UrlCredential(ApplicationCredential):
    """A client id that is the URL of a client ID metadata document."""

    type: Annotated[Literal[CredentialType.URL], Mark.FIXED] = CredentialType.URL
    identifier: Annotated[Uri, Mark.HANDLE, Example("https://calendar.acme.example")]


APPLICATION = Kind(
    entity=Application,
    collection="applications",
    operations="applications",
    parent=ZONE,
    listing=Listing(
        envelope=PageShape.ZONE_FULL,
        filters=("id", "identifier", "slug"),
        plain={"identifier": "identifier", "slug": "slug"},
        search=("identifier", "name"),
        sorts=("created_at", "name", "identifier"),
        cursor=True,
        more=(
            Query("traits", many=True, values=values_of(ApplicationTrait), about="has any of these traits"),
            Query(
                "traits[all]", many=True, values=values_of(ApplicationTrait), about="has all of these traits"
            ),
        ),
    ),
    manifest=True,
    extras=ApplicationLists,
    has_secrets=True,
)

APPLICATION_CREDENTIAL = Kind(
    entity=ApplicationCredential,
    collection="application-credentials",
    operations="application_credentials",
    parent=ZONE,
    created_as=(
        PasswordCredentialCreated,
        PublicCredential,
        TokenCredential,
        PublicKeyCredential,
        UrlCredential,
    ),
    variants=(PasswordCredential, PublicCredential, TokenCredential, PublicKeyCredential, UrlCredential),
    listing=Listing(
        envelope=PageShape.ZONE_FULL,
        plain={"applicationId": "application_id", "application_id": "application_id", "slug": "slug"},
        cursor=True,
    ),
    manifest=True,
    handle_beside=("token", "provider_id"),
)
