"""Links that a zone hands out and recognizes again: sealed under its key, so nothing is stored for them."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TypeVar

from pydantic import BaseModel

from runtime.domain.errors import BadLink
from runtime.services import state_values
from runtime.services.zones import CachedZone

MAX_LINK_CHARS = 4_000  # what every browser and server takes as part of an address
_UNKNOWN = "this link is incomplete, or of another zone; go back and request a new one"

_Link = TypeVar("_Link", bound=BaseModel)


def seal_link(zone: CachedZone, kind: str, link: BaseModel) -> str:
    """The link as a parameter of an address.

    Args:
        kind: what it is for, such as `connect_links`; for anything else, or in another zone, it is void.
    """
    sealed = zone.sealer.seal(link.model_dump_json().encode(), bound_to=_place(kind, zone))
    return urlsafe_b64encode(sealed).rstrip(b"=").decode("ascii")


def open_link(zone: CachedZone, kind: str, model: type[_Link], text: str) -> _Link:
    """What a link of the zone says; whether it has expired is for the caller. Raises BadLink."""
    try:
        sealed = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except ValueError:
        raise BadLink(_UNKNOWN) from None
    link = state_values.read_sealed(model, sealed, zone.sealer, bound_to=_place(kind, zone))
    if link is None:
        raise BadLink(_UNKNOWN)
    return link


def _place(kind: str, zone: CachedZone) -> str:
    return f"{kind}/{zone.id}"
