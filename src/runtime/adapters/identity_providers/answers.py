"""Parsing and validation of what an external provider returns: metadata, token responses, ID tokens."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hmac import compare_digest
from typing import Any

from runtime.adapters.identity_providers.settings import ProviderSettings
from runtime.adapters.keys.jose import InvalidJwt
from runtime.adapters.keys.remote import audiences
from runtime.domain.oauth.claims import at_hash, has_verified_email, is_time


class ProviderRefused(Exception):
    """The provider said no, or said something that cannot be trusted.

    Attributes:
        code: the provider's OAuth error code, or one of ours: `issuer_mismatch`, `invalid_id_token`,
            `invalid_logout_token`, `invalid_response`, `not_configured`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Endpoints:
    """What is known of a provider: its settings, completed by what it publishes."""

    authorization_endpoint: str | None
    token_endpoint: str | None
    revocation_endpoint: str | None
    jwks_uri: str | None
    userinfo_endpoint: str | None
    token_auth_methods: tuple[str, ...]
    challenge_methods: tuple[str, ...] | None
    prompt_values: tuple[str, ...] | None  # None when nobody says
    sends_issuer: bool  # RFC 9207: advertised, so a callback without `iss` is refused

    @property
    def takes_pkce(self) -> bool:
        """Tell whether authorization requests carry an S256 challenge: unless the methods exclude it."""
        return self.challenge_methods is None or "S256" in self.challenge_methods


@dataclass(frozen=True, slots=True)
class ProviderIdentity:
    """Who signed in, as a verified ID token says."""

    issuer: str
    subject: str
    email: str | None
    email_verified: bool
    claims: Mapping[str, Any] = field(repr=False)
    auth_time: datetime | None
    acr: str | None


def metadata_address(settings: ProviderSettings) -> str:
    """Where a provider publishes its metadata. Spec: OpenID Connect Discovery section 4."""
    return f"{settings.issuer.rstrip('/')}/.well-known/openid-configuration"


def endpoints_of(settings: ProviderSettings, found: Mapping[str, Any]) -> Endpoints:
    """Configured addresses, completed by published metadata.

    Where the zone shows a certificate, those that expect one come first. Spec: RFC 8705 section 5.
    """
    aliases = found.get("mtls_endpoint_aliases")
    if settings.shows_certificate and isinstance(aliases, Mapping):
        found = {**found, **aliases}
    methods = _texts(found.get("token_endpoint_auth_methods_supported"))
    return Endpoints(
        authorization_endpoint=settings.authorization_endpoint or text_of(found, "authorization_endpoint"),
        token_endpoint=settings.token_endpoint or text_of(found, "token_endpoint"),
        revocation_endpoint=settings.revocation_endpoint or text_of(found, "revocation_endpoint"),
        jwks_uri=settings.jwks_uri or text_of(found, "jwks_uri"),
        userinfo_endpoint=settings.userinfo_endpoint or text_of(found, "userinfo_endpoint"),
        token_auth_methods=methods if methods is not None else ("client_secret_basic",),
        challenge_methods=_texts(found.get("code_challenge_methods_supported"))
        if settings.code_challenge_methods_supported is None
        else settings.code_challenge_methods_supported,
        prompt_values=_texts(found.get("prompt_values_supported"))
        if settings.prompt_values_supported is None
        else settings.prompt_values_supported,
        sends_issuer=found.get("authorization_response_iss_parameter_supported") is True,
    )


def check_id_token(claims: Mapping[str, Any], client_id: str, nonce: str, access_token: str) -> None:
    """What an ID token must say beyond issuer, audience and times. Raises InvalidJwt."""
    if len(audiences(claims)) > 1 and "azp" not in claims:
        raise InvalidJwt("several audiences and no `azp`")
    if claims.get("azp", client_id) != client_id:
        raise InvalidJwt("`azp` is another client")
    if not isinstance(claims.get("sub"), str) or not 0 < len(claims["sub"]) <= 255:
        raise InvalidJwt("`sub` is missing or too long")
    given = claims.get("nonce")
    if not isinstance(given, str) or not compare_digest(given.encode(), nonce.encode()):
        raise InvalidJwt("another nonce")
    if claims.get("auth_time") is not None and not is_time(claims["auth_time"]):
        raise InvalidJwt("`auth_time` is not a time")
    # The algorithm that was verified is not told; a hash of any of the three sizes binds the access token.
    if "at_hash" in claims and claims["at_hash"] not in [
        at_hash(access_token, algorithm) for algorithm in ("RS256", "RS384", "RS512")
    ]:
        raise InvalidJwt("`at_hash` belongs to another access token")


def identity_of(settings: ProviderSettings, claims: Mapping[str, Any]) -> ProviderIdentity:
    """Who an ID token is about, by the claim that the provider is configured with. Raises ProviderRefused."""
    subject = claims.get(settings.external_id_claim)
    if not isinstance(subject, str) or not subject:
        raise ProviderRefused("invalid_id_token", f"no claim `{settings.external_id_claim}`")
    auth_time = claims.get("auth_time")
    return ProviderIdentity(
        issuer=settings.issuer,
        subject=subject,
        email=text_of(claims, "email"),
        email_verified=has_verified_email(claims),
        claims=claims,
        auth_time=datetime.fromtimestamp(auth_time, UTC) if auth_time is not None else None,
        acr=text_of(claims, "acr"),
    )


def required(value: str | None, what: str) -> str:
    """What a configuration must have for this. Raises ProviderRefused."""
    if not value:
        raise ProviderRefused("not_configured", f"the provider has no {what}")
    return value


def text_of(document: Mapping[str, Any], name: str) -> str | None:
    """A member that is text with something in it."""
    value = document.get(name)
    return value if isinstance(value, str) and value else None


def _texts(value: object) -> tuple[str, ...] | None:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else None
