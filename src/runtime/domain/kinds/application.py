"""Applications, and the credentials they authenticate with: their members.

Types of members are in `values`, what else is known of a member in `marks`. Bodies are checked by
`contract.bodies`, rules across members by `services.management.zones.applications`.
"""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import field_validator

from runtime.domain.kinds.base import Kind, Listing, PageShape, SharedHandle, ZoneEntity
from runtime.domain.kinds.marks import Embed, Example, Mark, Ref
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.queries import Query, values_of
from runtime.domain.kinds.values import (
    ApplicationTrait,
    Consent,
    CredentialType,
    Description,
    Email,
    Id,
    Identifier,
    Metadata,
    Name,
    NonEmpty,
    OwnerType,
    Part,
    Slug,
    Timestamp,
    Uri,
)
from runtime.domain.kinds.zone import ZONE

ANY_SUBJECT = "*"  # the identifier of a `token` credential without a subject
MAX_SECRETS = 2  # password credentials with the same client id: the one in use, and its successor


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
    """A client of the zone: a web or native application, an agent, a tool server.

    `accountable_user_id` or `accountable_group_id` names who answers for it; not both. The zone setting
    `require_active_accountable` ends applications whose user is not active, or whose group has no active
    member. The id stays when the user or the group is deleted. `suspended` says that it is ended by that.
    """

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
    # The address of a user who has not signed in yet stands in place of an id, as in role assignments.
    accountable_user_id: Annotated[Id | None, Ref("User", lasting=True), Mark.API_ONLY] = None
    accountable_group_id: Annotated[Id | None, Ref("Group", lasting=True)] = None
    suspended: Annotated[bool, Mark.DERIVED] = False
    dependencies: Annotated[list[DependencyInput] | None, Mark.INPUT] = None


class ApplicationRelations(Part):
    """What a manifest of an application has besides: resources it depends on, and its accountable user.

    The user is named by e-mail address, known to the zone yet or not.
    """

    dependencies: Annotated[list[Id], Mark.SET, Ref("Resource", late=True)] = []
    accountable_user: Email | None = None


class ApplicationCredential(ZoneEntity):
    """A credential of an application at the token endpoint; its variants are told apart by `type`.

    Attributes:
        last_used_at: when it last authenticated a request, within a minute; None for what proves nothing.
        slot: 1 for the second of two password credentials with the same client id, else 0.
    """

    application_id: Annotated[Id, Mark.FIXED, Ref("Application")]
    application: Annotated[Application | None, Mark.DERIVED, Embed("application_id")] = None
    slug: Annotated[Slug, Mark.SERVER, Mark.UNIQUE]
    last_used_at: Annotated[Timestamp | None, Mark.SERVER] = None
    secret_hash: Annotated[bytes | None, Mark.INTERNAL] = None
    slot: Annotated[int, Mark.INTERNAL] = 0


class PasswordCredential(ApplicationCredential):
    """A client id, and a client secret that the service generates and shows once.

    Two credentials of one application may have the same client id, so that a new secret is in use before the
    old one stops working: at `expires_at`, or when its credential is deleted.
    """

    type: Annotated[Literal[CredentialType.PASSWORD], Mark.FIXED] = CredentialType.PASSWORD
    identifier: Annotated[Identifier, Mark.FIXED, Mark.HANDLE, Mark.MADE]
    expires_at: Annotated[Timestamp | None, Mark.EXPIRY, Example("2100-01-01T00:00:00Z")] = None

    def has_expired(self, now: datetime) -> bool:
        """Tell whether its secret no longer authenticates."""
        return self.expires_at is not None and self.expires_at <= now


class PasswordCredentialCreated(PasswordCredential):
    """A new password credential, with its password, which no other response has."""

    password: Annotated[str, Example("the-secret-shown-once")]


class PublicCredential(ApplicationCredential):
    """A client id alone, for applications that cannot keep a secret."""

    type: Annotated[Literal[CredentialType.PUBLIC], Mark.FIXED] = CredentialType.PUBLIC
    identifier: Annotated[Identifier, Mark.HANDLE, Mark.MADE]


class TokenCredential(ApplicationCredential):
    """A workload identity: tokens that a provider issues for one subject, or without a `subject` for any.

    Any subject may be every customer of a provider that many share, so answers say it: `any_subject` is true
    without a `subject`. A manifest has to say it, too.
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
            raise ValueError("must not be `*`; leave it out to accept any subject")
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
    extras=ApplicationRelations,
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
    handle_shared=SharedHandle("password", within="application_id", most=MAX_SECRETS, slot="slot"),
)
