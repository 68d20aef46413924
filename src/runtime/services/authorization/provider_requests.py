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

ANSWERED_BY = "answered_by"  # of the query of a redirect URI that one provider has for itself
_CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NOT_DONE = frozenset({"access_denied", "login_required", "interaction_required", "consent_required"})


def redirect_uri(zone: CachedZone, provider: Provider) -> str:
    """Where a provider sends the browser back to: one address for sign-in and for connecting.

    It is the same for all providers of a zone, but for those that have one of their own.
    """
    shared, own = str(zone.entity.protocols.oauth2.redirect_uri), _answers_as(provider)
    return shared if own is None else f"{shared}?{ANSWERED_BY}={own}"


def came_to_its_address(provider: Provider, answered_by: str | None) -> bool:
    """Tell whether an answer came to the redirect URI that this provider was given.

    Args:
        answered_by: what the address says that it came to; None where it says nothing.
    Spec: RFC 9700 section 4.4.2.2.
    """
    return answered_by == _answers_as(provider)


def _answers_as(provider: Provider) -> str | None:
    """What stands in a provider's own redirect URI; None for a provider that shares the zone's."""
    oauth2 = provider.protocols.oauth2 if provider.protocols else None
    return provider.id if oauth2 is not None and oauth2.distinct_redirect_uri else None


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
    known = f"`{code}`" if error is not None else "neither `code` nor `error` came back"
    return ProviderFailed(detail, internal=f"the authorization endpoint: {known}")


def unavailable(provider: str, *, status: int | None, is_temporary: bool) -> str:
    """Why nobody can be sent to a provider, and what to do: it does not answer, refuses, or is misconfigured.

    Args:
        provider: what to call it, such as "the provider".
        status: the HTTP status, where it has answered.
        is_temporary: asking again may help.
    """
    if status is not None and is_temporary:
        what = f"{provider} is not available (HTTP status {status})"
    elif status is not None and status >= 400:
        what = f"{provider} refused the request (HTTP status {status})"
    elif status is not None:
        what = f"{provider} gave an answer that cannot be used (HTTP status {status})"
    elif is_temporary:
        what = f"{provider} cannot be reached"
    else:
        what = f"{provider} cannot be used: its configuration in this zone may be wrong"
    return f"{what}; {try_again_or_report()}"


def unusable_answer(provider: str) -> str:
    """What a person is told of an answer that cannot be used."""
    return f"the answer of {provider} cannot be used; {try_again_or_report()}"


def try_again_or_report() -> str:
    """What a person can do about a provider that failed; the record of the request id has the reason."""
    request_id = current_decision().request_id
    return f"try again, or tell an administrator of this zone this request id: `{request_id}`"


def warn_of_configuration(provider: Provider) -> None:
    """Have it logged, with the record of this request, that a provider may be misconfigured."""
    warning = "an outside provider cannot be used: its configuration may be wrong"
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
