"""Shared rules of requests to outside providers for a user in a browser, to sign in or to connect."""

import re

from runtime.adapters.identity_providers.settings import ProviderSettings, settings_of
from runtime.domain.errors import (
    AccessDenied,
    OAuthError,
    ProviderFailed,
    ServerError,
    TemporarilyUnavailable,
    UnmetAuthenticationRequirements,
)
from runtime.domain.kinds import PROVIDER
from runtime.domain.kinds.provider import Provider
from runtime.services import address_bound_secrets
from runtime.services.decision_log import current_decision
from runtime.services.zones import CachedZone

_CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NOT_DONE = frozenset({"access_denied", "login_required", "interaction_required", "consent_required"})


def redirect_uri(zone: CachedZone) -> str:
    """Where providers send the browser back to: one address for sign-in and for connecting."""
    return str(zone.entity.protocols.oauth2.redirect_uri)


def open_settings(zone: CachedZone, provider: Provider) -> ProviderSettings:
    """How to talk to a provider of the zone, its secret opened.

    Raises: SealBroken where the secret was given for other addresses than the provider has.
    """
    secret = address_bound_secrets.opened(zone.sealer, PROVIDER, provider, "client_secret")
    return settings_of(provider, client_secret=secret)


def provider_failed(error: str | None, detail: str) -> ProviderFailed:
    """The refusal for an error of a provider's authorization endpoint; the record has its code.

    Args:
        error: as it came with the browser: recorded where it looks like an error code.
        detail: what the application is told.
    """
    code = error if error is not None and _CODE.fullmatch(error) else "unknown_error"
    known = f"the authorization endpoint: `{code}`" if error is not None else "neither `code` nor `error`"
    return ProviderFailed(detail, internal=known)


def warn_of_configuration(provider: Provider) -> None:
    """Have it logged, with the record of this request, that a provider may be misconfigured."""
    warning = "an outside provider refused: its configuration may be wrong"
    current_decision().warning = (warning, {"provider_id": provider.id})


def refusal_kind(error: str | None) -> type[OAuthError]:
    """What an application is told when a provider's authorization endpoint answers with this error.

    Args:
        error: None for an answer with neither a code nor an error.
    Spec: RFC 6749 section 4.1.2.1; OpenID Connect Core section 3.1.2.6.
    """
    if error in _NOT_DONE:
        return AccessDenied
    if error == UnmetAuthenticationRequirements.code:
        return UnmetAuthenticationRequirements
    return TemporarilyUnavailable if error == TemporarilyUnavailable.code else ServerError
