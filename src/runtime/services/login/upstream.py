"""Sign-in at the zone's identity provider: the authorization request to it, and its callback.

`state` is a random handle. What belongs to it is kept here, sealed: the pending login, the provider, the
nonce and the PKCE verifier. It works once, in the browser that was redirected.

Spec: OpenID Connect Core section 3.1; RFC 7636; RFC 9207.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict

from runtime.adapters.identity_providers.answers import ProviderIdentity, ProviderRefused
from runtime.adapters.identity_providers.settings import ProviderSettings
from runtime.adapters.keys.sealing import SealBroken, new_secret
from runtime.adapters.outbound import OutboundFailed, OutboundRefused
from runtime.adapters.upstream_oauth.client_authentication import (
    ASSERTION_ALGORITHM,
    AssertionSigner,
    signs_assertions,
)
from runtime.domain.errors import (
    AccessDenied,
    BadLink,
    InvalidRequest,
    LoginRequired,
    OAuthError,
    ProviderFailed,
    SignInRefused,
    SignInUnavailable,
    TemporarilyUnavailable,
    UnmetAuthenticationRequirements,
    UpstreamUnavailable,
)
from runtime.domain.kinds.provider import Provider
from runtime.services import state_values
from runtime.services.authorization import interactions, provider_requests
from runtime.services.authorization.interactions import PendingLogin
from runtime.services.authorization.requests import AuthorizationRequest, Parameters, ZonePageRequest
from runtime.services.authorization.requirements import LEEWAY_SECONDS, AuthenticationRequirements
from runtime.services.container import Services
from runtime.services.decision_log import current_decision
from runtime.services.zones import CachedZone

UPSTREAM_LOGIN_SECONDS = 900
_PROVIDER = "the identity provider of this zone"
_ANOTHER = "the answer did not come from this zone's identity provider"
_LOST = (
    "this sign-in has expired, or was started in another browser; go back to the application and try again"
)


class UpstreamLogin(BaseModel):
    """A sign-in under way at the identity provider, kept under the hash of its `state`."""

    model_config = ConfigDict(frozen=True)

    handle: str
    provider_id: str
    nonce: str
    verifier: str
    departed_at: datetime
    asked_to_prove: bool  # the provider was told not to go by a session that it has already
    resource: str | None = None  # the one that the application asks for; None for none, or several


@dataclass(frozen=True, slots=True)
class UpstreamAuthentication:
    """A user who has come back from the provider.

    Attributes:
        claims: of the ID token, completed by userinfo.
        authenticated_at: when the user proved who they are; None when the provider does not say, and may
            have gone by a session it had already.
        id_token: when the provider wants to hear of the session's end.
    """

    handle: str
    interaction: PendingLogin
    provider: Provider
    identity: ProviderIdentity
    claims: Mapping[str, Any]
    authenticated_at: datetime | None
    id_token: str | None = field(repr=False)


class UpstreamRefused(Exception):
    """The provider sent the user back without a sign-in: the application is told `refusal`."""

    def __init__(self, handle: str, interaction: PendingLogin, refusal: OAuthError) -> None:
        super().__init__(refusal.detail)
        self.handle, self.interaction, self.refusal = handle, interaction, refusal


async def start_upstream_login(
    services: Services,
    zone: CachedZone,
    provider: Provider,
    handle: str,
    interaction: PendingLogin,
    *,
    prove: bool = False,
) -> str:
    """The identity provider's authorization endpoint, with the parameters of this sign-in.

    Args:
        prove: whatever the request says, the user is to prove who they are.
    Raises: OAuthError, to be told to the application.
    """
    state, request = new_secret(), interaction.request
    current_decision().provider = provider.identifier
    settings = provider_settings(zone, provider)
    resources = _resources_of(request)
    try:
        known = (await services.openid.endpoints(settings)).prompt_values
        parameters = _authentication_parameters(request, known, prove=prove)
        prompt = parameters.get("prompt", settings.authorization_parameters.get("prompt", ""))
        pending = UpstreamLogin(
            handle=handle,
            provider_id=provider.id,
            nonce=new_secret(),
            verifier=new_secret(),
            departed_at=services.clock(),
            asked_to_prove="login" in prompt.split(),
            resource=resources[0] if len(resources) == 1 else None,
        )
        address = await services.openid.authorization_url(
            settings,
            redirect_uri=provider_requests.redirect_uri(zone, provider),
            state=state,
            verifier=pending.verifier,
            nonce=pending.nonce,
            resources=resources,
            login_hint=request.login_hint,
            parameters=parameters,
        )
    except (ProviderRefused, OutboundRefused, OutboundFailed) as failure:
        status, is_temporary = None, False
        if isinstance(failure, OutboundFailed):
            status, is_temporary = failure.status, failure.temporary
        if not is_temporary:
            provider_requests.warn_of_configuration(provider)
        told = provider_requests.unavailable(_PROVIDER, status=status, is_temporary=is_temporary)
        raise UpstreamUnavailable(told, internal=str(failure)) from None
    key = _key(services, zone.id, state)
    sealed = zone.sealer.seal(pending.model_dump_json().encode(), bound_to=key)
    await services.state.put_once(key, sealed, ttl_seconds=UPSTREAM_LOGIN_SECONDS)
    return address


def _resources_of(request: AuthorizationRequest | ZonePageRequest) -> tuple[str, ...]:
    """What the application asks for, as registered. A provider hears of it where it is configured to."""
    resources = request.resources if isinstance(request, AuthorizationRequest) else ()
    return tuple(resource.identifier for resource in resources)


def _authentication_parameters(
    terms: AuthenticationRequirements, known: Collection[str] | None, *, prove: bool
) -> dict[str, str]:
    """What the application asks of a sign-in, as the provider is asked for it. Spec: RFC 9470.

    Args:
        known: the values of `prompt` that the provider knows; None when it does not say. Some refuse others.
    """
    prompts = (terms.prompts & {"login", "select_account"}) | ({"login"} if prove else set())
    if known is not None and "select_account" in prompts - {*known}:
        # Where users sign in they can choose another account, too.
        prompts = (prompts - {"select_account"}) | ({"login"} & {*known})
    wishes = {
        "prompt": " ".join(sorted(prompts)),
        "max_age": "" if terms.max_age is None else str(terms.max_age),
        "acr_values": " ".join(terms.acr_values),
    }
    return {name: value for name, value in wishes.items() if value}


async def handle_callback(
    services: Services, zone: CachedZone, parameters: Parameters, pre_login: str | None
) -> UpstreamAuthentication:
    """The user whom the identity provider has authenticated, from the parameters of its callback.

    Raises: BadLink for a state that is unknown, used, of another zone or of another browser; SignInRefused
        when another provider answers, before its code is used; SignInUnavailable when the answer is of
        no use; UpstreamRefused when the provider refuses.
    """
    try:
        state, issuer = parameters.one("state"), parameters.one("iss")
        code, error = parameters.one("code"), parameters.one("error")
        answered_by = parameters.one(provider_requests.ANSWERED_BY)
    except InvalidRequest as failure:
        raise BadLink(failure.detail) from None
    pending = await _pop_pending_login(services, zone, state)
    interaction = await interactions.find(services, zone.id, pending.handle, pre_login)
    provider = await zone.user_provider()
    if provider is None or provider.id != pending.provider_id:
        raise BadLink(_LOST, internal="the zone's provider has changed meanwhile")
    current_decision().provider = provider.identifier
    settings = provider_settings(zone, provider)
    try:
        await services.openid.check_callback(settings, issuer)
    except ProviderRefused as failure:
        raise SignInRefused(_ANOTHER, internal=str(failure)) from None
    except (OutboundRefused, OutboundFailed) as failure:
        raise _unusable(provider, failure, "the metadata") from None
    if not provider_requests.came_to_its_address(provider, answered_by):
        raise SignInRefused(_ANOTHER, internal="it came to the redirect URI of another provider")
    if error is not None or code is None:
        refusal = _refusal(error)
        if isinstance(refusal, ProviderFailed):
            provider_requests.warn_of_configuration(provider)
        raise UpstreamRefused(pending.handle, interaction, refusal)
    identity, claims, id_token = await _identify(services, zone, provider, settings, pending, code)
    authenticated_at = _authenticated_at(pending, identity, services.clock())
    if "login" in interaction.request.prompts and not _is_new(pending, authenticated_at):
        refusal = LoginRequired("the identity provider did not authenticate the user again (`prompt=login`)")
        raise UpstreamRefused(pending.handle, interaction, refusal)
    kept = id_token if has_single_logout(provider) else None
    return UpstreamAuthentication(
        pending.handle, interaction, provider, identity, claims, authenticated_at, kept
    )


def _authenticated_at(pending: UpstreamLogin, identity: ProviderIdentity, now: datetime) -> datetime | None:
    """When the user proved who they are. A provider that does not say is believed if it was told to ask."""
    if identity.auth_time is not None:
        return min(identity.auth_time, now)
    return now if pending.asked_to_prove else None


def _is_new(pending: UpstreamLogin, authenticated_at: datetime | None) -> bool:
    leeway = timedelta(seconds=LEEWAY_SECONDS)
    return authenticated_at is not None and authenticated_at >= pending.departed_at - leeway


def has_single_logout(provider: Provider) -> bool:
    """Tell whether who signs out of the zone signs out of its provider too."""
    openid = provider.protocols.openid if provider.protocols else None
    return bool(openid and openid.single_logout_enabled)


def provider_settings(zone: CachedZone, provider: Provider) -> ProviderSettings:
    """How to talk to a provider of the zone, its secret opened.

    Raises: SignInUnavailable where the secret was given for other addresses than the provider has.
    """
    try:
        return provider_requests.open_settings(zone, provider)
    except SealBroken:
        provider_requests.warn_of_configuration(provider)
        raise SignInUnavailable(
            provider_requests.unavailable(_PROVIDER, status=None, is_temporary=False),
            internal="the secret was given for other addresses",
        ) from None


async def _pop_pending_login(services: Services, zone: CachedZone, state: str | None) -> UpstreamLogin:
    if state is None:
        raise BadLink(_LOST)
    key = _key(services, zone.id, state)
    pending = state_values.read_sealed(
        UpstreamLogin, await services.state.take(key), zone.sealer, bound_to=key
    )
    if pending is None:
        raise BadLink(_LOST)
    return pending


async def _identify(
    services: Services,
    zone: CachedZone,
    provider: Provider,
    settings: ProviderSettings,
    pending: UpstreamLogin,
    code: str,
) -> tuple[ProviderIdentity, Mapping[str, Any], str | None]:
    step = "the token endpoint"
    try:
        key = zone.signing(ASSERTION_ALGORITHM) if signs_assertions(settings) else None
        tokens = await services.openid.redeem(
            settings,
            code=code,
            verifier=pending.verifier,
            redirect_uri=provider_requests.redirect_uri(zone, provider),
            resource=pending.resource,
            signer=AssertionSigner(services.clock(), key),
        )
        step = "the ID token"
        identity = await services.openid.identify(settings, tokens, nonce=pending.nonce, now=services.clock())
        claims = dict(identity.claims)
        if identity.email is None:
            step = "the userinfo endpoint"
            told = await services.openid.userinfo(settings, tokens, subject=str(identity.claims.get("sub")))
            claims = {**told, **claims}
    except (ProviderRefused, OutboundRefused, OutboundFailed) as failure:
        raise _unusable(provider, failure, step) from None
    return identity, claims, tokens.id_token


def _unusable(provider: Provider, why: Exception, step: str) -> SignInUnavailable:
    """What to raise for an answer that cannot be used."""
    if not (isinstance(why, OutboundFailed) and why.temporary):
        provider_requests.warn_of_configuration(provider)
    return SignInUnavailable(provider_requests.unusable_answer(_PROVIDER), internal=f"{step}: {why}")


def _refusal(error: str | None) -> OAuthError:
    kind = provider_requests.refusal_kind(error)
    if kind is AccessDenied:
        return AccessDenied("the identity provider did not complete the sign-in")
    if kind is UnmetAuthenticationRequirements:
        return UnmetAuthenticationRequirements(
            "the identity provider cannot satisfy the requested `acr_values`"
        )
    if kind is TemporarilyUnavailable:
        return UpstreamUnavailable(
            "the identity provider is temporarily unavailable; try again shortly",
            internal=f"the authorization endpoint: `{error}`",
        )
    return provider_requests.provider_failed(error, "the identity provider could not sign the user in")


def _key(services: Services, zone_id: str, state: str) -> str:
    return f"trip:{zone_id}:{services.hasher.hash(state).hex()}"
