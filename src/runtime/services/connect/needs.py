"""The requirements of a connect link: what its user still has to give, and for which scopes."""

from dataclasses import dataclass
from enum import StrEnum

from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.values import ProviderType
from runtime.domain.lifetimes import is_active
from runtime.domain.oauth import attenuation
from runtime.services.authority import consents
from runtime.services.connect.requests import CheckedLink
from runtime.services.container import Services
from runtime.services.vault import credentials
from runtime.services.zones import CachedZone
from runtime.storage.sql import vault_tokens
from runtime.storage.sql.vault_tokens import VaultRecord, VaultState


class Need(StrEnum):
    """What the user has to give."""

    NOTHING = "nothing"
    CONSENT = "consent"
    KEY = "key"  # and consent: a credential of their own, for a resource of the vault
    ACCOUNT = "account"  # and consent: access to an account at an outside provider


@dataclass(frozen=True, slots=True)
class Requirement:
    """What the user is asked for.

    Attributes:
        scopes: what the application could do afterwards: those that were requested, and where it is handed a
            credential, all that the credential can do.
        optional: those of them that need not be requested of a provider: nobody has named them.
    """

    need: Need
    scopes: frozenset[str]
    optional: frozenset[str] = frozenset()


async def find_requirement(services: Services, zone: CachedZone, asked: CheckedLink) -> Requirement:
    """What is left to do, as of now."""
    provider = asked.provider
    if provider is None or provider.type is ProviderType.SERVICE_STS:
        return await _unless_allowed(services, zone, asked, asked.scopes)
    offered = frozenset(asked.resource.scopes or ())
    record = await _record(services, zone, asked, provider)
    is_usable = record is not None and _is_usable(services, record) and record.scopes <= offered
    if provider.type is ProviderType.EXTERNAL:
        connected = frozenset() if record is None else record.scopes & offered
        if is_usable and asked.scopes <= connected:
            return await _unless_allowed(services, zone, asked, connected)
        wanted = attenuation.connection_scopes(asked.scopes, connected, offered)
        return Requirement(
            Need.ACCOUNT, wanted, frozenset() if asked.link.scopes is not None else wanted - connected
        )
    if record is not None and is_usable:
        return await _unless_allowed(services, zone, asked, record.scopes)
    shared = await credentials.find_shared(services, zone, asked.resource)
    if shared is not None and not await _has_ended(services, zone, asked):
        return await _unless_allowed(services, zone, asked, shared.scopes)
    return Requirement(Need.KEY, offered)


async def _unless_allowed(
    services: Services, zone: CachedZone, asked: CheckedLink, scopes: frozenset[str]
) -> Requirement:
    agreed = await consents.consents_of(services, zone, asked.client, asked.signed_in.user)
    given = agreed.given.get(asked.resource.id)
    grants = await consents.grants_of(zone, asked.resource, agreed.grants)
    allowed = consents.allowance(
        asked.client, given.scopes if given is not None else None, grants, services.clock()
    )
    is_allowed = allowed is not None and allowed.covers(scopes)
    return Requirement(Need.NOTHING if is_allowed else Need.CONSENT, scopes)


async def _has_ended(services: Services, zone: CachedZone, asked: CheckedLink) -> bool:
    """Tell whether the user has taken the resource back from everybody: consent alone does not undo that."""
    agreed = await consents.consents_of(services, zone, asked.client, asked.signed_in.user)
    grants = await consents.grants_of(zone, asked.resource, agreed.grants)
    return not all(is_active(grant, services.clock()) for grant in grants)


async def _record(
    services: Services, zone: CachedZone, asked: CheckedLink, provider: Provider
) -> VaultRecord | None:
    """The user's credential for the resource, of an active grant."""
    async with services.database.querying() as conn:
        return await vault_tokens.find(
            conn,
            zone_id=zone.id,
            user_id=asked.signed_in.user.id,
            resource_id=asked.resource.id,
            provider_id=provider.id,
            now=services.clock(),
        )


def _is_usable(services: Services, record: VaultRecord) -> bool:
    """Tell whether an exchange could hand it out, refreshed where it has expired."""
    tokens = record.tokens
    has_expired = tokens.expires_at is not None and tokens.expires_at <= services.clock()
    return record.state is VaultState.LIVE and (not has_expired or tokens.refresh_token is not None)
