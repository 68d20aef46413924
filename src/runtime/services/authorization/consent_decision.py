"""The consent decision: whether a user has to be asked before a request is granted; records the answer."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import PROVIDER
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import Consent, ProviderType
from runtime.services import epochs
from runtime.services.authority import consents
from runtime.services.authorization.requests import AuthorizationRequest
from runtime.services.client_types import Client
from runtime.services.container import Services
from runtime.services.zones import CachedZone
from runtime.storage.sql import consents as storage
from runtime.storage.sql import entities
from runtime.storage.sql import zone_data as lookups
from runtime.storage.sql.consents import SIGN_IN, ConsentRecord, ConsentState


async def is_needed(
    services: Services, zone: CachedZone, request: AuthorizationRequest, client: Client, user: User
) -> bool:
    """Tell whether the user has to be asked before this request is granted.

    Args:
        user: as read in this request.
    """
    if "consent" in request.prompts:
        return True
    implied = client.consent is Consent.IMPLICIT and not consents.scopes_needing_consent(
        client, request.scopes
    )
    if implied and not request.resources:
        return False
    agreed, now = await consents.consents_of(services, zone, client, user), services.clock()
    for asked in request.resources:
        # A grant that has ended starts again only with the user's word, whatever the application's setting.
        found = consents.allowance_of(client, await _own_grants(zone, agreed), asked.id, now)
        if found is None or not found.covers(asked.scopes):
            return True
    return not implied and not _was_given_here(agreed.given, request)


async def _own_grants(zone: CachedZone, agreed: ConsentState) -> ConsentState:
    """The same without the grants that no consent makes: of accounts elsewhere, and of stored credentials."""
    own = []
    for grant in agreed.grants:
        provider = await zone.providers.get(grant.provider_id)
        if provider is None or provider.type is ProviderType.SERVICE_STS:
            own.append(grant)
    return replace(agreed, grants=tuple(own))


async def record(
    services: Services, zone: CachedZone, request: AuthorizationRequest, client: Client, user: User
) -> None:
    """Keep the user's yes to an authorization request."""
    wanted = {SIGN_IN: request.scopes} | {asked.id: asked.scopes for asked in request.resources}
    now = services.clock()
    async with services.epochs.transaction(tenant=zone.organization_id) as (conn, bumped):
        bumped.update(await epochs.bump_user(conn, zone.id, user.id))
        await record_consents(conn, zone, client, user.id, wanted, request.redirect_host, now=now)


async def record_consents(
    conn: AsyncConnection,
    zone: CachedZone,
    client: Client,
    user_id: str,
    wanted: Mapping[str, frozenset[str]],
    redirect_host: str | None,
    *,
    now: datetime,
) -> None:
    """Keep a user's yes: for the client, and as delegated grants for the zone's own token service.

    Part of the caller's `services.epochs.transaction`, whose first statement is `epochs.bump_user`.

    Args:
        wanted: resource id, or SIGN_IN -> scopes.
        redirect_host: where the answer goes; None for an answer on a page of the zone, which leaves it as the
            user has seen it before.
    """
    of_this = {"zone_id": zone.id, "user_id": user_id}
    given = await storage.of_client(conn, client_ref=client.client_ref, **of_this)
    merged = _merged(given, wanted, redirect_host)
    await storage.record(conn, merged, client_ref=client.client_ref, now=now, **of_this)
    provider = await _token_service(conn, zone)
    for resource_id, scopes in wanted.items():
        resource = await lookups.resource(conn, zone.id, resource_id) if resource_id != SIGN_IN else None
        if resource is None or not _is_issued_by(provider, resource):
            continue  # an account elsewhere or a stored credential takes more than consent
        await storage.grant(
            conn,
            organization_id=zone.organization_id,
            zone_id=zone.id,
            user_id=user_id,
            resource_id=resource_id,
            provider_id=provider.id,
            scopes=scopes,
            now=now,
        )


def _is_issued_by(service: Provider, resource: Resource) -> bool:
    """Tell whether the zone's own token service issues what a resource accepts."""
    if resource.deleted_credential_provider_id is not None:
        return False
    return resource.credential_provider_id in (None, service.id)


def _was_given_here(given: Mapping[str, ConsentRecord], request: AuthorizationRequest) -> bool:
    """Tell whether earlier answers cover all that is asked, each given for the same place to return to."""
    wanted = {SIGN_IN: request.scopes} | {asked.id: asked.scopes for asked in request.resources}
    return all(
        (record := given.get(resource_id)) is not None
        and record.redirect_host == request.redirect_host
        and scopes <= record.scopes
        for resource_id, scopes in wanted.items()
    )


def _merged(
    given: Mapping[str, ConsentRecord], wanted: Mapping[str, frozenset[str]], redirect_host: str | None
) -> list[ConsentRecord]:
    """What stands after a yes: more than before for the same place to return to, else only this."""
    merged = []
    for resource_id, scopes in wanted.items():
        before = given.get(resource_id)
        host = _earlier_host(given, resource_id) if redirect_host is None else redirect_host
        kept = before.scopes if before and before.redirect_host == host else frozenset()
        merged.append(ConsentRecord(resource_id, scopes | kept, host))
    return merged


def _earlier_host(given: Mapping[str, ConsentRecord], resource_id: str) -> str:
    """Where an earlier answer about the resource went, or that about signing in; empty without one."""
    before = given.get(resource_id) or given.get(SIGN_IN)
    return before.redirect_host if before is not None else ""


async def _token_service(conn: AsyncConnection, zone: CachedZone) -> Provider:
    """The provider that stands for the zone's own token service; every zone is made with one."""
    found = await entities.find_by(
        conn, PROVIDER, "type", ProviderType.SERVICE_STS.value, within={"zone_id": zone.id}
    )
    if not isinstance(found, Provider):
        raise LookupError(f"zone {zone.id} has no provider of the type `service-sts`")
    return found
