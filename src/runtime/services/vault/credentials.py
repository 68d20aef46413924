"""Credentials that a token exchange hands out of the vault, in place of a token of the zone.

A credential is one key or one access token, whose scopes nobody here can reduce: a resource server that takes
it sees all of them. So it is handed out whole or not at all, also where its provider could issue a narrower
one at a refresh (RFC 6749 section 6): many providers do not, and some end the refresh token that was wider.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import SecretStr

from runtime.domain.errors import InvalidScope
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.values import ProviderType
from runtime.domain.oauth import scopes as scope_strings
from runtime.domain.oauth.claims import seconds
from runtime.domain.oauth.exchange import ACCESS_TOKEN
from runtime.services import cache_sizes, secret_values
from runtime.services.authority.consents import Allowance, authorization_required
from runtime.services.client_types import Client
from runtime.services.container import Services
from runtime.services.vault.sealing import BEARER, open_access_token
from runtime.services.zones import CachedZone, ChangeHistory, SessionRoot, TaggedCache, ZoneCache
from runtime.storage.sql import resource_secrets, vault_tokens
from runtime.storage.sql.vault_tokens import VaultPlace, VaultRecord, VaultState

# What a chain without a user is told, for a resource of the vault and of an outside provider.
_WITHOUT_USER = {
    True: (
        "no user is behind this request, and no key is stored for all users of the resource: an administrator"
        " has to store a secret of type `token` for it, or the application exchanges a token of a user"
    ),
    False: (
        "no user is behind this request, and the resource takes the connected account of one: exchange a"
        " token of a user"
    ),
}


@dataclass(frozen=True, slots=True)
class KeptCredential:
    """A credential for a resource: a user's own, or one that all users share.

    Attributes:
        scopes: what it allows, whoever holds it: nobody can narrow it.
        expires_at: None for one that does not expire by itself.
        is_dead: whether its provider has refused to refresh it.
        place, record: of a user's own, what it is for and as the vault has it; None for a shared one, and for
            one from the cache.
        refreshed_row: id of its row in the vault, where it is refreshed.
    """

    access_token: SecretStr
    token_type: str
    scopes: frozenset[str]
    expires_at: datetime | None
    is_dead: bool = False
    place: VaultPlace | None = None
    record: VaultRecord | None = field(default=None, repr=False)
    refreshed_row: str | None = None

    def is_valid(self, now: datetime) -> bool:
        """Tell whether whoever accepts it would still do so."""
        return not self.is_dead and (self.expires_at is None or seconds(self.expires_at) > seconds(now))

    def is_usable(self, now: datetime) -> bool:
        """Tell whether it is valid, or may be again when it is refreshed."""
        return self.is_valid(now) or (self.refreshed_row is not None and not self.is_dead)

    def bounds(self, allowance: Allowance) -> Allowance:
        """What the user's word comes to with this credential: nobody is told more than it can do."""
        within = self.scopes if allowance.scopes is None else self.scopes & allowance.scopes
        return Allowance(within, allowance.ends_at)


async def require(
    services: Services,
    zone: CachedZone,
    client: Client,
    root: SessionRoot | None,
    resource: Resource,
    provider: Provider,
    *,
    allowance: Allowance,
    now: datetime,
    wanted: frozenset[str] | None = None,
    cached: KeptCredential | None = None,
) -> KeptCredential:
    """The credential for a resource, if the application may use it now: the user's own before a shared one.

    Args:
        root: None for a chain without a user, for which there are shared credentials alone.
        provider: what `target_checks.find_credential_provider` found.
        allowance: what the user lets this application do; the credential counts only within it.
        wanted: the scopes that were requested; None for all.
        cached: the user's own, from `credential_cache`; nothing is read from the database then.
    Raises: AccessDenied, which asks for the user.
    """
    found = cached or await _own_or_shared(services, zone, root, resource, provider, now)
    if found is None or not found.is_usable(now):
        internal = _why_unusable(found, provider)
        if root is None:
            told = _WITHOUT_USER[provider.type is ProviderType.SERVICE_VAULT]
            raise authorization_required(zone, client, resource, internal=internal, told=told)
        raise authorization_required(zone, client, resource, internal=internal)
    offered = frozenset(resource.scopes or ())
    if not found.scopes <= offered:
        # It can still do what the resource does not offer any more, so no consent is to the whole of it.
        internal = "the resource no longer has a scope of the credential"
        raise authorization_required(zone, client, resource, internal=internal)
    beyond = (wanted or frozenset()) - found.scopes
    if provider.type is ProviderType.EXTERNAL and beyond and beyond <= offered:
        # The user can connect the account again, for more than it was connected for.
        internal = "the account was connected for fewer scopes"
        raise authorization_required(zone, client, resource, internal=internal)
    if not allowance.covers(found.scopes):
        internal = "the consent covers fewer scopes than the credential has"
        raise authorization_required(zone, client, resource, internal=internal)
    return found


def _why_unusable(found: KeptCredential | None, provider: Provider) -> str:
    """Why the vault has nothing to hand out, for the record."""
    is_account = provider.type is ProviderType.EXTERNAL
    if found is None:
        return "no account is connected" if is_account else "no key is stored"
    if found.is_dead:
        return "the provider has refused to refresh the token of the connected account"
    return "the token of the connected account has expired" if is_account else "the stored key has expired"


async def _own_or_shared(
    services: Services,
    zone: CachedZone,
    root: SessionRoot | None,
    resource: Resource,
    provider: Provider,
    now: datetime,
) -> KeptCredential | None:
    """The user's credential, else the shared one.

    Under the user's present epoch it is known who has no grant, and so no credential of their own: for a
    shared one nothing is read that the zone has cached. Before anything is refused, the database is asked.
    """
    is_shareable = provider.type is ProviderType.SERVICE_VAULT
    shared = None
    if is_shareable and (root is None or not _has_grant(root, resource, provider)):
        shared = await zone.cache_of(SharedCredentialCache).find(services, zone, resource)
    if shared is not None or root is None:
        return shared
    found = await find(services, zone, root.principal.user.id, resource, provider, now)
    return await find_shared(services, zone, resource) if found is None and is_shareable else found


def _has_grant(root: SessionRoot, resource: Resource, provider: Provider) -> bool:
    of_these = (resource.id, provider.id)
    return any((grant.resource_id, grant.provider_id) == of_these for grant in root.delegated)


async def find(
    services: Services, zone: CachedZone, user_id: str, resource: Resource, provider: Provider, now: datetime
) -> KeptCredential | None:
    """The user's credential for a resource, from the database, usable or not; None without an active grant.

    Whether an application may use it is another question: the user's consent to that application, as always.
    """
    async with services.database.querying() as conn:
        found = await vault_tokens.find(
            conn, zone_id=zone.id, user_id=user_id, resource_id=resource.id, provider_id=provider.id, now=now
        )
    place = VaultPlace(zone.id, user_id, resource.id, provider.id)
    return kept_credential(zone, place, found) if found is not None else None


def kept_credential(zone: CachedZone, place: VaultPlace, record: VaultRecord) -> KeptCredential:
    """A row of the vault, opened."""
    return KeptCredential(
        access_token=open_access_token(zone.sealer, record.id, record.version, record.tokens),
        token_type=record.tokens.token_type,
        scopes=record.scopes,
        expires_at=record.tokens.expires_at,
        is_dead=record.state is VaultState.DEAD,
        place=place,
        record=record,
        refreshed_row=record.id if record.tokens.refresh_token is not None else None,
    )


async def find_shared(services: Services, zone: CachedZone, resource: Resource) -> KeptCredential | None:
    """The credential that an administrator has stored as a secret of the resource; None without one.

    One that was stored while the resource had another identifier is for that address, and goes to no other.

    It is worth all of the resource's scopes, for every user whose application may request the resource.
    """
    found = await _latest_secret(services, zone, resource)
    return _shared(zone, resource, found) if found is not None else None


class SharedCredentialCache(ZoneCache):
    """The shared credentials of a zone, as sealed as the database has them.

    A management write of a secret evicts that of its resource. That a resource has none is not remembered.
    """

    outlives_changes = True

    def __init__(self, history: ChangeHistory) -> None:
        self._sealed: TaggedCache[tuple[str, bytes]] = TaggedCache(cache_sizes.SHARED_CREDENTIALS, history)

    async def find(self, services: Services, zone: CachedZone, resource: Resource) -> KeptCredential | None:
        """What `find_shared` finds."""
        if (held := self._sealed.get(resource.id)) is not None:
            return _shared(zone, resource, held)
        found = await _latest_secret(services, zone, resource)
        if found is None:
            return None
        self._sealed.keep(resource.id, found, {resource.id}, as_of=zone.epoch)
        return _shared(zone, resource, found)


async def _latest_secret(
    services: Services, zone: CachedZone, resource: Resource
) -> tuple[str, bytes] | None:
    async with services.database.querying() as conn:
        return await resource_secrets.latest_token(
            conn, zone_id=zone.id, resource_id=resource.id, identifier=resource.identifier
        )


def _shared(zone: CachedZone, resource: Resource, sealed: tuple[str, bytes]) -> KeptCredential:
    token = secret_values.unseal(zone.sealer, *sealed)["token"]
    return KeptCredential(SecretStr(token), BEARER, frozenset(resource.scopes or ()), None)


def require_whole(credential: KeptCredential, scopes: frozenset[str]) -> None:
    """Check that nothing of what the credential is worth is left out. Raises InvalidScope.

    A key that may write is not handed out to who asked to read, or was allowed no more.
    """
    if credential.scopes - scopes:
        wanted = scope_strings.to_text(credential.scopes)
        raise InvalidScope(
            f"the credential of this resource cannot be narrowed; it has the scopes `{wanted}`: "
            "request all of them, or none in particular"
        )


def response(
    credential: KeptCredential, scopes: frozenset[str], *, until: datetime, now: datetime
) -> dict[str, Any]:
    """The members of the token response.

    Args:
        until: when the application has to ask again, whatever the credential's own expiry.
    """
    ends = min(until, credential.expires_at) if credential.expires_at else until
    return {
        "access_token": credential.access_token.get_secret_value(),
        "issued_token_type": ACCESS_TOKEN,
        "token_type": credential.token_type,
        "expires_in": seconds(ends) - seconds(now),
    } | scope_strings.member(scopes & credential.scopes)
