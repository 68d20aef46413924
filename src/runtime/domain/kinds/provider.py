"""Providers: identity providers that sign users in, and issuers of tokens for resources."""

import re
from typing import Annotated, Any

from pydantic import Field, StringConstraints, model_validator

from runtime.domain.kinds.base import Kind, Listing, PageShape, ZoneEntity
from runtime.domain.kinds.marks import BoundTo, Example, Mark
from runtime.domain.kinds.values import (
    Description,
    Identifier,
    Name,
    NonEmpty,
    OwnerType,
    Part,
    ProviderType,
    Slug,
    TokenEndpointAuthMethod,
    TokenRequestFormat,
    Uri,
    WrittenScopes,
)
from runtime.domain.kinds.zone import ZONE


class ProviderMetadata(Part):
    """Links and an icon shown with a provider's name."""

    icon_url: Uri | None = None


# An error code of RFC 6749 section 5.2.
ErrorCode = Annotated[str, StringConstraints(pattern=r"^[\x21\x23-\x5b\x5d-\x7e]{1,128}$")]
PromptValue = Annotated[str, StringConstraints(pattern=r"^[!-~]{1,64}$")]
HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9-]{0,63}$")]
HeaderValue = Annotated[
    str, StringConstraints(max_length=256, pattern=r"^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$")
]
_MAX_LIFETIME_SECONDS = 10 * 366 * 86_400
_OTHER_TOKENS = frozenset({"refreshtoken", "idtoken"})


def leads_to_other_token(pointer: str) -> bool:
    """Tell whether a pointer's last step is `refresh_token` or `id_token`, which no application receives.

    Case and separators do not count: `refreshToken` is one, too.
    """
    last = re.split(r"[./]", pointer)[-1]
    return re.sub(r"[^a-z]", "", last.casefold()) in _OTHER_TOKENS


class ProviderOAuth2(Part):
    """The OAuth settings of an external provider; endpoints given here override discovered ones.

    Attributes:
        issuer: the provider's issuer identifier; its metadata is discovered there (RFC 8414, OpenID Connect
            Discovery). Default: the provider's `identifier`.
        authorization_endpoint: where browsers are sent; without it as discovered.
        authorization_parameters: further query parameters of every authorization request, such as
            `access_type: offline`. They replace no parameter of the request itself.
        authorization_resource_enabled: send the resource's identifier with authorization requests and token
            requests for a connected account (RFC 8707). Default: false.
        authorization_resource_parameter: the parameter that carries the resource. Default: `resource`.
        code_challenge_methods_supported: PKCE methods of the provider (RFC 7636); a list without `S256` turns
            PKCE off, and no list leaves it on.
        distinct_redirect_uri: requests to this provider have a redirect URI of their own, the zone's with
            `?answered_by=` and the provider's id, and an answer that comes to another one is refused. For a
            provider without `iss` in its answers (RFC 9207) beside others of the zone: otherwise one of these
            can have the user answered there, and receives the code (RFC 9700 section 4.4). Register it at the
            provider in place of the zone's. Default: false.
        jwks_uri: the keys of the provider's ID tokens; without it as discovered.
        prompt_values_supported: values of `prompt` that the provider knows; else those of its metadata, and
            any where that has none either (Initiating User Registration via OpenID Connect).
        registration_endpoint: stored for reference; the zone does not register itself.
        revocation_endpoint: where tokens are revoked (RFC 7009); without it as discovered.
        scope_parameter: the parameter of authorization requests that carries the scopes. Default: `scope`.
        scope_separator: what stands between scopes. Default: a space (RFC 6749 section 3.3).
        scopes_supported: scopes of the provider, for reference.
        token_endpoint: where codes and refresh tokens are redeemed; without it as discovered.
        token_endpoint_auth_method: how the zone authenticates at the token and the revocation endpoint;
            without it `client_secret_basic`, or `client_secret_post` where metadata names that alone, and
            `none` where there is no secret. With `tls_client_auth` and `self_signed_tls_client_auth`
            (RFC 8705) the client secret is PEM text: a certificate, those that it was signed with, and its
            private key. The assertions of `private_key_jwt` and `client_secret_jwt`
            (HS256, with a secret of at least 32 bytes) have as `aud` the URL of the endpoint where that is
            configured here, and the issuer where the issuer's metadata names it.
        token_request_format: for providers whose token endpoint reads JSON.
        token_request_headers: sent with requests to the token and the revocation endpoint; those that carry
            credentials or describe the message (`Authorization`, `Content-Type`, ...) are not replaced.
        token_response_access_token_pointer: dot-separated path, or JSON Pointer, to the access token; default
            `access_token`. It cannot lead to a refresh token or an ID token. `refresh_token`, `expires_in`,
            and `scope` are read beside it.
        token_response_dead_grant_errors: error codes that mean what `invalid_grant` does: the user has to
            authorize again.
        token_response_default_expires_in_seconds: lifetime of an access token whose answer has no
            `expires_in`; without it such a token is returned until the user disconnects the account: the
            zone does not learn that the provider has revoked it.
        token_response_error_pointer: dot-separated path to the error code; default `error`.
    """

    issuer: Annotated[
        Uri,
        Mark.MADE,
        Field(json_schema_extra={"x-default-from": "identifier"}),
        Example("https://acme.zones.example"),
    ]
    authorization_endpoint: Uri | None = None
    authorization_parameters: Annotated[dict[str, str] | None, Example({"prompt": "select_account"})] = None
    authorization_resource_enabled: bool | None = None
    authorization_resource_parameter: NonEmpty | None = None
    code_challenge_methods_supported: Annotated[list[str] | None, Mark.SET, Example(["S256"])] = None
    distinct_redirect_uri: bool | None = None
    jwks_uri: Uri | None = None
    prompt_values_supported: Annotated[list[PromptValue] | None, Mark.SET, Example(["none", "login"])] = None
    registration_endpoint: Uri | None = None
    revocation_endpoint: Uri | None = None
    scope_parameter: Annotated[NonEmpty | None, Example("scope")] = None
    scope_separator: Annotated[str | None, Example(" ")] = None
    scopes_supported: Annotated[WrittenScopes | None, Mark.SET, Example(["openid", "email"])] = None
    token_endpoint: Uri | None = None
    token_endpoint_auth_method: TokenEndpointAuthMethod | None = None
    token_request_format: TokenRequestFormat | None = None
    token_request_headers: dict[HeaderName, HeaderValue] | None = None
    token_response_access_token_pointer: NonEmpty | None = None
    token_response_dead_grant_errors: Annotated[list[ErrorCode] | None, Mark.SET] = None
    token_response_default_expires_in_seconds: (
        Annotated[int, Field(ge=1, le=_MAX_LIFETIME_SECONDS)] | None
    ) = None
    token_response_error_pointer: NonEmpty | None = None


class ProviderOpenID(Part):
    """How to interpret an external provider's ID tokens.

    Attributes:
        external_id_claim: the claim that identifies a user at the provider, for signing in and for accounts
            that an external directory has created. Default: `sub`.
        scopes: requested at sign-in beside `openid`, `profile` and `email`.
        single_logout_enabled: who signs out of the zone signs out of the provider, too. Default: false.
        user_identifier_claim: the claim that a new user's identifier, which is `sub` of the zone's tokens, is
            taken from; without it the id of the user in the zone.
        userinfo_endpoint: where claims are read that the ID token does not have; without it as discovered.
    """

    external_id_claim: Annotated[NonEmpty | None, Example("sub")] = None
    scopes: Annotated[WrittenScopes | None, Mark.SET, Example(["calendar.use"])] = None
    single_logout_enabled: bool | None = None
    user_identifier_claim: NonEmpty | None = None
    userinfo_endpoint: Uri | None = None


class ProviderProtocols(Part):
    """The protocol settings of an external provider."""

    oauth2: ProviderOAuth2 | None = None
    openid: ProviderOpenID | None = None


# Where a client secret goes, and whose word counts about who it is that takes it there.
_ADDRESSES = BoundTo(
    (
        ("protocols.oauth2.issuer", "identifier"),
        ("protocols.oauth2.token_endpoint",),
        ("protocols.oauth2.jwks_uri",),
        ("protocols.oauth2.revocation_endpoint",),
    ),
    added=1,
)


class Provider(ZoneEntity):
    """An identity provider of a zone's users, or the issuer of the tokens that a resource accepts.

    Attributes:
        identifier: the provider's issuer identifier, or another URL that names it; unique within the zone.
        client_id: of the zone, as the provider knows it.
        client_secret: of the zone at the provider; none for a public client or `private_key_jwt`.
    """

    identifier: Annotated[Identifier, Mark.HANDLE, Example("https://login.acme.example")]
    name: Annotated[Name, Example("Acme login")]
    slug: Annotated[Slug, Mark.SERVER, Mark.UNIQUE, Example("acme-login")]
    owner_type: Annotated[OwnerType, Mark.SERVER] = OwnerType.CUSTOMER
    type: Annotated[ProviderType, Mark.SERVER] = ProviderType.EXTERNAL
    client_id: NonEmpty | None = None
    client_secret: Annotated[bytes | None, Mark.SEALED, _ADDRESSES] = None
    description: Annotated[Description | None, Example("Where employees sign in")] = None
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
    has_secrets=True,
)
