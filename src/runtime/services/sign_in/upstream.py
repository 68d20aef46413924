"""Sign-in at the zone's identity provider: there and back.

The state that travels is a random handle. What it stands for stays here: which interaction, which provider,
the nonce and the PKCE verifier. It works once, in the browser that was sent away.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict

from runtime.adapters.identity_providers.oidc import ProviderIdentity, ProviderRefused
from runtime.adapters.identity_providers.settings import ProviderSettings, settings_of
from runtime.adapters.keys.sealing import new_secret
from runtime.adapters.outbound import OutboundFailed, OutboundRefused
from runtime.domain.errors import (
    AccessDenied,
    BadLink,
    InvalidRequest,
    OAuthError,
    ServerError,
    SignInRefused,
    SignInUnavailable,
    TemporarilyUnavailable,
)
from runtime.domain.kinds.provider import Provider
from runtime.services.parts import Parts
from runtime.services.sign_in import interactions
from runtime.services.sign_in.interactions import Interaction
from runtime.services.sign_in.requests import Parameters
from runtime.services.zones import ZoneView

TRIP_SECONDS = 900
_LOST = (
    "this sign-in has expired, or was started in another browser; go back to the application and try again"
)
_UNUSABLE = "the identity provider's answer cannot be used; try again, or ask the people who run this zone"


class Trip(BaseModel):
    """What a state handle stands for."""

    model_config = ConfigDict(frozen=True)

    handle: str
    provider_id: str
    nonce: str
    verifier: str


@dataclass(frozen=True, slots=True)
class Return:
    """A user who has come back from the provider.

    Attributes:
        claims: of the ID token, completed by userinfo.
        id_token: when the provider wants to hear of the session's end.
    """

    handle: str
    interaction: Interaction
    provider: Provider
    identity: ProviderIdentity
    claims: Mapping[str, Any]
    id_token: str | None = field(repr=False)


class TurnedAway(Exception):
    """The provider sent the user back without a sign-in: the application is told `refusal`."""

    def __init__(self, handle: str, interaction: Interaction, refusal: OAuthError) -> None:
        super().__init__(refusal.detail)
        self.handle, self.interaction, self.refusal = handle, interaction, refusal


async def depart(
    parts: Parts, view: ZoneView, provider: Provider, handle: str, interaction: Interaction
) -> str:
    """The provider's address to send the browser to. Raises OAuthError, to be told to the application."""
    state, request = new_secret(), interaction.request
    trip = Trip(handle=handle, provider_id=provider.id, nonce=new_secret(), verifier=new_secret())
    parameters = {}
    if request.prompts & {"login", "select_account"}:
        parameters["prompt"] = " ".join(sorted(request.prompts & {"login", "select_account"}))
    if request.max_age is not None:
        parameters["max_age"] = str(request.max_age)
    try:
        address = await parts.openid.authorization_url(
            provider_settings(view, provider),
            redirect_uri=_redirect_uri(view),
            state=state,
            verifier=trip.verifier,
            nonce=trip.nonce,
            login_hint=request.login_hint,
            parameters=parameters,
        )
    except (ProviderRefused, OutboundRefused, OutboundFailed) as failure:
        raise TemporarilyUnavailable(
            "the identity provider of this zone cannot be reached", internal=str(failure)
        ) from None
    await parts.state.put(
        _key(parts, view.id, state), trip.model_dump_json().encode(), ttl_seconds=TRIP_SECONDS
    )
    return address


async def arrive(parts: Parts, view: ZoneView, parameters: Parameters, pre_login: str | None) -> Return:
    """Who came back to the callback.

    Raises: BadLink for a state that is unknown, used, of another zone or of another browser; SignInRefused
        when another issuer answers, before its code is used; SignInUnavailable when the provider's answer is
        no use; TurnedAway.
    """
    try:
        state, issuer = parameters.one("state"), parameters.one("iss")
        code, error = parameters.one("code"), parameters.one("error")
    except InvalidRequest as failure:
        raise BadLink(failure.detail) from None
    trip = await _take(parts, view, state)
    interaction = await interactions.find(parts, view.id, trip.handle, pre_login)
    provider = await view.user_provider()
    if provider is None or provider.id != trip.provider_id:
        raise BadLink(_LOST, internal="the zone's provider has changed meanwhile")
    settings = provider_settings(view, provider)
    try:
        await parts.openid.check_callback(settings, issuer)
    except ProviderRefused as failure:
        raise SignInRefused(
            "the answer did not come from this zone's identity provider", internal=str(failure)
        ) from None
    except (OutboundRefused, OutboundFailed) as failure:
        raise SignInUnavailable(_UNUSABLE, internal=str(failure)) from None
    if error is not None or code is None:
        raise TurnedAway(trip.handle, interaction, _refusal(error))
    identity, claims, id_token = await _identify(parts, view, settings, trip, code)
    kept = id_token if leaves_together(provider) else None
    return Return(trip.handle, interaction, provider, identity, claims, kept)


def leaves_together(provider: Provider) -> bool:
    """Tell whether who signs out of the zone signs out of its provider too."""
    openid = provider.protocols.openid if provider.protocols else None
    return bool(openid and openid.single_logout_enabled)


def provider_settings(view: ZoneView, provider: Provider) -> ProviderSettings:
    """How to talk to a provider of the zone, its secret opened."""
    sealed = provider.client_secret
    place = f"providers/{provider.id}/client_secret"
    secret = view.sealer.open(sealed, bound_to=place).decode() if sealed is not None else None
    return settings_of(provider, client_secret=secret)


async def _take(parts: Parts, view: ZoneView, state: str | None) -> Trip:
    stored = await parts.state.take(_key(parts, view.id, state)) if state else None
    if stored is None:
        raise BadLink(_LOST)
    return Trip.model_validate_json(stored)


async def _identify(
    parts: Parts, view: ZoneView, settings: ProviderSettings, trip: Trip, code: str
) -> tuple[ProviderIdentity, Mapping[str, Any], str | None]:
    try:
        tokens = await parts.openid.redeem(
            settings, code=code, verifier=trip.verifier, redirect_uri=_redirect_uri(view)
        )
        identity = await parts.openid.identify(settings, tokens, nonce=trip.nonce, now=parts.clock())
        claims = dict(identity.claims)
        if identity.email is None:
            told = await parts.openid.userinfo(settings, tokens, subject=str(identity.claims.get("sub")))
            claims = {**told, **claims}
    except (ProviderRefused, OutboundRefused, OutboundFailed) as failure:
        raise SignInUnavailable(_UNUSABLE, internal=str(failure)) from None
    return identity, claims, tokens.id_token


def _refusal(error: str | None) -> OAuthError:
    if error in ("access_denied", "login_required", "interaction_required", "consent_required"):
        return AccessDenied("the sign-in was cancelled")
    if error == "temporarily_unavailable":
        return TemporarilyUnavailable("the identity provider cannot sign anybody in right now")
    return ServerError("the identity provider could not sign the user in", internal=str(error)[:100])


def _redirect_uri(view: ZoneView) -> str:
    return str(view.zone.protocols.oauth2.redirect_uri)


def _key(parts: Parts, zone_id: str, state: str) -> str:
    return f"trip:{zone_id}:{parts.hasher.hash(state).hex()}"
