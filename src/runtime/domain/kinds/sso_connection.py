"""SSO connections: at which provider an organization's people sign in.

Kept as a provider of the organization's home zone, so it is in no table and in no list of kinds:
`provider_of` and `connection_of` are the way there and back.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from runtime.domain.kinds.base import PERMISSIONS, Kind, OrganizationEntity
from runtime.domain.kinds.marks import Example, Mark
from runtime.domain.kinds.organization import ORGANIZATION
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.values import NonEmpty, Part, Uri, WrittenScopes


class SSOConnectionOAuth2(Part):
    """The OAuth settings of the provider; endpoints given here override discovered ones.

    Attributes:
        distinct_redirect_uri: requests to the provider have a redirect URI of their own, the home zone's with
            `?answered_by=` and the id of the connection, and an answer that comes to another one is refused.
            For a provider without `iss` in its answers (RFC 9207): otherwise another provider of the home
            zone can have the user answered there, and receives the code (RFC 9700 section 4.4). Register it
            at the provider in place of the zone's. Default: false.
    """

    authorization_endpoint: Uri | None = None
    authorization_parameters: Annotated[dict[str, str] | None, Example({"prompt": "select_account"})] = None
    code_challenge_methods_supported: Annotated[list[str] | None, Mark.SET, Example(["S256"])] = None
    distinct_redirect_uri: bool | None = None
    jwks_uri: Uri | None = None
    registration_endpoint: Uri | None = None
    scopes_supported: Annotated[WrittenScopes | None, Mark.SET, Example(["openid", "email"])] = None
    token_endpoint: Uri | None = None


class SSOConnectionOpenID(Part):
    """How to interpret the provider's ID tokens. `scopes` are requested beside openid, profile and email."""

    external_id_claim: Annotated[NonEmpty | None, Example("sub")] = None
    scopes: Annotated[WrittenScopes | None, Mark.SET, Example(["calendar.use"])] = None
    user_identifier_claim: NonEmpty | None = None
    userinfo_endpoint: Uri | None = None


class SSOConnectionProtocol(Part):
    """The protocol settings of the provider."""

    oauth2: SSOConnectionOAuth2 | None = None
    openid: SSOConnectionOpenID | None = None


class SSOConnection(OrganizationEntity):
    """The identity provider of an organization's users. `identifier` is its issuer."""

    client_id: NonEmpty | None
    client_secret: Annotated[bytes | None, Mark.SEALED] = None
    identifier: Annotated[Uri, Example("https://calendar.acme.example")]
    protocols: SSOConnectionProtocol | None = None
    permissions: PERMISSIONS = None


SSO_CONNECTION = Kind(
    entity=SSOConnection,
    collection="sso-connection",
    operations="sso_connection",
    parent=ORGANIZATION,
    verbs=frozenset(),
    created=201,
)


def provider_of(connection: Mapping[str, Any]) -> dict[str, Any]:
    """What a provider's members are for those of a connection: its identifier is the issuer too."""
    members = {name: connection[name] for name in ("client_id", "identifier") if name in connection}
    protocols = connection.get("protocols")
    if isinstance(protocols, Mapping) and isinstance(protocols.get("oauth2"), Mapping):
        oauth2 = {**protocols["oauth2"], "issuer": connection["identifier"]}
        protocols = {**protocols, "oauth2": oauth2}
    return {**members, "protocols": protocols, "client_secret": connection.get("client_secret")}


def connection_of(provider: Provider) -> SSOConnection:
    """The connection that a provider is kept for."""
    protocols = provider.protocols.model_dump() if provider.protocols else None
    if protocols is not None:
        for name, part in (("oauth2", SSOConnectionOAuth2), ("openid", SSOConnectionOpenID)):
            if protocols[name] is not None:
                protocols[name] = {member: protocols[name][member] for member in part.model_fields}
    return SSOConnection(
        id=provider.id,
        organization_id=provider.organization_id,
        created_at=provider.created_at,
        updated_at=provider.updated_at,
        revision=provider.revision,
        client_id=provider.client_id,
        client_secret=provider.client_secret,
        identifier=provider.identifier,
        protocols=SSOConnectionProtocol.model_validate(protocols) if protocols else None,
    )
