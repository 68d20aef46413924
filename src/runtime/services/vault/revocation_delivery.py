"""Delivering the upstream revocations that wait in the outbox: requests to a provider's revocation endpoint.

A revocation that is delivered late must not end what the user has authorized since. RFC 7009 leaves it open
what ends with a token: many providers end all that the user has given the client (section 2.1, "the same
authorization grant"), and none says in advance whether it does. So nothing is revoked while the user has
another connected account at the same provider. What is left there then is worth little where each token ends
by itself: the refresh token was in nobody's hands but the zone's, which has forgotten it, and an access token
ends when it expires. A connection that is lost takes the user.

Spec: RFC 7009 section 2.1.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from runtime.adapters.identity_providers.settings import ProviderSettings, settings_of
from runtime.adapters.keys.sealing import SealBroken
from runtime.adapters.upstream_oauth.client import UpstreamOAuthClient
from runtime.adapters.upstream_oauth.client_authentication import signs_assertions
from runtime.adapters.upstream_oauth.revocation_request import RevocationOutcome, TokenTypeHint
from runtime.adapters.upstream_oauth.token_response import RefusalKind
from runtime.domain.delegated_grants import issuing_addresses
from runtime.domain.errors import NotFound
from runtime.metrics import UPSTREAM_REVOCATIONS
from runtime.services.authorization import provider_requests
from runtime.services.outbox.messages import Message, NotDelivered, Undeliverable
from runtime.services.vault.assertion_keys import assertion_key
from runtime.services.vault.upstream_revocations import RevocationMessage
from runtime.services.zones import CachedZone, ZoneRegistry
from runtime.storage.sql import vault_tokens, zone_data
from runtime.storage.sql.database import Database

ATTEMPTS = 8
FIRST_DELAY_SECONDS = 120
SUPERSEDED = "superseded"  # the user has another account there


@dataclass(frozen=True, slots=True)
class UpstreamRevocationDelivery:
    """Delivers the messages of the topic `upstream-revocation`."""

    zones: ZoneRegistry
    database: Database
    upstream_oauth: UpstreamOAuthClient
    clock: Callable[[], datetime]

    async def deliver(self, message: Message) -> None:
        """Revoke both tokens at the provider. Raises NotDelivered, Undeliverable."""
        try:
            ended = RevocationMessage.model_validate(message.payload)
        except ValidationError:
            raise NotDelivered("the message is of another release") from None
        zone = await self._zone(message)
        settings = await self._settings(zone, ended)
        if settings is None:
            UPSTREAM_REVOCATIONS.labels(SUPERSEDED).inc()
            return
        if zone is None and signs_assertions(settings):
            raise Undeliverable("the zone, whose key signs requests to the provider, no longer exists")
        key = assertion_key(zone, settings) if zone is not None else None
        for token, hint in _tokens(ended):
            done = await self.upstream_oauth.revoke(
                settings, token=token, token_type_hint=hint, signing_key=key
            )
            UPSTREAM_REVOCATIONS.labels(done.outcome.value).inc()
            if done.outcome is RevocationOutcome.FAILED and done.refusal is not None:
                failure = NotDelivered if done.refusal.kind is RefusalKind.TEMPORARY else Undeliverable
                raise failure(f"the provider answered {done.refusal.code}")

    async def _zone(self, message: Message) -> CachedZone | None:
        """The zone of a message; None where it was deleted."""
        if message.zone_id is None:
            return None
        try:
            return await self.zones.get(message.zone_id)
        except NotFound:
            return None

    async def _settings(self, zone: CachedZone | None, ended: RevocationMessage) -> ProviderSettings | None:
        """How to talk to the provider; None where its user has another connected account there.

        With the secret that it has now, as long as it is the provider that issued the tokens.
        """
        then = settings_of(ended.provider, client_secret=ended.client_secret)
        if zone is None:
            return then
        addresses = issuing_addresses(ended.provider)
        async with self.database.querying() as conn:
            connected = await vault_tokens.connected_providers(
                conn, zone_id=zone.id, user_id=ended.user_id, now=self.clock()
            )
            for provider_id in connected:
                other = await zone_data.provider(conn, zone.id, provider_id)
                if other is not None and issuing_addresses(other) == addresses:
                    return None
            provider = await zone_data.provider(conn, zone.id, ended.provider.id)
        if provider is None or issuing_addresses(provider) != addresses:
            return then
        try:
            return provider_requests.open_settings(zone, provider)
        except SealBroken:
            return then


def _tokens(ended: RevocationMessage) -> Iterator[tuple[str, TokenTypeHint]]:
    """The tokens, the refresh token first: with it most providers end all that it made."""
    if ended.refresh_token is not None:
        yield ended.refresh_token, "refresh_token"
    yield ended.access_token, "access_token"
