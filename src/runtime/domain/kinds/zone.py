"""Zones: isolated authorization servers."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import StringConstraints, field_validator

from runtime.domain.kinds.base import PERMISSIONS, Entity, Kind, Listing, PageShape, Verb
from runtime.domain.kinds.marks import Example, Mark, Ref
from runtime.domain.kinds.values import Description, Id, Name, NonEmpty, OwnerType, Part, Slug, Uri
from runtime.domain.oauth.client_ids import allows, is_address, is_entry

# The addresses of a zone that other configuration may take: members and properties of `protocols.oauth2`.
ADDRESSES = (
    "issuer",
    "redirect_uri",
    "post_logout_redirect_uri",
    "backchannel_logout_uri",
    "token_endpoint",
    "authorization_endpoint",
    "jwks_uri",
)


class ZoneCimd(Part):
    """Client ID metadata documents: which unregistered clients are allowed."""

    allowed_client_ids: Annotated[
        list[NonEmpty], Mark.SET, Example(["https://*.agents.example/client.json"])
    ] = []
    enabled: bool = False

    @field_validator("allowed_client_ids")
    @classmethod
    def _one_wildcard(cls, entries: list[str]) -> list[str]:
        for entry in entries:
            if entry.count("*") > 1:
                raise ValueError(f"`{entry}` has more than one `*`")
            if not is_entry(entry):
                raise ValueError(
                    f"`{entry}` must be an https URL, an https origin with `*` as one label, or `*`"
                )
        return entries

    def admits(self, client_id: str) -> bool:
        """Tell whether the client may act here that the document at this address describes."""
        return self.enabled and is_address(client_id) and allows(self.allowed_client_ids, client_id)


class ZoneOAuth2(Part):
    """The OAuth settings of a zone, and its endpoints, which follow from its issuer.

    Attributes:
        strict_assertion_audience: take client assertions for the issuer alone; else for the token endpoint,
            too, which older clients write. Spec: draft-ietf-oauth-rfc7523bis.
    """

    authorization_endpoint: Annotated[Uri, Mark.SERVER]
    authorization_server_metadata: Annotated[Uri, Mark.SERVER]
    cimd: ZoneCimd = ZoneCimd()
    dcr_enabled: bool = True
    issuer: Annotated[Uri, Mark.SERVER, Example("https://acme.zones.example")]
    jwks_uri: Annotated[Uri, Mark.SERVER]
    pkce_required: bool = True
    redirect_uri: Annotated[Uri, Mark.SERVER]
    registration_endpoint: Annotated[Uri, Mark.SERVER]
    strict_assertion_audience: bool = True
    token_endpoint: Annotated[Uri, Mark.SERVER]

    @property
    def post_logout_redirect_uri(self) -> str:
        """Where the zone's provider sends a browser back to that has signed out there."""
        return f"{self.issuer}/openid/logout/callback"

    @property
    def backchannel_logout_uri(self) -> str:
        """Where the zone's provider says, server to server, that a session there has ended."""
        return f"{self.issuer}/openid/backchannel"


class ZoneOpenID(Part):
    """The OpenID Connect endpoints of a zone."""

    provider_configuration: Annotated[Uri, Mark.SERVER]
    userinfo_endpoint: Annotated[Uri, Mark.SERVER]


class ZoneProtocols(Part):
    """The protocols of a zone and their endpoints, as stored when the zone was created."""

    oauth2: ZoneOAuth2
    openid: Annotated[ZoneOpenID, Mark.SERVER]


# A key's own ARN, not an alias: that could be moved to another key, which nobody here has agreed to.
KMS_KEY_ARN = r"^arn:aws(-[a-z]+)*:kms:[a-z0-9-]{1,32}:[0-9]{12}:key/[A-Za-z0-9-]{1,64}$"


class EncryptionKeyAwsKmsConfig(Part):
    """A key of AWS KMS, of any account, that wraps the zone's data key in place of the service's."""

    arn: Annotated[
        str,
        StringConstraints(min_length=1, max_length=2048, pattern=KMS_KEY_ARN),
        Example("arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"),
    ]
    type: Literal["cloud"]

    @field_validator("type", mode="before")
    @classmethod
    def _vendor_spelling(cls, value: object) -> object:
        return "cloud" if value == "aws" else value


class Zone(Entity):
    """An isolated authorization server with its own users, keys, applications and policies."""

    organization_id: Annotated[Id, Mark.SERVER]
    name: Annotated[Name, Example("Acme product")]
    slug: Annotated[Slug, Mark.SERVER, Mark.HANDLE, Example("acme-product")]
    owner_type: Annotated[OwnerType, Mark.SERVER] = OwnerType.CUSTOMER
    protocols: ZoneProtocols
    description: Annotated[Description | None, Example("Everything the product team builds")] = None
    default_mcp_gateway_application_id: Annotated[Id | None, Ref("Application", late=True)] = None
    default_resource_id: Annotated[Id | None, Ref("Resource", late=True)] = None
    encryption_key: EncryptionKeyAwsKmsConfig | None = None
    external_sync_enabled: Annotated[bool, Mark.LATER] = False
    requires_invitation: bool = True
    user_identity_provider_id: Annotated[Id | None, Ref("Provider", late=True)] = None
    permissions: PERMISSIONS = None


class NewZone(Part):
    """What the body of a new zone has besides: an application to make with it, and whose the zone is."""

    default_mcp_gateway_application: bool | None = None
    organization_id: Id | None = None


ZONE = Kind(
    entity=Zone,
    collection="zones",
    operations="zones",
    parent=None,
    item="zoneId",
    listing=Listing(
        envelope=PageShape.ZONE_FULL,
        filters=("organization_id",),
        single=("organization_id",),
        plain={"slug": "slug"},
        cursor=True,
        expands=("total_count", "permissions"),
    ),
    manifest=True,
    inputs={Verb.CREATE: NewZone},
)


def addresses(issuer: str, origin: str, path: str) -> ZoneProtocols:
    """The protocols of a new zone with default settings.

    Args:
        issuer: the zone's issuer, `origin` + `path`, without a trailing slash.
        origin: scheme and host; discovery documents stand at `{origin}/.well-known/...{path}`.
        path: the issuer's path, empty when the zone has a host of its own.
    Spec: zone interface sections 1 and 2.
    """
    return ZoneProtocols(
        oauth2=ZoneOAuth2(
            authorization_endpoint=f"{issuer}/oauth/authorize",
            authorization_server_metadata=f"{origin}/.well-known/oauth-authorization-server{path}",
            issuer=issuer,
            jwks_uri=f"{issuer}/.well-known/jwks.json",
            redirect_uri=f"{issuer}/oauth/callback",
            registration_endpoint=f"{issuer}/oauth/register",
            token_endpoint=f"{issuer}/oauth/token",
        ),
        openid=ZoneOpenID(
            provider_configuration=f"{issuer}/.well-known/openid-configuration",
            userinfo_endpoint=f"{issuer}/openid/userinfo",
        ),
    )


def moved(zone: Zone, issuer: str) -> Zone:
    """The zone with another issuer, and all the addresses that follow from it; its settings stay."""
    parts = urlsplit(issuer)
    followed = addresses(issuer, f"{parts.scheme}://{parts.netloc}", parts.path)
    own = {name: getattr(zone.protocols.oauth2, name) for name in _SETTINGS}
    protocols = followed.model_copy(update={"oauth2": followed.oauth2.model_copy(update=own)})
    return zone.model_copy(update={"protocols": protocols})


_SETTINGS = ("cimd", "dcr_enabled", "pkce_required", "strict_assertion_audience")
