"""The authorization request: parses its parameters strictly, then runs the named checks in order.

Two refusals are told apart throughout. Until client and redirect URI are known to belong together nobody can
be answered but the person at the browser, on a page; from then on every refusal goes back to the application.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args
from urllib.parse import quote_plus

from runtime.domain.errors import (
    BadLink,
    InvalidRequest,
    InvalidScope,
    InvalidTarget,
    OAuthError,
    RegistrationNotSupported,
    RequestNotSupported,
    RequestUriNotSupported,
    UnsupportedResponseType,
)
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.user_agent import Registration
from runtime.domain.oauth import dpop_claims, pkce, redirect_uris
from runtime.domain.oauth import scopes as scope_strings
from runtime.domain.oauth.resources import RequestedResource
from runtime.domain.oauth.scopes import SIGN_IN_SCOPES
from runtime.services.authority.id_token_hints import read_hint
from runtime.services.authorization.requirements import AuthenticationRequirements
from runtime.services.client_types import Client
from runtime.services.clients import client_lookup
from runtime.services.container import Services
from runtime.services.zones import CachedZone

PROMPTS = frozenset({"none", "login", "consent", "select_account"})
MAX_PARAMETERS = 60
MAX_VALUE_CHARS = 4096
MAX_NAME_CHARS = 200  # a refusal names what was sent twice
MAX_RESOURCES = 20
MAX_ACR_VALUES = 20
_REQUEST_OBJECTS = {
    "request": RequestNotSupported,
    "request_uri": RequestUriNotSupported,
    "registration": RegistrationNotSupported,
}
_UNRESERVED = re.compile(r"[A-Za-z0-9._~-]*")
_UNKNOWN_TARGET = "the application may not request this `resource`"


class Parameters:
    """Parameters as sent. An empty value counts as absent; one sent twice is refused when it is asked for."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self.pairs = list(pairs)
        self._values: dict[str, list[str]] = {}
        for number, (name, value) in enumerate(self.pairs):
            if number >= MAX_PARAMETERS or len(value) > MAX_VALUE_CHARS or len(name) > MAX_NAME_CHARS:
                raise BadLink("the request has too many parameters, or one that is too long")
            self._values.setdefault(name, []).append(value)

    def one(self, name: str) -> str | None:
        """The value, or None. Raises InvalidRequest when it was sent more than once."""
        values = self._values.get(name, [])
        if len(values) > 1:
            raise InvalidRequest(f"`{name}` was sent more than once")
        return values[0] or None if values else None

    def all(self, name: str) -> list[str]:
        """Every value of a parameter that may be repeated."""
        return [value for value in self._values.get(name, []) if value]

    def repeated(self, *but: str) -> list[str]:
        """Names sent more than once, other than these."""
        return [name for name, values in self._values.items() if len(values) > 1 and name not in but]

    def __contains__(self, name: str) -> bool:
        return any(self._values.get(name, []))


ResponseMode = Literal["query", "form_post"]
RESPONSE_MODES: tuple[ResponseMode, ...] = get_args(ResponseMode)


@dataclass(frozen=True, slots=True)
class AuthorizationResponse:
    """An answer for the application, which its user's browser takes there.

    Attributes:
        location: the redirect URI; of a redirect, with the answer in its query.
        form: the answer, name -> value, that a page of the zone posts to *location*; None for a redirect.
    """

    location: str
    form: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class RedirectionEndpoint:
    """Where the application is answered, and how.

    Spec: RFC 6749 section 4.1.2, RFC 9207; OAuth 2.0 Form Post Response Mode.
    """

    redirect_uri: str
    state: str | None
    issuer: str
    mode: ResponseMode = "query"

    def with_code(self, code: str) -> AuthorizationResponse:
        """The answer that hands over a code."""
        return self._with({"code": code})

    def completed(self) -> AuthorizationResponse:
        """The answer that tells the application that it may go on, and nothing else."""
        return self._with({})

    def refusal(self, error: OAuthError) -> AuthorizationResponse:
        """The answer that tells the application why it gets nothing."""
        return self._with({"error": error.code, "error_description": error.detail.replace("`", "'")})

    @property
    def redirect_host(self) -> str:
        """Who gets the answer, in words a person can compare."""
        return redirect_uris.host_of(self.redirect_uri)

    def _with(self, answer: Mapping[str, str]) -> AuthorizationResponse:
        members = {**answer, "iss": self.issuer} | ({"state": self.state} if self.state else {})
        if self.mode == "form_post":
            return AuthorizationResponse(self.redirect_uri, members)
        between = "&" if "?" in self.redirect_uri else "?"
        encoded = "&".join(f"{name}={_quoted(value)}" for name, value in members.items())
        return AuthorizationResponse(f"{self.redirect_uri}{between}{encoded}")


class ZonePageRequest(AuthenticationRequirements):
    """A sign-in that no application asks for: to see a page of the zone itself.

    Attributes:
        query: of the page's address.
    """

    page: Literal["account", "oauth/connect"]
    query: str = ""

    def address(self, issuer: str) -> str:
        """Where the page is."""
        return f"{issuer}/{self.page}{'?' if self.query else ''}{self.query}"


class AuthorizationRequest(AuthenticationRequirements):
    """A checked request: nothing in it is only what somebody sent.

    Attributes:
        party_id: of the application or user agent behind the client id.
        scopes: the sign-in scopes (OpenID Connect's) that would be granted.
        jkt: thumbprint of the key that whoever redeems the code must have.
    """

    client_id: str
    party_id: str
    redirect_uri: str
    state: str | None
    scopes: frozenset[str]
    resources: tuple[RequestedResource, ...]
    nonce: str | None
    challenge: str | None
    jkt: str | None = None
    response_mode: ResponseMode = "query"

    def return_address(self, issuer: str) -> RedirectionEndpoint:
        """Where the answer goes."""
        return RedirectionEndpoint(self.redirect_uri, self.state, issuer, self.response_mode)

    @property
    def redirect_host(self) -> str:
        """Who gets the answer, in words a person can compare."""
        return redirect_uris.host_of(self.redirect_uri)


async def resolve_client(
    services: Services, zone: CachedZone, parameters: Parameters
) -> tuple[Client, RedirectionEndpoint]:
    """Who asks, and where the answer goes. Raises BadLink: without both there is nobody to redirect to."""
    try:
        client_id, redirect_uri = parameters.one("client_id"), parameters.one("redirect_uri")
    except InvalidRequest as failure:
        raise BadLink(failure.detail) from None
    if client_id is None:
        raise BadLink("the link has no `client_id`")
    client = await client_lookup.resolve_client(services, zone, client_id)
    if redirect_uri is None:
        raise BadLink("the link has no `redirect_uri`")
    if not redirect_uris.allows(client.redirect_uris, redirect_uri):
        raise BadLink("this `redirect_uri` is not registered for the application")
    state = None if "state" in parameters.repeated() else parameters.one("state")
    try:
        mode = _response_mode(parameters, redirect_uri)
    except InvalidRequest:  # told by redirect, which every redirect URI takes
        mode = "query"
    return client, RedirectionEndpoint(redirect_uri, state, zone.issuer, mode)


async def check(
    services: Services,
    zone: CachedZone,
    parameters: Parameters,
    *,
    client: Client,
    address: RedirectionEndpoint,
) -> AuthorizationRequest:
    """The request, once everything in it is in order. Raises OAuthError, to be told by redirect."""
    _refuse_repeated(parameters)
    _require_code(parameters)
    mode = _response_mode(parameters, address.redirect_uri)
    _refuse_request_objects(parameters)
    challenge = pkce.check_challenge(
        parameters.one("code_challenge"),
        parameters.one("code_challenge_method"),
        # A client without a secret proves by nothing else that the code is its own. Spec: RFC 9700, 2.1.1.
        required=zone.entity.protocols.oauth2.pkce_required or client.is_public,
    )
    scopes, granted = await requested_access(
        zone, client, parameters.all("resource"), parameters.one("scope")
    )
    return AuthorizationRequest(
        client_id=client.client_id,
        party_id=client.client_ref.id,
        redirect_uri=address.redirect_uri,
        state=address.state,
        scopes=scopes,
        resources=granted,
        nonce=parameters.one("nonce"),
        challenge=challenge,
        prompts=_prompts(parameters.one("prompt")),
        max_age=_max_age(parameters.one("max_age")),
        acr_values=_acr_values(parameters.one("acr_values")),
        login_hint=parameters.one("login_hint"),
        hinted_subject=_hinted_subject(services, zone, parameters.one("id_token_hint"), client.client_id),
        invitation=_invitation(services, parameters.one("invitation")),
        jkt=_thumbprint(parameters.one("dpop_jkt")),
        response_mode=mode,
    )


async def requested_access(
    zone: CachedZone, client: Client, named: list[str], scope: str | None
) -> tuple[frozenset[str], tuple[RequestedResource, ...]]:
    """The sign-in scopes, and the resources with their scopes, that a client asks for.

    Raises: InvalidTarget, InvalidScope.
    """
    served = SIGN_IN_SCOPES if client.may_refresh else SIGN_IN_SCOPES - {"offline_access"}
    if client.registration is not Registration.MANAGED:
        served -= {scope_strings.POLICY_BUNDLE}
    asked = scope_strings.parse(scope or "") or frozenset({"openid"})
    rest = asked - SIGN_IN_SCOPES
    if named:
        resources = await _resources(zone, client, named)
    else:
        resources = await _default_resource(zone, client, rest)
    sign_in, granted = asked & served, _granted(rest, resources)
    if not sign_in and not any(rest & each.scopes for each in granted):
        raise InvalidScope("none of the scopes can be granted; scopes of a resource require `resource`")
    return sign_in, granted


def _quoted(value: str) -> str:
    """A value as a query has it. Most are of characters that stand for themselves."""
    return value if _UNRESERVED.fullmatch(value) else quote_plus(value)


def _refuse_repeated(parameters: Parameters) -> None:
    if repeated := parameters.repeated("resource"):
        raise InvalidRequest(f"`{repeated[0]}` was sent more than once")


def _require_code(parameters: Parameters) -> None:
    response_type = parameters.one("response_type")
    if response_type is None:
        raise InvalidRequest("`response_type` is missing; it must be `code`")
    if response_type != "code":
        raise UnsupportedResponseType("`response_type` must be `code`")


def _response_mode(parameters: Parameters, redirect_uri: str) -> ResponseMode:
    """How the application is answered. Raises InvalidRequest.

    Spec: OAuth 2.0 Multiple Response Type Encoding Practices, section 2.1.
    """
    named = parameters.one("response_mode") or "query"
    mode = next((mode for mode in RESPONSE_MODES if mode == named), None)
    if mode is None:
        raise InvalidRequest("`response_mode` must be `query` or `form_post`")
    if mode == "form_post" and redirect_uris.form_origin(redirect_uri) is None:
        raise InvalidRequest(
            "`response_mode=form_post` needs an http or https `redirect_uri` with a host name or IPv4 address"
        )
    return mode


def _refuse_request_objects(parameters: Parameters) -> None:
    for name, refusal in _REQUEST_OBJECTS.items():
        if name in parameters:
            raise refusal(f"`{name}` is not supported; send plain parameters")
    if "authorization_details" in parameters:  # refused, never ignored: it limits what is asked for
        raise InvalidRequest("`authorization_details` is not supported")


async def _default_resource(zone: CachedZone, client: Client, rest: frozenset[str]) -> list[Resource]:
    """The zone's default resource, which a request without any means, if the client may have it.

    A request that names scopes, and none of that resource's, is for signing in alone: those that no resource
    of the request has are ignored. Spec: OpenID Connect Core section 3.1.2.1.
    """
    default = await zone.default_resource()
    if default is None or not await client_lookup.may_request(zone, client, default):
        return []
    return [default] if _is_meant(rest, default) else []


def _is_meant(rest: frozenset[str], resource: Resource) -> bool:
    """Tell whether scopes that are not for signing in ask for something of a resource, or leave it open."""
    offered = frozenset(resource.scopes or ())
    return not rest or not offered or bool(rest & offered)


async def _resources(zone: CachedZone, client: Client, named: list[str]) -> list[Resource]:
    """The resources the request names, each one the client may ask for. Raises InvalidTarget."""
    if len(named) > MAX_RESOURCES:
        raise InvalidTarget(f"more than {MAX_RESOURCES} resources in one request")
    found: dict[str, Resource] = {}
    for name in named:
        if zone.is_itself(name):
            continue  # the zone itself, which every sign-in is for
        resource = await zone.resources.resolve(name)
        if resource is None or not await client_lookup.may_request(zone, client, resource):
            raise InvalidTarget(_UNKNOWN_TARGET)  # one text for both: the catalogue is not to be listed
        found[resource.id] = resource
    return list(found.values())


def _granted(rest: frozenset[str], resources: list[Resource]) -> tuple[RequestedResource, ...]:
    """What is asked for of each resource. Raises InvalidScope when scopes are named, and no resource has any.

    All that they have is asked for by naming no scope but those for signing in, as in an exchange. Of scopes
    that are named each resource is asked for its own, which may be none; what nothing here has is left out,
    and the answer says so.

    Args:
        rest: the scopes that are not for signing in.
    """
    if resources and not any(_is_meant(rest, each) for each in resources):
        raise InvalidScope("none of the requested resources has any of the requested scopes")
    granted = []
    for resource in resources:
        offered = frozenset(resource.scopes or ())
        chosen = rest & offered if rest else offered
        granted.append(RequestedResource(id=resource.id, identifier=resource.identifier, scopes=chosen))
    return tuple(granted)


def _thumbprint(text: str | None) -> str | None:
    """The key that the code is asked for with. Raises InvalidRequest. Spec: RFC 9449 section 10."""
    if text is not None and not dpop_claims.is_thumbprint(text):
        raise InvalidRequest("`dpop_jkt` must be the SHA-256 thumbprint of a key")
    return text


def _prompts(text: str | None) -> frozenset[str]:
    prompts = frozenset((text or "").split())
    if unknown := prompts - PROMPTS:
        raise InvalidRequest(f"`prompt` does not accept `{min(unknown)[:40]}`")
    if "none" in prompts and len(prompts) > 1:
        raise InvalidRequest("`prompt=none` cannot be combined with other values")
    return prompts


def _acr_values(text: str | None) -> tuple[str, ...]:
    values = tuple(dict.fromkeys((text or "").split()))
    if len(values) > MAX_ACR_VALUES:
        raise InvalidRequest(f"more than {MAX_ACR_VALUES} `acr_values`")
    return values


def _max_age(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise InvalidRequest("`max_age` must be a number of seconds")
    return int(text)


def _invitation(services: Services, token: str | None) -> str | None:
    return services.hasher.hash(token).hex() if token else None


def _hinted_subject(services: Services, zone: CachedZone, hint: str | None, client_id: str) -> str | None:
    """The subject of an ID token this zone issued to this client, expired or not. Raises InvalidRequest."""
    if hint is None:
        return None
    hinted = read_hint(services, zone, hint, client_id=client_id)
    if hinted is None or hinted.subject is None:
        raise InvalidRequest("`id_token_hint` must be an ID token issued to this client")
    return hinted.subject
