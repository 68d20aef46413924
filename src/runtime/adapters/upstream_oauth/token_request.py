"""Token requests: code redemption (RFC 6749 section 4.1.3), refresh (section 6), and how they are encoded."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

from runtime.adapters.client_certificates import ClientCertificate
from runtime.adapters.identity_providers.settings import ProviderSettings
from runtime.adapters.upstream_oauth.client_authentication import ClientAuthentication
from runtime.domain.kinds.values import TokenRequestFormat

# Headers that describe the message, its connection, or who sends it: `token_request_headers` sets none.
_PROTECTED_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "cookie",
        "dpop",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
    }
)
_PROTECTED_PREFIXES = ("content-", "proxy-")


@dataclass(frozen=True, slots=True)
class EncodedRequest:
    """A POST request to a provider's endpoint."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    certificate: ClientCertificate | None = None


def code_redemption(
    settings: ProviderSettings,
    *,
    code: str,
    redirect_uri: str,
    code_verifier: str | None,
    resource: str | None = None,
) -> dict[str, str]:
    """The members of a request that redeems an authorization code.

    Args:
        code_verifier: None when the authorization request had no challenge.
        resource: sent when the provider is configured to take one. Spec: RFC 8707 section 2.2.
    """
    fields = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri}
    if code_verifier is not None:
        fields["code_verifier"] = code_verifier
    return {**_resource(settings, resource), **fields}


def refresh(settings: ProviderSettings, *, refresh_token: str, resource: str | None = None) -> dict[str, str]:
    """The members of a refresh request. No scope: what was granted is refreshed as it is."""
    return {
        **_resource(settings, resource),
        "grant_type": "refresh_token",
        "refresh_token": refresh_token,
    }


def encoded(
    settings: ProviderSettings, url: str, fields: Mapping[str, str], authentication: ClientAuthentication
) -> EncodedRequest:
    """The request with client authentication, in the format that the provider reads."""
    members = {**fields, **authentication.fields}
    if settings.token_request_format is TokenRequestFormat.JSON:
        body, content_type = json.dumps(members).encode("ascii"), "application/json"
    else:
        body, content_type = urlencode(members).encode("ascii"), "application/x-www-form-urlencoded"
    headers = {name.lower(): value for name, value in settings.token_request_headers.items()}
    return EncodedRequest(
        url,
        {
            **{name: value for name, value in headers.items() if not _is_protected(name)},
            "content-type": content_type,
            **authentication.headers,
        },
        body,
        authentication.certificate,
    )


def _is_protected(header: str) -> bool:
    return header in _PROTECTED_HEADERS or header.startswith(_PROTECTED_PREFIXES)


def _resource(settings: ProviderSettings, resource: str | None) -> dict[str, str]:
    if resource is None or not settings.authorization_resource_enabled:
        return {}
    return {settings.authorization_resource_parameter: resource}
