"""Static credentials: an API key of a user's own, stored for a resource of the vault by the user."""

from datetime import datetime

from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import InvalidRequest
from runtime.domain.identifiers import new_id
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.values import ProviderType
from runtime.domain.oauth.decision_events import DecisionEvent, DecisionOutcome
from runtime.services import epochs
from runtime.services.container import Services
from runtime.services.decision_log import current_decision
from runtime.services.vault.sealing import BEARER, VaultTokens, seal
from runtime.services.zones import CachedZone
from runtime.storage.sql import consents, vault_tokens, zone_data
from runtime.storage.sql import token_events as token_events
from runtime.storage.sql.token_events import TokenEvent

MAX_CHARS = 8_192
_EVENT, _OUTCOME = DecisionEvent.CREDENTIAL, DecisionOutcome.STORED


def check(value: str) -> SecretStr:
    """The credential that a user has pasted, without the white space around it. Raises InvalidRequest."""
    stripped = value.strip()
    if not stripped:
        raise InvalidRequest("the key is empty; go back, paste it and try again")
    if len(stripped) > MAX_CHARS:
        raise InvalidRequest(
            f"the key has more than {MAX_CHARS:,} characters; go back and paste the key alone"
        )
    if not (stripped.isascii() and stripped.isprintable()):
        raise InvalidRequest(
            "the key has characters that cannot be sent in an HTTP header; go back and paste the key alone"
        )
    return SecretStr(stripped)


async def store(
    services: Services,
    zone: CachedZone,
    user_id: str,
    resource_id: str,
    credential: SecretStr,
    *,
    shown: str,
) -> None:
    """As `put`, in a transaction of its own. Raises InvalidRequest."""
    async with services.epochs.transaction(tenant=zone.organization_id) as (conn, bumped):
        # First of all, so that whoever reads the user's grants meanwhile is seen, or reads them again.
        bumped.update(await epochs.bump_user(conn, zone.id, user_id))
        await put(conn, zone, user_id, resource_id, credential, shown=shown, now=services.clock())


async def put(
    conn: AsyncConnection,
    zone: CachedZone,
    user_id: str,
    resource_id: str,
    credential: SecretStr,
    *,
    shown: str,
    now: datetime,
) -> None:
    """Keep a credential of the user for a resource: their delegated grant for it is active from now on.

    It is worth what the resource's scopes of today are, and takes the place of the one before. No application
    may use it without the user's consent of its own. Part of the caller's `services.epochs.transaction`,
    whose first statement is `epochs.bump_user`.

    Args:
        shown: the resource's identifier on the page on which the user has pasted the credential.
    Raises: InvalidRequest when the resource does not have its credentials from the zone's vault, or has
        another identifier by now: the credential would be sent to another address than the user has read.
    """
    resource = await zone_data.resource(conn, zone.id, resource_id)
    provider_id = resource.credential_provider_id if resource else None
    provider = await zone_data.provider(conn, zone.id, provider_id) if provider_id else None
    if resource is None or provider is None or provider.type != ProviderType.SERVICE_VAULT:
        raise InvalidRequest("no key is kept for that resource")
    if resource.identifier != shown:
        raise InvalidRequest(
            "the resource's address was changed meanwhile; read the page again, then paste the key"
        )
    grant_id, _ = await consents.grant(
        conn,
        organization_id=zone.organization_id,
        zone_id=zone.id,
        user_id=user_id,
        resource_id=resource.id,
        provider_id=provider.id,
        scopes=resource.scopes or (),
        now=now,
        replaces=True,
    )
    row_id = new_id()
    tokens = VaultTokens(credential, None, BEARER, None)
    sealed = seal(zone.sealer, row_id, 1, tokens, provider)
    await vault_tokens.put(conn, row_id, sealed, zone_id=zone.id, grant_id=grant_id, now=now)
    await token_events.add(conn, [_stored(zone, user_id, resource, now)])


def _stored(zone: CachedZone, user_id: str, resource: Resource, now: datetime) -> TokenEvent:
    return TokenEvent(
        id=new_id(),
        organization_id=zone.organization_id,
        zone_id=zone.id,
        at=now,
        event=_EVENT,
        outcome=_OUTCOME,
        user_id=user_id,
        resource_id=resource.id,
        request_id=current_decision().request_id or None,
    )
