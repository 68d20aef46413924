"""Delivering the logout notices that wait in the outbox: a logout token, posted to the client.

Spec: OpenID Connect Back-Channel Logout sections 2.4 to 2.8.
"""

from datetime import timedelta
from typing import TYPE_CHECKING

from runtime.adapters.outbound import OutboundFailed, OutboundRefused
from runtime.domain.errors import NotFound
from runtime.domain.oauth.claims import seconds
from runtime.domain.oauth.logout import LOGOUT_EVENT, LOGOUT_TOKEN_TYPE
from runtime.services.client_types import ID_TOKEN_ALGORITHM
from runtime.services.issuing.access_tokens import new_token_id
from runtime.services.outbox.letters import Letter, NotDelivered, Undeliverable

if TYPE_CHECKING:
    from runtime.services.container import Services

_LIFETIME = timedelta(seconds=120)


async def deliver(services: "Services", letter: Letter) -> None:
    """Post a logout token, which is made for this attempt. Raises NotDelivered, Undeliverable."""
    try:
        zone = await services.zones.get(letter.zone_id or "")
    except NotFound:
        raise Undeliverable("the zone is gone") from None
    now = services.clock()
    claims = {
        "iss": zone.issuer,
        "aud": letter.payload["client_id"],
        "sub": letter.payload["subject"],
        "sid": letter.payload["session_id"],
        "iat": seconds(now),
        "exp": seconds(now + _LIFETIME),
        "jti": new_token_id(),
        "events": {LOGOUT_EVENT: {}},
    }
    client = await zone.client(letter.payload["client_id"])
    algorithm = client.id_token_algorithm if client else ID_TOKEN_ALGORITHM
    token = zone.signing(algorithm).sign(claims, typ=LOGOUT_TOKEN_TYPE)
    # A client that does not answer holds up itself alone.
    share = f"{zone.sites_of_clients}, {letter.payload['client_id']}"
    try:
        status, _ = await services.outbound.post_form(
            letter.payload["address"], {"logout_token": token}, partition=share
        )
    except OutboundRefused as failure:
        raise Undeliverable(str(failure)) from None
    except OutboundFailed as failure:
        raise NotDelivered(str(failure)) from None
    if status not in (200, 204):
        raise Undeliverable(f"answered {status}")
