"""A token request as the grant types get it."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from runtime.services.client_types import Client
from runtime.services.container import Services
from runtime.services.decision_log import Decision
from runtime.services.grants.known_exchanges import SentRequest
from runtime.services.zones import CachedZone


class TokenContext(NamedTuple):
    """A token request whose client has been authenticated.

    Attributes:
        form: every parameter once; `resource` and `audience` stand apart because they may be repeated.
        now: the one present of the whole request.
        jkt: thumbprint of the key that the sender has proved to have; None when no proof came.
        decision: what the record will say; a grant fills in whom and what it found.
        sent: the request as it came, if the same bytes prove the same once more.
    """

    services: Services
    zone: CachedZone
    client: Client
    form: Mapping[str, str]
    resources: tuple[str, ...]
    audiences: tuple[str, ...]
    now: datetime
    request_id: str
    decision: Decision
    jkt: str | None = None
    sent: SentRequest | None = None
