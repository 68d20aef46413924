"""The logout request of an application, checked; and its keeping while somebody is asked or sent away.

Whatever is wrong is told on a page: nobody is redirected to an address that is not known to be right.
Spec: OpenID Connect RP-Initiated Logout.
"""

from typing import Any
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict

from runtime.adapters.keys.sealing import new_secret
from runtime.adapters.keys.signing import InvalidToken, verify
from runtime.domain.errors import BadLink, InvalidRequest
from runtime.domain.kinds.user_agent import Registration
from runtime.domain.oauth.claims import ID_TOKEN_TYPE
from runtime.services.authorization.requests import Parameters
from runtime.services.parties import Client
from runtime.services.parts import Parts
from runtime.services.zones import ZoneView

KEPT_SECONDS = 900
_NAMES = ("id_token_hint", "client_id", "post_logout_redirect_uri", "state")


class SignOutRequest(BaseModel):
    """A checked request: nothing in it is only what somebody sent.

    Attributes:
        application: name of the application that sends the user, when it is known.
        subject: identifier of the user its ID token is about.
        return_to: registered by the application, `state` included; None for this zone's own page.
        self_registered: the application introduced itself, and could have registered any address.
    """

    model_config = ConfigDict(frozen=True)

    application: str | None = None
    subject: str | None = None
    return_to: str | None = None
    self_registered: bool = False


async def check(parts: Parts, view: ZoneView, parameters: Parameters) -> SignOutRequest:
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
    hinted = _read_hint(parts, view, hint) if hint is not None else {}
    if hinted is None:
        return SignOutRequest()
    client = await _client(view, hinted, client_id)
    if address is not None and (client is None or address not in client.post_logout_redirect_uris):
        raise BadLink("the address to return to is not one the application has registered")
    return SignOutRequest(
        application=client.name if client else None,
        subject=hinted.get("sub"),
        return_to=_with_state(address, state) if address is not None else None,
        self_registered=client is not None and client.registration is not Registration.MANAGED,
    )


async def keep(parts: Parts, zone_id: str, request: SignOutRequest) -> str:
    """Keep a request; its handle."""
    handle = new_secret()
    await parts.state.put(
        _key(parts, zone_id, handle), request.model_dump_json().encode(), ttl_seconds=KEPT_SECONDS
    )
    return handle


async def find(parts: Parts, zone_id: str, handle: str | None) -> SignOutRequest:
    """The request of that handle; one that asks for nothing when there is none, any more."""
    stored = await parts.state.get(_key(parts, zone_id, handle)) if handle else None
    return SignOutRequest.model_validate_json(stored) if stored is not None else SignOutRequest()


async def take(parts: Parts, zone_id: str, handle: str | None) -> SignOutRequest:
    """The same, once."""
    stored = await parts.state.take(_key(parts, zone_id, handle)) if handle else None
    return SignOutRequest.model_validate_json(stored) if stored is not None else SignOutRequest()


def _read_hint(parts: Parts, view: ZoneView, hint: str) -> dict[str, Any] | None:
    """The claims of an ID token this zone issued, expired or not; None when it is none."""
    try:
        return verify(
            hint,
            view.keys,
            typ=ID_TOKEN_TYPE,
            issuer=view.issuer,
            audience=None,
            now=parts.clock(),
            allow_expired=True,
        )
    except InvalidToken:
        return None


async def _client(view: ZoneView, hinted: dict[str, Any], client_id: str | None) -> Client | None:
    """Who sends the user. Raises BadLink when that is nobody known, or somebody else than the hint says."""
    issued_to = hinted.get("aud")
    if client_id is None:
        return await view.client(issued_to) if isinstance(issued_to, str) else None
    if hinted and issued_to != client_id:
        raise BadLink("the ID token in the link belongs to another application")
    client = await view.client(client_id)
    if client is None:
        raise BadLink("the application is not known here")
    return client


def _with_state(address: str, state: str | None) -> str:
    if state is None:
        return address
    return f"{address}{'&' if '?' in address else '?'}{urlencode({'state': state})}"


def _key(parts: Parts, zone_id: str, handle: str) -> str:
    return f"sign-out:{zone_id}:{parts.hasher.hash(handle).hex()}"
