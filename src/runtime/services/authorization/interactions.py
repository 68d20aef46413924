"""Pending logins: the state between an authorization request and its response, bound to one browser.

An interaction is known by a handle in the address and belongs to the browser that holds the pre-login
cookie: either alone is worth nothing. Forms carry a token that works once.
"""

from datetime import datetime
from hmac import compare_digest

from pydantic import BaseModel, ConfigDict

from runtime.adapters.keys.sealing import new_secret
from runtime.domain.errors import BadLink, ForgedForm, TooManyTries
from runtime.domain.oauth import redirect_uris
from runtime.services import rate_limits, state_values
from runtime.services.authority.browser_sessions import Browser
from runtime.services.authorization import throttling
from runtime.services.authorization.requests import AuthorizationRequest, ZonePageRequest
from runtime.services.client_types import Client
from runtime.services.clients import client_lookup
from runtime.services.container import Services
from runtime.services.decision_log import current_decision
from runtime.services.rate_limiter import network_of
from runtime.services.zones import CachedZone

INTERACTION_SECONDS = 900
_SENT_ALREADY = "this form has expired or was sent already; go back and try again"
_LOST = (
    "this sign-in has expired, or was started in another browser; go back to the application and try again"
)


class PendingLogin(BaseModel):
    """An authorize request, or a visit of a page of the zone, that waits for its user.

    Attributes:
        browser: hash of the pre-login cookie, in hex.
        session_id: the browser session, once somebody is signed in.
    """

    model_config = ConfigDict(frozen=True)

    request: AuthorizationRequest | ZonePageRequest
    browser: str
    created_at: datetime
    session_id: str | None = None


def browser_of(services: Services, pre_login: str) -> str:
    """How an interaction remembers a browser."""
    return services.hasher.hash(pre_login).hex()


async def start(
    services: Services,
    zone: CachedZone,
    request: AuthorizationRequest | ZonePageRequest,
    browser: Browser,
    pre_login: str,
    *,
    session_id: str | None = None,
) -> tuple[str, PendingLogin]:
    """A new interaction of the browser and its handle, counted by the rate limits of authorization requests.

    Args:
        pre_login: the cookie that binds it to the browser.
        session_id: the browser session that is asked for consent; None before the sign-in.
    Raises: TooManyTries; Unavailable.
    """
    client_id = "" if isinstance(request, ZonePageRequest) else request.client_id
    await throttling.check_authorization_request_rate(services, zone, client_id, browser.address)
    interaction = PendingLogin(
        request=request,
        browser=browser_of(services, pre_login),
        created_at=services.clock(),
        session_id=session_id,
    )
    handle = new_secret()
    await store(services, zone.id, handle, interaction)
    return handle, interaction


async def client_of(zone: CachedZone, request: AuthorizationRequest) -> Client:
    """The client of a pending request. Raises BadLink when it has changed since the request was checked."""
    client = await client_lookup.find_unchanged(zone, request.client_id, request.party_id)
    if client is None or not redirect_uris.allows(client.redirect_uris, request.redirect_uri):
        raise BadLink(
            "the application or its redirect URI is no longer registered; go back to the application"
        )
    current_decision().name_client(client)
    return client


async def store(services: Services, zone_id: str, handle: str, interaction: PendingLogin) -> None:
    """Store an interaction under its handle, for a quarter of an hour."""
    await services.state.put(
        _key(services, "interaction", zone_id, handle),
        interaction.model_dump_json().encode(),
        ttl_seconds=INTERACTION_SECONDS,
    )


async def find(services: Services, zone_id: str, handle: str | None, pre_login: str | None) -> PendingLogin:
    """The interaction of that handle, in the browser it was started in. Raises BadLink."""
    stored = await services.state.get(_key(services, "interaction", zone_id, handle)) if handle else None
    interaction = state_values.read(PendingLogin, stored)
    if interaction is None or pre_login is None:
        raise BadLink(_LOST)
    if not services.hasher.matches(pre_login, bytes.fromhex(interaction.browser)):
        raise BadLink(_LOST, internal="another browser than the one that started it")
    return interaction


async def remember_invitation(
    services: Services, zone_id: str, handle: str, interaction: PendingLogin, invitation: str
) -> PendingLogin:
    """The interaction, from now on of somebody with that invitation.

    Args:
        invitation: hash of its token, in hex.
    """
    request = interaction.request.model_copy(update={"invitation": invitation})
    invited = interaction.model_copy(update={"request": request})
    await store(services, zone_id, handle, invited)
    return invited


async def finish(services: Services, zone_id: str, handle: str) -> None:
    """Forget an interaction: it has its answer."""
    await services.state.delete(_key(services, "interaction", zone_id, handle))


def new_form_token(services: Services, zone_id: str, handle: str, purpose: str) -> str:
    """A token for one submission of one form of an interaction, for a quarter of an hour.

    Nothing is kept for a page that is looked at: what is remembered is that a token was used.
    """
    until = int(services.clock().timestamp()) + INTERACTION_SECONDS
    unsigned = f"{until}.{new_secret()}"
    return f"{unsigned}.{_signature(services, zone_id, handle, purpose, unsigned)}"


async def consume_form_token(
    services: Services, zone_id: str, handle: str, purpose: str, token: str | None, *, address: str
) -> None:
    """Accept a submission, once. Raises ForgedForm; TooManyTries; Unavailable.

    Args:
        address: where it comes from.
    """
    unsigned, _, signature = (token or "").rpartition(".")
    expected = _signature(services, zone_id, handle, purpose, unsigned)
    if not compare_digest(signature.encode("utf-8", "replace"), expected.encode("ascii")):
        raise ForgedForm(_SENT_ALREADY)
    left = int(unsigned.partition(".")[0]) - int(services.clock().timestamp())
    if left <= 0:
        raise ForgedForm(_SENT_ALREADY, internal="too old")
    if wait := await services.rate_limiter.hit(rate_limits.FORMS, zone_id, network_of(address)):
        raise TooManyTries("too many forms were sent; try again in a minute", retry_after_seconds=wait)
    if not await services.state.add(_key(services, "form", zone_id, unsigned), b"1", ttl_seconds=left + 1):
        raise ForgedForm(_SENT_ALREADY, internal="used before")


def _signature(services: Services, zone_id: str, handle: str, purpose: str, unsigned: str) -> str:
    """What only this service can make for a form."""
    return services.hasher.hash(f"form\0{zone_id}\0{purpose}\0{unsigned}\0{handle}").hex()


def _key(services: Services, kind: str, zone_id: str, handle: str) -> str:
    return f"{kind}:{zone_id}:{services.hasher.hash(handle).hex()}"
