"""The address at which a request asks a zone: set by the router, read wherever the zone is looked up.

A zone that was moved is another view at each of its addresses (`CachedZone.at`), and every look-up in a
request must give the same one. What runs outside a request sees the zone at its present address.
"""

from contextvars import ContextVar
from dataclasses import dataclass

from runtime.domain.zone_addresses import SentTo


@dataclass(slots=True)
class AskedAddress:
    """What is known of the address of one request, and what came of it.

    Attributes:
        zone_id: of the zone that is asked; others are seen as outside requests.
        former: the former issuer that it was sent to; None for the present one.
        client_id: the client that has proved who it is.
    """

    sent_to: SentTo
    zone_id: str
    former: str | None = None
    client_id: str | None = None


# That of the present request; None outside one.
ASKED: ContextVar[AskedAddress | None] = ContextVar("asked_address", default=None)
