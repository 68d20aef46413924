"""User agents: dynamically registered clients and clients of metadata documents; they act for users only."""

from enum import StrEnum
from typing import Annotated, Any

from runtime.domain.kinds.base import Kind, Listing, PageShape, Verb, ZoneEntity
from runtime.domain.kinds.marks import Mark
from runtime.domain.kinds.values import ApplicationType, Identifier, Name, Part, Slug, Timestamp
from runtime.domain.kinds.zone import ZONE


class Registration(StrEnum):
    """How a client came to be known; policies see it as `context.registration`."""

    MANAGED = "managed"
    DYNAMIC = "dynamic"
    METADATA_DOCUMENT = "metadata-document"


class ClientMetadata(Part):
    """What a client says of itself, as far as it counts here. Spec: RFC 7591 section 2.

    Attributes:
        token_endpoint_auth_method: `none`, or `private_key_jwt` with the keys of `jwks_uri` or `jwks`.
        id_token_signed_response_alg: what its ID tokens and logout tokens are signed with; None for RS256.
        backchannel_logout_uri: where it is told that a session has ended.
        backchannel_logout_session_required: that it must be told which one; it always is.
        logo_uri, client_uri, policy_uri, tos_uri: repeated in answers; no page of ours loads them.
    """

    redirect_uris: list[str]
    client_name: str | None = None
    application_type: ApplicationType = ApplicationType.WEB
    grant_types: list[str] = ["authorization_code", "refresh_token"]
    response_types: list[str] = ["code"]
    token_endpoint_auth_method: str = "none"
    id_token_signed_response_alg: str | None = None
    scope: str | None = None
    client_uri: str | None = None
    logo_uri: str | None = None
    policy_uri: str | None = None
    tos_uri: str | None = None
    contacts: list[str] | None = None
    software_id: str | None = None
    software_version: str | None = None
    jwks_uri: str | None = None
    jwks: dict[str, Any] | None = None
    post_logout_redirect_uris: list[str] | None = None
    backchannel_logout_uri: str | None = None
    backchannel_logout_session_required: bool | None = None


class UserAgent(ZoneEntity):
    """A client that registered itself: a desktop application, a command line tool, an agent."""

    # The client id: `ua:` and the hash of its metadata, or the address of its metadata document.
    identifier: Annotated[Identifier, Mark.SERVER, Mark.HANDLE]
    name: Annotated[Name, Mark.SERVER]
    slug: Annotated[Slug, Mark.SERVER, Mark.UNIQUE]
    registration: Annotated[Registration, Mark.INTERNAL]
    client_metadata: Annotated[ClientMetadata, Mark.INTERNAL]
    used_at: Annotated[Timestamp, Mark.INTERNAL]  # to the day: whoever is unused for long is forgotten
    fresh_until: Annotated[Timestamp | None, Mark.INTERNAL] = None  # of a metadata document


USER_AGENT = Kind(
    entity=UserAgent,
    collection="user-agents",
    operations="user_agents",
    parent=ZONE,
    verbs=frozenset({Verb.LIST, Verb.RETRIEVE}),
    listing=Listing(envelope=PageShape.ZONE),
)
