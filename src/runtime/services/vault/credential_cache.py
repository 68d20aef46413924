"""The cache of users' credentials: sealed, and valid until something changes that they depend on.

An entry belongs to a user, a resource and a provider, whatever application asks: consent, dependencies and
policies are checked for each, before the entry counts. What ends an entry is its own expiry, the time to
refresh it, and the epochs: the user's for what the user or an administrator revokes, connects or stores, the
zone's for a change of the resource or the provider. So whatever a refresh replaces was over already, and no
refresh has to forget it here.
"""

from datetime import UTC, datetime
from hashlib import sha256
from typing import NamedTuple

import orjson
from pydantic import SecretStr

from runtime.domain.errors import Unavailable
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.values import ProviderType
from runtime.domain.oauth.claims import seconds
from runtime.services import state_values
from runtime.services.container import Services
from runtime.services.vault.credentials import KeptCredential
from runtime.services.zones import CachedZone, SessionRoot
from runtime.storage.sql.vault_tokens import VaultPlace

MIN_REMAINING_SECONDS = 60  # what has less left to live is read again
LONGEST_SECONDS = 600


class _Entry(NamedTuple):
    """A credential as the short-lived state has it; instants in seconds since the epoch.

    Attributes:
        epochs: of the zone and the user.
    """

    access_token: str
    token_type: str
    scopes: frozenset[str]
    expires_at: int | None
    fresh_until: int
    refreshed_row: str | None
    epochs: tuple[int, int]


async def place_of(
    zone: CachedZone, root: SessionRoot | None, resource: Resource | None
) -> VaultPlace | None:
    """What the user's credential for a resource is for; None where there can be none in the vault."""
    if root is None or resource is None or resource.credential_provider_id is None:
        return None
    provider = await zone.providers.get(resource.credential_provider_id)
    if provider is None or provider.type is ProviderType.SERVICE_STS:
        return None
    return VaultPlace(zone.id, root.principal.user.id, resource.id, provider.id)


def entry_key(place: VaultPlace) -> str:
    """Where the short-lived state keeps the credential of a grant."""
    told = orjson.dumps([place.user_id, place.resource_id, place.provider_id])
    return f"vault:{place.zone_id}:{sha256(told).hexdigest()}"


def open_entry(
    sealed: bytes | None,
    zone: CachedZone,
    root: SessionRoot | None,
    place: VaultPlace | None,
    now: datetime,
) -> KeptCredential | None:
    """The credential, when it was kept under epochs that still stand and is not about to end; None otherwise.

    An entry that was moved here from another key does not open.
    """
    if sealed is None or root is None or place is None:
        return None
    kept = state_values.read_sealed(_Entry, sealed, zone.sealer, bound_to=entry_key(place))
    if kept is None or kept.fresh_until <= now.timestamp():
        return None
    kept_under, of_user = kept.epochs
    changed_at = zone.history.changed_at((place.resource_id, place.provider_id))
    if of_user != root.principal.user.epoch or not changed_at <= kept_under <= zone.epoch:
        return None
    return KeptCredential(
        access_token=SecretStr(kept.access_token),
        token_type=kept.token_type,
        scopes=kept.scopes,
        expires_at=None if kept.expires_at is None else datetime.fromtimestamp(kept.expires_at, UTC),
        refreshed_row=kept.refreshed_row,
    )


async def store(
    services: Services, zone: CachedZone, root: SessionRoot, credential: KeptCredential, *, now: datetime
) -> None:
    """Keep a credential that was read from the vault. A state that is away costs only speed."""
    if credential.place is None or credential.record is None:
        return
    fresh_until = seconds(now) + LONGEST_SECONDS
    if credential.expires_at is not None:
        fresh_until = min(fresh_until, seconds(credential.expires_at) - MIN_REMAINING_SECONDS)
    if (refresh_at := credential.record.tokens.refresh_at) is not None:
        fresh_until = min(fresh_until, seconds(refresh_at))
    remaining = fresh_until - seconds(now)
    if remaining <= 0:
        return
    key = entry_key(credential.place)
    plain = orjson.dumps(
        [
            credential.access_token.get_secret_value(),
            credential.token_type,
            sorted(credential.scopes),
            None if credential.expires_at is None else seconds(credential.expires_at),
            fresh_until,
            credential.refreshed_row,
            (zone.epoch, root.principal.user.epoch),
        ]
    )
    try:
        await services.state.put(key, zone.sealer.seal(plain, bound_to=key), ttl_seconds=remaining)
    except Unavailable:
        return
