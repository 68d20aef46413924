"""RP-initiated logout requests: validated, and stored while the user confirms or signs out upstream.

Whatever is wrong is told on a page: nobody is redirected to an address that is not known to be right. Anybody
may send a request, so none is kept: the page that asks has it in its address, sealed. Only who was signed in
and is sent on to the zone's provider leaves one here, for the same browser to come back to.
Spec: OpenID Connect RP-Initiated Logout.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict

from runtime.adapters.keys.sealing import new_secret
from runtime.domain.errors import BadLink, InvalidRequest
from runtime.domain.kinds.user_agent import Registration
from runtime.services import state_values
from runtime.services.authority.id_token_hints import IdTokenHint, read_hint
from runtime.services.authorization.requests import Parameters
from runtime.services.client_types import Client
from runtime.services.container import Services
from runtime.services.zones import CachedZone

KEPT_SECONDS = 900
SIGN_OUT_FORM = "sign-out"  # what the token of the form is for
MAX_RETURN_CHARS = 8192  # of an address to return to: sealed, it travels in an address of ours
_PLACE = "sign-out request"
_NAMES = ("id_token_hint", "client_id", "post_logout_redirect_uri", "state")


class LogoutRequest(BaseModel):
    """A checked request: nothing in it is only what somebody sent.

    Attributes:
        application: name of the application that sends the user, when it is known.
        client_id: what it is known by.
        subject: identifier of the user its ID token is about.
        session_id: the session that its ID token was issued in.
        return_to: registered by the application, `state` included; None for this zone's own page.
        self_registered: the application introduced itself, and could have registered any address.
    """

    model_config = ConfigDict(frozen=True)

    application: str | None = None
    client_id: str | None = None
    subject: str | None = None
    session_id: str | None = None
    return_to: str | None = None
    self_registered: bool = False


class _Carried(BaseModel):
    """A request that travels, and until when it counts: seconds since the epoch."""

    request: LogoutRequest
    until: int


async def check(services: Services, zone: CachedZone, parameters: Parameters) -> LogoutRequest:
    """The request, once everything in it is in order. Raises BadLink.

    With an ID token that means nothing here, as one of a key that was withdrawn, it asks for the way out and
    no more: the user is asked, and sent nowhere. Spec: OpenID Connect RP-Initiated Logout, section 4.
    """
    try:
        hint, client_id, address, state = (parameters.one(name) for name in _NAMES)
    except InvalidRequest as failure:
        raise BadLink(failure.detail) from None
    if repeated := parameters.repeated():
        raise BadLink(f"`{repeated[0]}` was sent more than once")
    hinted = read_hint(services, zone, hint, client_id=None) if hint is not None else None
    if hint is not None and hinted is None:
        return LogoutRequest()
    client = await _client(zone, hinted, client_id)
    if address is not None and (client is None or address not in client.post_logout_redirect_uris):
        raise BadLink("this `post_logout_redirect_uri` is not registered for the application")
    return LogoutRequest(
        application=client.name if client else None,
        client_id=client.client_id if client else None,
        subject=hinted.subject if hinted else None,
        session_id=hinted.session_id if hinted else None,
        return_to=_with_state(address, state) if address is not None else None,
        self_registered=client is not None and client.registration is not Registration.MANAGED,
    )


def seal_request(zone: CachedZone, request: LogoutRequest, now: datetime) -> str:
    """A request as the address of this zone's page has it: only this zone can read it. Raises BadLink."""
    if request.return_to is not None and len(request.return_to) > MAX_RETURN_CHARS:
        raise BadLink("the request is too long")
    until = int(now.timestamp()) + KEPT_SECONDS
    plain = _Carried(request=request, until=until).model_dump_json().encode()
    return urlsafe_b64encode(zone.sealer.seal(plain, bound_to=_PLACE)).rstrip(b"=").decode("ascii")


def open_request(zone: CachedZone, handle: str | None, now: datetime) -> LogoutRequest:
    """The request in such an address; one that asks for nothing but the way out when there is none."""
    try:
        sealed = urlsafe_b64decode(f"{handle or ''}{'=' * (-len(handle or '') % 4)}".encode("ascii"))
    except ValueError:
        return LogoutRequest()
    told = state_values.read_sealed(_Carried, sealed, zone.sealer, bound_to=_PLACE)
    return told.request if told is not None and now.timestamp() < told.until else LogoutRequest()


async def store_request(services: Services, zone_id: str, request: LogoutRequest, browser: str) -> str:
    """Keep a request until its browser is back from the provider; what the provider is to bring along.

    Args:
        browser: what recognises it, as a cookie of this zone has it.
    """
    state = new_secret()
    key = _key(services, zone_id, state, browser)
    await services.state.put_once(key, request.model_dump_json().encode(), ttl_seconds=KEPT_SECONDS)
    return state


async def pop_request(
    services: Services, zone_id: str, state: str | None, browser: str | None
) -> LogoutRequest:
    """The request that was kept for that browser, once; to any other it is one that asks for nothing.

    A link with the state of somebody's own sign-out leads nobody else to where that was to end.
    """
    if state is None or browser is None:
        return LogoutRequest()
    stored = await services.state.take(_key(services, zone_id, state, browser))
    return state_values.read(LogoutRequest, stored) or LogoutRequest()


async def _client(zone: CachedZone, hinted: IdTokenHint | None, client_id: str | None) -> Client | None:
    """Who sends the user. Raises BadLink when that is nobody known, or somebody else than the hint says."""
    if client_id is None:
        return await zone.clients.get(hinted.client_id) if hinted and hinted.client_id else None
    if hinted is not None and hinted.client_id != client_id:
        raise BadLink("the ID token in the link belongs to another application")
    client = await zone.clients.get(client_id)
    if client is None:
        raise BadLink("no application is registered here under this `client_id`")
    return client


def _with_state(address: str, state: str | None) -> str:
    if state is None:
        return address
    return f"{address}{'&' if '?' in address else '?'}{urlencode({'state': state})}"


def _key(services: Services, zone_id: str, state: str, browser: str) -> str:
    whose = services.hasher.hash(f"{state}\0{browser}").hex()
    return f"sign-out:{zone_id}:{whose}"
