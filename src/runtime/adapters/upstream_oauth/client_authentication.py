"""Client authentication at a provider's endpoints (RFC 6749 section 2.3, RFC 7523 section 2.2, RFC 8705)."""

import base64
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote_plus, urlsplit

import jwt

from runtime.adapters.client_certificates import ClientCertificate, InvalidCertificate
from runtime.adapters.identity_providers.answers import ProviderRefused, required
from runtime.adapters.identity_providers.settings import ProviderSettings
from runtime.adapters.keys.signing import Algorithm, SigningKey
from runtime.domain.kinds.values import TokenEndpointAuthMethod

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ASSERTION_SECONDS = 60
ASSERTION_ALGORITHM: Algorithm = "RS256"  # what every provider that takes assertions can verify
_TYP = "client-authentication+jwt"
_PEM = "-----BEGIN "
_LEAST_SECRET_BYTES = 32  # RFC 7518 section 3.2
_WITH_ASSERTION = (TokenEndpointAuthMethod.PRIVATE_KEY_JWT, TokenEndpointAuthMethod.CLIENT_SECRET_JWT)


@dataclass(frozen=True, slots=True)
class ClientAuthentication:
    """What is added to a request: members of its body, headers, and what its connection is made with."""

    fields: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    certificate: ClientCertificate | None = None


@dataclass(frozen=True, slots=True)
class AssertionSigner:
    """What client assertions are made with, beside the provider's settings.

    Attributes:
        now: the time, also of a certificate that has to be valid.
        key: one that the zone publishes, for `private_key_jwt`; `client_secret_jwt` takes the secret.
    """

    now: datetime
    key: SigningKey | None = None


def signs_assertions(settings: ProviderSettings) -> bool:
    """Tell whether the zone authenticates at the provider with a key of its own, and without a secret."""
    return settings.token_endpoint_auth_method is TokenEndpointAuthMethod.PRIVATE_KEY_JWT


def authentication_method(settings: ProviderSettings, advertised: tuple[str, ...]) -> TokenEndpointAuthMethod:
    """The configured method; otherwise the first of basic and post that metadata admits, or none.

    Args:
        advertised: `token_endpoint_auth_methods_supported`; its default is basic. Spec: RFC 8414 section 2.
    """
    if settings.token_endpoint_auth_method is not None:
        return settings.token_endpoint_auth_method
    if settings.client_secret is None:
        return TokenEndpointAuthMethod.NONE
    if "client_secret_basic" in advertised or "client_secret_post" not in advertised:
        return TokenEndpointAuthMethod.CLIENT_SECRET_BASIC
    return TokenEndpointAuthMethod.CLIENT_SECRET_POST


def assertion_audience(settings: ProviderSettings, url: str) -> str:
    """The `aud` of a client assertion for an endpoint: its URL if it is configured, the issuer if discovered.

    A configured endpoint may be anybody's, whatever issuer is configured beside it. It gets an assertion for
    its own URL, which the server of that issuer refuses when it is relayed. Spec: RFC 7523 section 3.
    """
    return url if url in (settings.token_endpoint, settings.revocation_endpoint) else settings.issuer


def authenticate_client(
    settings: ProviderSettings,
    method: TokenEndpointAuthMethod,
    url: str,
    *,
    signer: AssertionSigner,
) -> ClientAuthentication:
    """The zone's authentication at a provider.

    Args:
        url: the endpoint that it is sent to.
    Raises: ProviderRefused with `not_configured` when the client id, the secret or the key is missing, the
        secret is too short to sign with, or a certificate would be shown to nobody.
    """
    client_id = required(settings.client_id, "client id")
    if method is TokenEndpointAuthMethod.NONE:
        return ClientAuthentication({"client_id": client_id})
    if _PEM in (settings.client_secret or "") and not settings.shows_certificate:
        raise ProviderRefused(
            "not_configured", f"the client secret is a certificate, which `{method.value}` does not take"
        )
    if method in _WITH_ASSERTION:
        claims = _claims(assertion_audience(settings, url), client_id, signer.now)
        assertion = {
            "client_assertion_type": ASSERTION_TYPE,
            "client_assertion": _signed(claims, settings, method, signer.key),
        }
        return ClientAuthentication({"client_id": client_id, **assertion})
    secret = required(settings.client_secret, "client secret")
    if settings.shows_certificate:
        if urlsplit(url).scheme != "https":
            raise ProviderRefused("not_configured", "a client certificate takes an https endpoint")
        certificate = client_certificate(secret, now=signer.now)
        return ClientAuthentication({"client_id": client_id}, certificate=certificate)
    if method is TokenEndpointAuthMethod.CLIENT_SECRET_POST:
        return ClientAuthentication({"client_id": client_id, "client_secret": secret})
    # Both halves are form-encoded before they are joined. Spec: RFC 6749 section 2.3.1.
    pair = f"{quote_plus(client_id)}:{quote_plus(secret)}".encode()
    return ClientAuthentication(headers={"authorization": f"Basic {base64.b64encode(pair).decode('ascii')}"})


def client_certificate(secret: str, *, now: datetime) -> ClientCertificate:
    """The certificate that a client secret holds. Raises ProviderRefused with `not_configured`."""
    try:
        return ClientCertificate.read(secret, now=now)
    except InvalidCertificate as invalid:
        raise ProviderRefused("not_configured", f"client secret: {invalid}") from None


def _signed(
    claims: Mapping[str, object],
    settings: ProviderSettings,
    method: TokenEndpointAuthMethod,
    key: SigningKey | None,
) -> str:
    """A client assertion. Raises ProviderRefused without a key, or with a secret that HS256 does not take."""
    if method is TokenEndpointAuthMethod.PRIVATE_KEY_JWT:
        if key is None:
            raise ProviderRefused("not_configured", "no key to sign a client assertion with")
        return key.sign(claims, typ=_TYP)
    secret = required(settings.client_secret, "client secret").encode()
    if len(secret) < _LEAST_SECRET_BYTES:
        raise ProviderRefused("not_configured", f"HS256 needs a secret of {_LEAST_SECRET_BYTES} bytes")
    return jwt.encode(dict(claims), secret, algorithm="HS256", headers={"typ": _TYP})


def _claims(audience: str, client_id: str, now: datetime) -> dict[str, object]:
    """Those of an assertion with a single audience: a server that receives it cannot use it at another."""
    issued_at = int(now.timestamp())
    return {
        "iss": client_id,
        "sub": client_id,
        "aud": audience,
        "iat": issued_at,
        "exp": issued_at + ASSERTION_SECONDS,
        "jti": secrets.token_urlsafe(16),
    }
