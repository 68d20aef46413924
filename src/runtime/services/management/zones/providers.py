"""Providers: where their operations differ from the generic ones.

A sign-in rests on the provider that said who it was. When others may say so from now on, or nobody, what was
signed in before ends with it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from runtime.contract.bodies import parse
from runtime.domain.delegated_grants import issuing_addresses
from runtime.domain.errors import ValidationFailed
from runtime.domain.kinds import PROVIDER, Entity, Kind, Verb
from runtime.domain.kinds.provider import Provider, leads_to_other_token
from runtime.domain.kinds.values import Scopes
from runtime.domain.kinds.zone import Zone
from runtime.services.management import entities, token_revocation
from runtime.services.management.entities import Parents
from runtime.services.management.people import sessions
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import consents, directory, revocation_causes, vault_tokens


async def create(unit: UnitOfWork, kind: Kind, parents: Parents, body: Mapping[str, Any]) -> Entity:
    """Make a provider whose settings take an access token, and no other token, from its answers."""
    scope = await entities.scope_of(unit, PROVIDER, parents)
    entities.require(unit, PROVIDER, Verb.CREATE, scope)
    made = await entities.new_entity(unit, PROVIDER, scope, body)
    _check_pointer(None, made)
    require_scopes(None, made)
    return await entities.add(unit, PROVIDER, made)


async def update(
    unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, patch: Mapping[str, Any]
) -> Entity:
    """Change a provider; one that speaks for others by now ends what it signed in and issued before."""
    scope, before = await entities.for_change(unit, PROVIDER, parents, entity_id, Verb.UPDATE)
    after = await entities.patched(unit, PROVIDER, scope, before, _with_issuer(before, patch))
    _check_pointer(before, after)
    require_scopes(before, after)
    await end_what_was_issued(unit, before, after)
    stored = await entities.change(unit, PROVIDER, scope, before, after)
    await end_what_rested_on(unit, before, stored)
    return stored


def _check_pointer(before: Provider | None, after: Provider) -> None:
    """Raise ValidationFailed for a new access token pointer that leads to a refresh token or an ID token."""
    pointer = _access_token_pointer(after)
    is_new = before is None or pointer != _access_token_pointer(before)
    if pointer and is_new and leads_to_other_token(pointer):
        raise ValidationFailed.of(
            "protocols.oauth2.token_response_access_token_pointer",
            "leads to a refresh token or an ID token, which no application receives; name the access token",
        )


class _OAuth2Scopes(BaseModel):
    scopes_supported: Scopes


class _OpenIDScopes(BaseModel):
    scopes: Scopes


class _ProtocolScopes(BaseModel):
    oauth2: _OAuth2Scopes
    openid: _OpenIDScopes


class _ProviderScopes(BaseModel):
    """What of a provider's settings are scopes. Its own type has texts: any could be stored once."""

    protocols: _ProtocolScopes


def require_scopes(before: Provider | None, after: Provider) -> None:
    """Raise ValidationFailed for new scopes that are none (RFC 6749 section 3.3), or that are there twice.

    Those that were stored before this was checked stay as they are until they are changed.
    """
    (supported, requested), known = _scopes(after), _scopes(before)
    oauth2 = {"scopes_supported": [] if supported == known[0] else supported}
    openid = {"scopes": [] if requested == known[1] else requested}
    parse(_ProviderScopes, {"protocols": {"oauth2": oauth2, "openid": openid}})


def _scopes(provider: Provider | None) -> tuple[list[str], list[str]]:
    """The scopes that a provider supports, and those that it is asked for at sign-in."""
    protocols = provider.protocols if provider is not None else None
    oauth2, openid = (protocols.oauth2, protocols.openid) if protocols else (None, None)
    return (oauth2.scopes_supported if oauth2 else None) or [], (openid.scopes if openid else None) or []


def _access_token_pointer(provider: Provider) -> str | None:
    oauth2 = provider.protocols.oauth2 if provider.protocols else None
    return oauth2.token_response_access_token_pointer if oauth2 else None


def _with_issuer(before: Provider, patch: Mapping[str, Any]) -> Mapping[str, Any]:
    """The patch; an issuer that is the identifier, as it is by default, follows it unless one is given."""
    oauth2 = before.protocols.oauth2 if before.protocols else None
    if "identifier" not in patch or oauth2 is None or oauth2.issuer != before.identifier:
        return patch
    protocols = patch.get("protocols", {})
    given = protocols.get("oauth2", {}) if protocols is not None else None
    if given is None or "issuer" in given:
        return patch
    return {**patch, "protocols": {**protocols, "oauth2": {**given, "issuer": None}}}


async def delete(unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str) -> None:
    """Remove a provider, its grants and what it signed in; its users stay, and sign in some other way."""
    scope, before = await entities.for_change(unit, PROVIDER, parents, entity_id, Verb.DELETE)
    await _remove(unit, scope, before)


async def delete_many(unit: UnitOfWork, kind: Kind, parents: Parents, ids: Sequence[str]) -> None:
    """Remove providers as `delete` does."""
    scope, found = await entities.for_deletion(unit, PROVIDER, parents, ids)
    await _remove(unit, scope, *found)


async def _remove(unit: UnitOfWork, scope: Parents, *before: Provider) -> None:
    for one in () if unit.dry_run else before:  # which has none of what was issued, and of the users
        await end_what_was_issued(unit, one, None)
        await directory.detach_provider(unit.conn, zone_id=one.zone_id, provider_id=one.id)
        await end_what_rested_on(unit, one, None)
    await entities.remove(unit, PROVIDER, scope, *before)
    unit.cache.zones.pop(scope["zone_id"], None)  # its user identity provider may have been one of these


async def end_what_was_issued(unit: UnitOfWork, before: Provider, after: Provider | None) -> None:
    """End what a provider has issued, here and there, if another issues from now on, or nobody.

    Before the provider is changed or removed, in the same transaction: it is revoked by the settings of until
    now. The provider is held first, as everybody does who stores what it issues.
    """
    if after is not None and issuing_addresses(before) == issuing_addresses(after):
        return
    of_it = {"zone_id": before.zone_id, "provider_id": before.id}
    await vault_tokens.hold_provider(unit.conn, before.id, zone_id=before.zone_id, for_change=True)
    await token_revocation.revoke_upstream(unit, **of_it)
    await consents.revoke_credentials(unit.conn, **of_it, now=unit.now)


async def end_what_rested_on(unit: UnitOfWork, before: Provider, after: Provider | None) -> None:
    """End the sign-ins and workloads' tokens that a provider vouched for, if another answers now, or nobody.

    Part of the transaction that has changed or detached the provider.
    """
    if after is not None and _vouching(before) == _vouching(after):
        return
    ended = await directory.end_provider_sessions(unit.conn, before.id, zone_id=before.zone_id, now=unit.now)
    await sessions.announce_ended_sessions(unit, ended, before.zone_id)
    await revocation_causes.add_workloads(unit.conn, before.zone_id, before.id, now=unit.now)


async def end_what_rested_on_former(unit: UnitOfWork, before: Zone, after: Zone) -> None:
    """End the sign-ins at the provider that a zone had until now, if another signs its users in, or none.

    That provider could not even say any more that a session of them has ended. Who is on the way back from it
    finds it changed. Part of the transaction that changes the zone.
    """
    former = before.user_identity_provider_id
    if former in (None, after.user_identity_provider_id):
        return
    of_it = {"zone_id": before.id, "provider_id": former}
    await directory.touch_provider(unit.conn, **of_it, revision=await unit.next_revision())
    ended = await directory.end_provider_sessions(unit.conn, former, zone_id=before.id, now=unit.now)
    await sessions.announce_ended_sessions(unit, ended, before.id)


def _vouching(provider: Provider) -> tuple[str | None, ...]:
    """Whose word counts, by which keys, and which of their claims says who somebody is."""
    oauth2 = provider.protocols.oauth2 if provider.protocols else None
    openid = provider.protocols.openid if provider.protocols else None
    return (
        (oauth2.issuer if oauth2 else None) or provider.identifier,
        oauth2.jwks_uri if oauth2 else None,
        oauth2.token_endpoint if oauth2 else None,
        openid.userinfo_endpoint if openid else None,
        (openid.external_id_claim if openid else None) or "sub",
    )
