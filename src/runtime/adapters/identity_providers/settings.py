"""A provider's configuration with its defaults filled in."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from runtime.domain.kinds.provider import Provider, ProviderOAuth2, ProviderOpenID
from runtime.domain.kinds.values import TokenEndpointAuthMethod, TokenRequestFormat

_WITH_CERTIFICATE = (
    TokenEndpointAuthMethod.TLS_CLIENT_AUTH,
    TokenEndpointAuthMethod.SELF_SIGNED_TLS_CLIENT_AUTH,
)


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """How to talk to one provider.

    Attributes:
        partition: the zone whose provider this is: outbound requests are limited for each separately.
        code_challenge_methods_supported: None when nothing is configured; PKCE is left out where S256 is not
            among them.
        prompt_values_supported: None when nothing is configured.
        token_response_access_token_pointer: where the token endpoint's answer holds the access token.
        external_id_claim: the ID token claim that identifies a user at the provider.
        user_identifier_claim: the claim a new user's identifier in the zone is taken from; None for none.
    """

    issuer: str
    client_id: str | None
    client_secret: str | None = field(default=None, repr=False)
    partition: str = ""
    provider_id: str = ""
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    revocation_endpoint: str | None = None
    jwks_uri: str | None = None
    userinfo_endpoint: str | None = None
    authorization_parameters: Mapping[str, str] = field(default_factory=dict)
    authorization_resource_enabled: bool = False
    authorization_resource_parameter: str = "resource"
    code_challenge_methods_supported: tuple[str, ...] | None = None
    prompt_values_supported: tuple[str, ...] | None = None
    scope_parameter: str = "scope"
    scope_separator: str = " "
    token_endpoint_auth_method: TokenEndpointAuthMethod | None = None
    token_request_format: TokenRequestFormat = TokenRequestFormat.FORM
    token_request_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    token_response_access_token_pointer: str = "access_token"
    token_response_dead_grant_errors: frozenset[str] = frozenset()
    token_response_default_expires_in_seconds: int | None = None
    token_response_error_pointer: str = "error"
    openid_scopes: tuple[str, ...] = ()
    external_id_claim: str = "sub"
    user_identifier_claim: str | None = None

    @property
    def shows_certificate(self) -> bool:
        """Tell whether the zone authenticates with the certificate that its secret holds (RFC 8705)."""
        return self.token_endpoint_auth_method in _WITH_CERTIFICATE

    def is_complete(self, *, needs_keys: bool) -> bool:
        """Tell whether every address that is needed is configured, so that nothing has to be discovered."""
        addresses = self.authorization_endpoint and self.token_endpoint
        return bool(addresses and (self.jwks_uri or not needs_keys))


def settings_of(provider: Provider, *, client_secret: str | None) -> ProviderSettings:
    """The settings of a configured provider.

    Args:
        client_secret: opened; None for a public client.
    """
    protocols = provider.protocols
    # Not validated: an identifier that is no address is refused where it would be fetched.
    bare = ProviderOAuth2.model_construct(issuer=provider.identifier)
    oauth2 = (protocols.oauth2 if protocols else None) or bare
    openid = (protocols.openid if protocols else None) or ProviderOpenID()
    challenges, prompts = oauth2.code_challenge_methods_supported, oauth2.prompt_values_supported
    return ProviderSettings(
        issuer=oauth2.issuer,
        client_id=provider.client_id,
        client_secret=client_secret,
        partition=provider.zone_id,
        provider_id=provider.id,
        authorization_endpoint=oauth2.authorization_endpoint,
        token_endpoint=oauth2.token_endpoint,
        revocation_endpoint=oauth2.revocation_endpoint,
        jwks_uri=oauth2.jwks_uri,
        userinfo_endpoint=openid.userinfo_endpoint,
        authorization_parameters=dict(oauth2.authorization_parameters or {}),
        authorization_resource_enabled=bool(oauth2.authorization_resource_enabled),
        authorization_resource_parameter=oauth2.authorization_resource_parameter or "resource",
        code_challenge_methods_supported=None if challenges is None else tuple(challenges),
        prompt_values_supported=None if prompts is None else tuple(prompts),
        scope_parameter=oauth2.scope_parameter or "scope",
        scope_separator=oauth2.scope_separator or " ",
        token_endpoint_auth_method=oauth2.token_endpoint_auth_method,
        token_request_format=oauth2.token_request_format or TokenRequestFormat.FORM,
        token_request_headers=dict(oauth2.token_request_headers or {}),
        token_response_access_token_pointer=oauth2.token_response_access_token_pointer or "access_token",
        token_response_dead_grant_errors=frozenset(oauth2.token_response_dead_grant_errors or ()),
        token_response_default_expires_in_seconds=oauth2.token_response_default_expires_in_seconds,
        token_response_error_pointer=oauth2.token_response_error_pointer or "error",
        openid_scopes=tuple(openid.scopes or ()),
        external_id_claim=openid.external_id_claim or "sub",
        user_identifier_claim=openid.user_identifier_claim,
    )
