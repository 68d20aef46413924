"""Upstream revocations in the outbox (RFC 7009): credentials that have ended here, and end at their provider.

A message has all that its delivery takes: the tokens, the provider as it was, and its client secret. So it is
delivered although the provider or the zone is deleted right afterwards, and the tokens go to the addresses
that they came from, whatever becomes of the provider.

Tokens that connecting again has replaced are not among them: many providers end all that one user has given
one client with any token of it, the new one, too.
"""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.adapters.keys.sealing import SealBroken, Sealer
from runtime.adapters.upstream_oauth.token_response import UpstreamTokens
from runtime.domain.kinds import PROVIDER
from runtime.domain.kinds.provider import Provider
from runtime.services import address_bound_secrets
from runtime.services.outbox.delivery import Outbox
from runtime.services.vault.sealing import open_access_token, open_refresh_token
from runtime.services.zones import CachedZone
from runtime.storage.sql import vault_tokens, zone_data
from runtime.storage.sql.vault_tokens import EndedCredential

TOPIC = "upstream-revocation"
MOST = 1_000  # of one change; what is beyond ends at the provider by itself


class RevocationMessage(BaseModel):
    """What is to end at a provider, in clear: the outbox seals its messages.

    Attributes:
        provider: as it was when the tokens ended here, without its secret.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    user_id: str
    provider: Provider
    client_secret: str | None = Field(repr=False)
    access_token: str = Field(repr=False)
    refresh_token: str | None = Field(repr=False)


async def find(
    conn: AsyncConnection,
    *,
    zone_id: str,
    grant_id: str | None = None,
    user_id: str | None = None,
    resource_id: str | None = None,
    provider_id: str | None = None,
) -> Sequence[EndedCredential]:
    """The credentials that are about to go with a grant, a user, a resource, a provider, or the zone.

    Before they go, in the same transaction.
    """
    named = {"grant_id": grant_id, "user_id": user_id, "resource_id": resource_id, "provider_id": provider_id}
    return await vault_tokens.issued(conn, zone_id=zone_id, limit=MOST, **named)


async def enqueue(
    conn: AsyncConnection, outbox: Outbox, sealer: Sealer, ended: Sequence[EndedCredential]
) -> None:
    """Have these credentials revoked by the provider that there is now; notify the outbox after the commit.

    Args:
        sealer: the zone's. What it does not open, for a provider at these addresses, is sent nowhere.
        ended: of that zone.
    """
    providers: dict[str, tuple[Provider, str | None] | None] = {}
    messages = []
    for each in ended:
        if each.provider_id not in providers:
            found = await zone_data.provider(conn, each.zone_id, each.provider_id)
            providers[each.provider_id] = _with_secret(sealer, found) if found is not None else None
        if (known := providers[each.provider_id]) is None:
            continue
        message = _opened(sealer, each, *known)
        if message is not None:
            messages.append((each.provider_id, message.model_dump(mode="json")))
    if messages:
        zone = {"organization_id": ended[0].organization_id, "zone_id": ended[0].zone_id}
        await outbox.enqueue_many(conn, TOPIC, messages, **zone)


async def enqueue_unused(
    conn: AsyncConnection,
    outbox: Outbox,
    zone: CachedZone,
    provider: Provider,
    user_id: str,
    tokens: UpstreamTokens,
) -> None:
    """Have tokens revoked that a provider has issued for a connection which is not made after all.

    Those of another connection of the user at that provider keep them alive, as ever: its delivery looks.
    """
    known = _with_secret(zone.sealer, provider)
    if known is None:
        return
    message = RevocationMessage(
        user_id=user_id,
        provider=known[0],
        client_secret=known[1],
        access_token=tokens.access_token,
        refresh_token=tokens.refresh_token,
    )
    await outbox.enqueue(
        conn,
        TOPIC,
        message.model_dump(mode="json"),
        organization_id=zone.organization_id,
        zone_id=zone.id,
        receiver=provider.id,
    )


def _with_secret(sealer: Sealer, provider: Provider) -> tuple[Provider, str | None] | None:
    """A provider without the secret, and that in clear; None where it was given for other addresses."""
    try:
        secret = address_bound_secrets.opened(sealer, PROVIDER, provider, "client_secret")
    except SealBroken:
        return None
    return provider.model_copy(update={"client_secret": None}), secret


def _opened(
    sealer: Sealer, ended: EndedCredential, provider: Provider, secret: str | None
) -> RevocationMessage | None:
    """The message; None for a refresh token that came from other addresses."""
    place = (sealer, ended.row_id, ended.version, ended.tokens)
    try:
        refresh_token = open_refresh_token(*place, provider)
        access_token = open_access_token(*place)
    except SealBroken:
        return None
    return RevocationMessage(
        user_id=ended.user_id,
        provider=provider,
        client_secret=secret,
        access_token=access_token.get_secret_value(),
        refresh_token=refresh_token.get_secret_value() if refresh_token is not None else None,
    )
