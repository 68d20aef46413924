"""Delivering the logout notices that wait in the outbox: a logout token, posted to the client.

Spec: OpenID Connect Back-Channel Logout sections 2.4 to 2.8.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from runtime.adapters.outbound import Outbound, OutboundFailed, OutboundRefused
from runtime.domain.errors import NotFound
from runtime.domain.oauth.claims import seconds
from runtime.domain.oauth.logout import LOGOUT_EVENT, LOGOUT_TOKEN_TYPE
from runtime.services.client_types import ID_TOKEN_ALGORITHM
from runtime.services.issuing.access_tokens import new_token_id
from runtime.services.outbox.messages import Message, NotDelivered, Undeliverable
from runtime.services.zones import ZoneRegistry

_LIFETIME = timedelta(seconds=120)


@dataclass(frozen=True, slots=True)
class BackchannelLogoutDelivery:
    """Delivers the messages of the topic `backchannel-logout`."""

    zones: ZoneRegistry
    outbound: Outbound
    clock: Callable[[], datetime]

    async def deliver(self, message: Message) -> None:
        """Post a logout token, which is made for this attempt. Raises NotDelivered, Undeliverable."""
        try:
            zone = await self.zones.get(message.zone_id or "")
        except NotFound:
            raise Undeliverable("the zone no longer exists") from None
        now = self.clock()
        known = message.payload.get("issuer")  # to the client, which signed in before the zone was moved
        claims = {
            "iss": known if known in zone.issuers else zone.issuer,
            "aud": message.payload["client_id"],
            "sub": message.payload["subject"],
            "sid": message.payload["session_id"],
            "iat": seconds(now),
            "exp": seconds(now + _LIFETIME),
            "jti": new_token_id(),
            "events": {LOGOUT_EVENT: {}},
        }
        client = await zone.clients.get(message.payload["client_id"])
        algorithm = client.id_token_algorithm if client else ID_TOKEN_ALGORITHM
        token = zone.signing(algorithm).sign(claims, typ=LOGOUT_TOKEN_TYPE)
        # A client that does not answer holds up itself alone.
        share = f"{zone.sites_of_clients}, {message.payload['client_id']}"
        try:
            status, _ = await self.outbound.post_form(
                message.payload["address"], {"logout_token": token}, partition=share
            )
        except OutboundRefused as failure:
            raise Undeliverable(str(failure)) from None
        except OutboundFailed as failure:
            raise NotDelivered(str(failure)) from None
        if status not in (200, 204):
            raise Undeliverable(f"answered {status}")
