"""Delegated grants: created by consent, listed and revoked here. The next exchange refuses a revoked one."""

from collections.abc import Mapping
from typing import Any

from runtime.domain.kinds import DELEGATED_GRANT, Entity, Kind, Verb
from runtime.domain.kinds.session import DelegatedGrant
from runtime.domain.kinds.values import GrantStatus
from runtime.services import epochs
from runtime.services.management import entities, token_revocation
from runtime.services.management.entities import Parents
from runtime.services.management.listing import Listed, ListQuery
from runtime.services.management.people.expiry import status_filter, with_current_status
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import consents, grant_states
from runtime.storage.sql import entities as storage


async def list_(unit: UnitOfWork, kind: Kind, parents: Parents, query: ListQuery) -> Listed:
    """One page of delegated grants, each as it stands now."""
    scope = await entities.scope_of(unit, DELEGATED_GRANT, parents)
    entities.require(unit, DELEGATED_GRANT, Verb.LIST, scope)
    status = status_filter(query)
    more = [grant_states.has_status(unit.now, status)] if status is not None else []
    listed = await entities.page(unit, DELEGATED_GRANT, scope, query, *more)
    return listed.with_items([with_current_status(unit, grant) for grant in listed.items])


async def retrieve(
    unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, expands: frozenset[str] = frozenset()
) -> Entity:
    """The delegated grant, as it stands now."""
    return with_current_status(unit, await entities.retrieve(unit, DELEGATED_GRANT, parents, entity_id))


async def revoke(
    unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, patch: Mapping[str, Any]
) -> Entity:
    """End a delegated grant: only the user's word at the next sign-in starts it again.

    What the user agreed to for the resource ends with it, so each application asks for itself. Nothing at all
    when it has been revoked already.
    """
    scope, grant = await entities.for_change(unit, DELEGATED_GRANT, parents, entity_id, Verb.UPDATE)
    if grant.status is not GrantStatus.REVOKED:
        await _bump_user(unit, grant)
        await token_revocation.revoke_upstream(unit, grant.zone_id, grant_id=grant.id)
        if await consents.revoke(unit.conn, grant.id, zone_id=grant.zone_id, now=unit.now):
            await _record(unit, "revoke", grant, before={"status": "active"}, after={"status": "revoked"})
    return with_current_status(unit, await storage.get(unit.conn, DELEGATED_GRANT, entity_id, within=scope))


async def delete(unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str) -> None:
    """Forget a delegated grant, and with it what the user agreed to: where consent is asked, it is again.

    An application that needs no consent goes on without a grant; `revoke` is what stops that one too.
    """
    scope, grant = await entities.for_change(unit, DELEGATED_GRANT, parents, entity_id, Verb.DELETE)
    await _bump_user(unit, grant)
    await token_revocation.revoke_upstream(unit, grant.zone_id, grant_id=grant.id)
    of_this = {"user_id": grant.user_id, "resource_id": grant.resource_id}
    await consents.withdraw(unit.conn, zone_id=grant.zone_id, **of_this, now=unit.now)
    await storage.remove(unit.conn, DELEGATED_GRANT, grant.id, within=scope)
    await _record(unit, "delete", grant, before=of_this, after=None)


async def _bump_user(unit: UnitOfWork, grant: DelegatedGrant) -> None:
    """First of all: whoever is redeeming a code of theirs has done so, and is seen, or does not any more."""
    await unit.next_revision()
    for key, epoch in (await epochs.bump_user(unit.conn, grant.zone_id, grant.user_id)).items():
        unit.epochs.add(key, epoch)


async def _record(
    unit: UnitOfWork,
    what: str,
    grant: DelegatedGrant,
    *,
    before: Mapping[str, Any],
    after: Mapping[str, Any] | None,
) -> None:
    action = f"{DELEGATED_GRANT.operations}.{what}"
    # Whatever rests on a grant is cached under the epoch of its user, which has been bumped.
    told, tags = {"before": before, "after": after}, [grant.user_id]
    await unit.record(action, DELEGATED_GRANT.name, grant.id, grant.zone_id, **told, tags=tags)
