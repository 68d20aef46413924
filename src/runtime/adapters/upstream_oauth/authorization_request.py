"""Authorization requests (RFC 6749 section 4.1.1): the URL that a browser is sent to."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from runtime.adapters.identity_providers.answers import ProviderRefused, required
from runtime.adapters.identity_providers.settings import ProviderSettings

# What `authorization_parameters` and the query of a configured endpoint never say: who asks, where the answer
# goes and in which form, what binds it to this browser, and what would replace the whole request (RFC 9101).
PROTECTED_PARAMETERS = frozenset(
    {
        "response_type",
        "response_mode",
        "client_id",
        "redirect_uri",
        "state",
        "nonce",
        "code_challenge",
        "code_challenge_method",
        "resource",
        "request",
        "request_uri",
        "registration",
        "authorization_details",
        "dpop_jkt",
        "iss",
        "client_secret",
        "client_assertion",
        "client_assertion_type",
    }
)


@dataclass(frozen=True, slots=True)
class UpstreamAuthorizationRequest:
    """Where to send the browser, and what its way back is checked against.

    Attributes:
        uses_pkce: the code is redeemed with the verifier; else none may be sent (RFC 9700 section 4.8).
        issuer: what `iss` of the answer must be where it is given.
        issuer_required: the provider advertises that it sends `iss`, so an answer without it is refused.
    """

    url: str
    uses_pkce: bool
    issuer: str
    issuer_required: bool

    def admits_issuer(self, given: str | None) -> bool:
        """Tell whether an answer with this `iss` may be this provider's. Spec: RFC 9207 section 2.4."""
        return not self.issuer_required if given is None else given == self.issuer


def authorization_url(
    settings: ProviderSettings,
    endpoint: str,
    *,
    redirect_uri: str,
    state: str,
    code_challenge: str | None,
    scopes: Iterable[str],
    resources: Sequence[str] = (),
    parameters: Mapping[str, str] | None = None,
) -> str:
    """The URL of an authorization request, of which no setting replaces a protected parameter.

    Args:
        code_challenge: S256; None leaves PKCE out.
        resources: sent where the provider is configured to take them, each as a parameter of its own. Spec:
            RFC 8707 section 2.1.
        parameters: this service's own: `nonce`, `prompt` and the like. They come before configured ones.
    Raises: ProviderRefused when there is no client id, or a setting names a protected parameter.
    """
    client_id = required(settings.client_id, "client id")
    own: dict[str, str | Sequence[str]] = dict(parameters or {})
    if wanted := tuple(dict.fromkeys(scopes)):
        own[_free(settings.scope_parameter)] = settings.scope_separator.join(wanted)
    if resources and settings.authorization_resource_enabled:
        own[_free(settings.authorization_resource_parameter, but="resource")] = list(resources)
    own |= {"response_type": "code", "client_id": client_id, "redirect_uri": redirect_uri, "state": state}
    if code_challenge is not None:
        own |= {"code_challenge": code_challenge, "code_challenge_method": "S256"}
    return with_query(endpoint, own, beside=settings.authorization_parameters)


def _free(name: str, *, but: str | None = None) -> str:
    """A configured parameter name, when it is none of the protected ones or the one that it may be."""
    if name != but and name.casefold() in PROTECTED_PARAMETERS:
        raise ProviderRefused("not_configured", "a setting names a protected authorization parameter")
    return name


def with_query(
    address: str, query: Mapping[str, str | Sequence[str]], *, beside: Mapping[str, str] | None = None
) -> str:
    """The address with a query; what it had before stays, but for parameters that are protected or given.

    Args:
        query: name -> its value, or one for each time that it is sent.
        beside: more parameters, with the same restriction. Names are compared without regard to case, as some
            servers do. A fragment is dropped.
    """
    taken = PROTECTED_PARAMETERS | {name.casefold() for name in query}
    parts = urlsplit(address)
    more = dict(parse_qsl(parts.query, keep_blank_values=True)) | dict(beside or {})
    kept = {name: value for name, value in more.items() if name.casefold() not in taken}
    merged: dict[str, str | Sequence[str]] = {**kept, **query}
    return urlunsplit((parts.scheme, parts.netloc, parts.path, urlencode(merged, doseq=True), ""))


def require_web_address(address: str, *, allow_http: bool) -> str:
    """The address, when a browser may be sent there. Raises ProviderRefused."""
    if urlsplit(address).scheme not in (("https", "http") if allow_http else ("https",)):
        raise ProviderRefused("not_configured", "the authorization endpoint is not an https address")
    return address
