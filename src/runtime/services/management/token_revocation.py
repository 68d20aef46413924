"""Revokes tokens of a deleted or renamed client, credential or resource, and the keys a deleted key made.

Sessions, users and grants put their tokens on the revocation list themselves where they end, in storage.
"""

from collections.abc import Collection
from typing import cast

from runtime.domain.kinds import (
    API_KEY,
    APPLICATION,
    APPLICATION_CREDENTIAL,
    ORGANIZATION_USER,
    USER_AGENT,
    Entity,
    Kind,
)
from runtime.domain.kinds.api_key import ApiKey
from runtime.domain.kinds.application import (
    Application,
    PasswordCredential,
    PublicCredential,
    TokenCredential,
    UrlCredential,
)
from runtime.domain.kinds.base import ZoneEntity
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.role import User
from runtime.logs import log
from runtime.services import zone_keys
from runtime.services.data_keys import DataKeyUnavailable
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.services.vault import upstream_revocations
from runtime.storage.sql import accountability, api_keys, consents, entities, revocation_causes
from runtime.storage.sql.client_refs import ClientRef

_Renamable = PublicCredential | TokenCredential | UrlCredential  # the others are called as at the beginning


async def rename(unit: UnitOfWork, before: Entity, after: Entity) -> None:
    """Keep what a change of an application, credential or resource means for the tokens from before.

    Those with a former name are worth nothing: another may have it next; and a credential that goes by
    another name is another workload's, or client's.
    """
    if isinstance(before, _Renamable) and isinstance(after, _Renamable):
        if before.identifier != after.identifier:
            former = None if isinstance(before, TokenCredential) else before.identifier
            await revocation_causes.add_credential(
                unit.conn, before.zone_id, before.id, now=unit.now, former=former
            )
        return
    if isinstance(before, Resource) and isinstance(after, Resource):
        await _keep_lifetime(unit, before, after.credential_lifetime_seconds or 0)
    if isinstance(before, Application | Resource) and isinstance(after, Application | Resource):
        if before.identifier == after.identifier:
            return
        if isinstance(before, Application):
            await revocation_causes.add_renamed(
                unit.conn, before.zone_id, before.id, before.identifier, now=unit.now
            )
        else:
            await revocation_causes.add_resource(unit.conn, before.zone_id, before.identifier, now=unit.now)
            # A user's key was stored for that address, and goes to no other.
            await revoke_upstream(unit, before.zone_id, resource_id=before.id)
            await consents.revoke_credentials(
                unit.conn, zone_id=before.zone_id, resource_id=before.id, now=unit.now
            )


async def revoke(unit: UnitOfWork, kind: Kind, before: Entity) -> None:
    """Keep that tokens of a client, of one credential of it, or for a resource, are worth nothing without it.

    An API key lives no longer than what made it: it goes with the key that made it, or with the person.
    A dry run has no tokens.
    """
    if unit.dry_run:
        return
    if kind is API_KEY:
        for key in await api_keys.made_by(unit.conn, unit.organization_id, [before.id]):
            await _remove_key(unit, key)
    if kind is ORGANIZATION_USER:
        for key in await api_keys.of_person(unit.conn, unit.organization_id, before.id):
            await _remove_key(unit, key, with_those_it_made=False)
    if isinstance(before, Resource):
        await _keep_lifetime(unit, before, 0)
        await revocation_causes.add_resource(unit.conn, before.zone_id, before.identifier, now=unit.now)
        await revoke_upstream(unit, before.zone_id, resource_id=before.id)
    if isinstance(before, User):
        await revoke_upstream(unit, before.zone_id, user_id=before.id)
    if kind not in (APPLICATION, APPLICATION_CREDENTIAL, USER_AGENT):
        return
    zone_id = cast(ZoneEntity, before).zone_id
    if kind is APPLICATION_CREDENTIAL:
        expired_at = before.expires_at if isinstance(before, PasswordCredential) else None
        await revocation_causes.add_credential(
            unit.conn, zone_id, before.id, now=unit.now, expired_at=expired_at
        )
        return
    is_managed = kind is APPLICATION
    client_ref = ClientRef(application_id=before.id) if is_managed else ClientRef(user_agent_id=before.id)
    await revocation_causes.add_party(unit.conn, zone_id, client_ref, now=unit.now)


async def _keep_lifetime(unit: UnitOfWork, before: Resource, seconds: int) -> None:
    """Keep how long tokens lived, where a resource has a shorter lifetime from now on.

    What was issued may outlive it; entries of clients, which are not for one resource, are kept as long.
    """
    former = before.credential_lifetime_seconds or 0
    if former > seconds:
        await revocation_causes.keep_former_lifetime(unit.conn, before.zone_id, former, now=unit.now)


async def revoke_ended(
    unit: UnitOfWork, zone_id: str, application_ids: Collection[str] | None = None
) -> None:
    """Keep that tokens of applications are worth nothing that nobody active is accountable for any more.

    Args:
        application_ids: those that what was written may have ended; all of the zone without them.
    """
    if application_ids is not None and not application_ids:
        return
    for application_id in await accountability.ended(unit.conn, zone_id, application_ids):
        await revocation_causes.add_ended(unit.conn, zone_id, application_id, now=unit.now)
        # Nobody has changed the application: an operator who asks why it stopped finds it in the audit log.
        why = {"ended": "nobody active is accountable for it"}
        await unit.record(
            "applications.end", APPLICATION.name, application_id, zone_id, before=None, after=why
        )


async def revoke_upstream(
    unit: UnitOfWork,
    zone_id: str,
    *,
    grant_id: str | None = None,
    user_id: str | None = None,
    resource_id: str | None = None,
    provider_id: str | None = None,
) -> None:
    """Have what outside providers have issued revoked there as well, before it goes here.

    What was issued for a grant, a user, a resource, or by one provider; without these, for the whole zone.
    """
    outbox = unit.services.outbox
    named = {"grant_id": grant_id, "user_id": user_id, "resource_id": resource_id, "provider_id": provider_id}
    ended = await upstream_revocations.find(unit.conn, zone_id=zone_id, **named)
    if not ended:
        return
    sealer = await zone_keys.sealer(unit.services.data_keys, unit.conn, zone_id)
    await upstream_revocations.enqueue(unit.conn, outbox, sealer, ended)

    async def send() -> None:
        outbox.notify()

    unit.after_commit(send)


async def revoke_upstream_of_zone(unit: UnitOfWork, zone_id: str) -> None:
    """The same for all of a zone that goes: also what waits already is delivered without it.

    A zone goes although its encryption key is not available: then nobody can read what its providers issued.
    """
    try:
        await revoke_upstream(unit, zone_id)
    except DataKeyUnavailable as failure:
        log.warning("not revoked at the providers of a deleted zone", zone_id=zone_id, reason=failure.detail)
    await unit.services.outbox.outlive(unit.conn, upstream_revocations.TOPIC, zone_id=zone_id)


async def _remove_key(unit: UnitOfWork, key: ApiKey, *, with_those_it_made: bool = True) -> None:
    if with_those_it_made:
        await revoke(unit, API_KEY, key)
    await entities.remove(unit.conn, API_KEY, key.id, within={"organization_id": key.organization_id})
    await unit.write(API_KEY, "api_keys.delete", key, None)
