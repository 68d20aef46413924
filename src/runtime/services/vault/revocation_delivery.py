"""Delivering the upstream revocations that wait in the outbox: requests to a provider's revocation endpoint.

Spec: RFC 7009 section 2.1.
"""

from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass

from runtime.adapters.keys.sealing import SealBroken
from runtime.adapters.upstream_oauth.client import UpstreamOAuthClient
from runtime.adapters.upstream_oauth.revocation_request import RevocationOutcome, TokenTypeHint
from runtime.adapters.upstream_oauth.token_response import RefusalKind
from runtime.domain.delegated_grants import issuing_addresses
from runtime.domain.errors import NotFound
from runtime.domain.kinds.provider import Provider
from runtime.metrics import UPSTREAM_REVOCATIONS
from runtime.services.authorization import provider_requests
from runtime.services.outbox.messages import Message, NotDelivered, Undeliverable
from runtime.services.vault.assertion_keys import assertion_key
from runtime.services.vault.sealing import open_access_token, open_refresh_token
from runtime.services.zones import CachedZone, ZoneRegistry
from runtime.storage.sql import zone_data
from runtime.storage.sql.database import Database
from runtime.storage.sql.vault_tokens import SealedTokens

ATTEMPTS = 8
FIRST_DELAY_SECONDS = 120
_ANOTHER = "the provider has other addresses than the tokens came from"


@dataclass(frozen=True, slots=True)
class UpstreamRevocationDelivery:
    """Delivers the messages of the topic `upstream-revocation`."""

    zones: ZoneRegistry
    database: Database
    upstream_oauth: UpstreamOAuthClient

    async def deliver(self, message: Message) -> None:
        """Revoke the refresh token and the access token at the provider. Raises NotDelivered, Undeliverable.

        A provider that was changed since is sent nothing: they were issued by another.
        """
        try:
            zone = await self.zones.get(message.zone_id or "")
        except NotFound:
            raise Undeliverable("the zone no longer exists") from None
        async with self.database.querying() as conn:
            provider = await zone_data.provider(conn, zone.id, message.payload["provider_id"])
        if provider is None:
            raise Undeliverable("the provider no longer exists")
        if list(issuing_addresses(provider)) != message.payload["addresses"]:
            raise Undeliverable(_ANOTHER)
        try:
            tokens = list(_tokens(zone, provider, message))
            settings = provider_requests.open_settings(zone, provider)
        except SealBroken:
            raise Undeliverable(_ANOTHER) from None
        for token, hint in tokens:
            done = await self.upstream_oauth.revoke(
                settings, token=token, token_type_hint=hint, signing_key=assertion_key(zone, settings)
            )
            UPSTREAM_REVOCATIONS.labels(done.outcome.value).inc()
            if done.outcome is RevocationOutcome.FAILED and done.refusal is not None:
                failure = NotDelivered if done.refusal.kind is RefusalKind.TEMPORARY else Undeliverable
                raise failure(f"the provider answered {done.refusal.code}")


def _tokens(zone: CachedZone, provider: Provider, message: Message) -> Iterator[tuple[str, TokenTypeHint]]:
    """The tokens of a message in clear, the refresh token first: with it most providers end all that it made.

    Raises: SealBroken for tokens of a provider at other addresses.
    """
    payload = message.payload
    row_id, version, refresh_token = payload["row_id"], payload["version"], payload["refresh_token"]
    sealed = SealedTokens(
        access_token=b64decode(payload["access_token"]),
        refresh_token=b64decode(refresh_token) if refresh_token is not None else None,
        token_type="",
        expires_at=None,
    )
    opened = open_refresh_token(zone.sealer, row_id, version, sealed, provider)
    if opened is not None:
        yield opened.get_secret_value(), "refresh_token"
    access_token = open_access_token(zone.sealer, row_id, version, sealed)
    yield access_token.get_secret_value(), "access_token"
