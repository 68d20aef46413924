"""Credentials that a token exchange hands out of the vault, in place of a token of the zone."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import SecretStr

from runtime.domain.errors import InvalidScope
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth import scopes as scope_strings
from runtime.domain.oauth.claims import seconds
from runtime.domain.oauth.exchange import ACCESS_TOKEN
from runtime.services import secret_values
from runtime.services.authority.consents import Allowance, authorization_required
from runtime.services.client_types import Client
from runtime.services.container import Services
from runtime.services.vault.sealing import BEARER, unseal
from runtime.services.zones import CachedZone, SessionRoot
from runtime.storage.sql import resource_secrets, vault_tokens
from runtime.storage.sql.vault_tokens import VaultState


@dataclass(frozen=True, slots=True)
class KeptCredential:
    """A credential for a resource: a user's own, or one that all users share.

    Attributes:
        scopes: what it is worth, whoever holds it: nobody can narrow it.
        expires_at: None for one that does not expire by itself.
        is_dead: whether its provider has refused to refresh it.
    """

    access_token: SecretStr
    token_type: str
    scopes: frozenset[str]
    expires_at: datetime | None
    is_dead: bool = False

    def is_usable(self, now: datetime) -> bool:
        """Tell whether whoever accepts it would still do so."""
        return not self.is_dead and (self.expires_at is None or seconds(self.expires_at) > seconds(now))


async def require(
    services: Services,
    zone: CachedZone,
    client: Client,
    root: SessionRoot | None,
    resource: Resource,
    vault: Provider,
    *,
    allowance: Allowance,
    now: datetime,
) -> KeptCredential:
    """The credential for a resource, if the application may use it now: the user's own before a shared one.

    Args:
        root: None for a chain without a user, for which there are shared credentials alone.
        allowance: what the user lets this application do; the credential counts only within it.
    Raises: AccessDenied, which asks for the user.
    """
    found = await find(services, zone, root.principal.user.id, resource, vault, now) if root else None
    if found is None:
        found = await find_shared(services, zone, resource)
    if found is None or not found.is_usable(now):
        raise authorization_required(zone, client, resource, internal="no credential in the vault")
    if not allowance.covers(found.scopes):
        raise authorization_required(
            zone, client, resource, internal="the consent covers less than the credential is worth"
        )
    return found


async def find(
    services: Services, zone: CachedZone, user_id: str, resource: Resource, vault: Provider, now: datetime
) -> KeptCredential | None:
    """The user's credential for a resource, from the database, usable or not; None without an active grant.

    Whether an application may use it is another question: the user's consent to that application, as always.
    """
    async with services.database.querying() as conn:
        found = await vault_tokens.find(
            conn, zone_id=zone.id, user_id=user_id, resource_id=resource.id, provider_id=vault.id, now=now
        )
    if found is None:
        return None
    tokens = unseal(zone.sealer, found.id, found.version, found.tokens)
    scopes = found.scopes & frozenset(resource.scopes or ())
    is_dead = found.state is VaultState.DEAD
    return KeptCredential(tokens.access_token, tokens.token_type, scopes, tokens.expires_at, is_dead)


async def find_shared(services: Services, zone: CachedZone, resource: Resource) -> KeptCredential | None:
    """The credential that an administrator has stored as a secret of the resource; None without one.

    It is worth all of the resource's scopes, for every user whose application may request the resource.
    """
    async with services.database.querying() as conn:
        found = await resource_secrets.latest_token(conn, zone_id=zone.id, resource_id=resource.id)
    if found is None:
        return None
    token = secret_values.unseal(zone.sealer, *found)["token"]
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
        "scope": scope_strings.to_text(scopes),
    }
