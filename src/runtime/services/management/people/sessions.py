"""Sessions: created by sign-in, listed and revoked here. A revoked one is refused by the next exchange."""

from collections.abc import Mapping
from typing import Any

from runtime.domain.kinds import SESSION, Entity, Kind, Verb
from runtime.domain.kinds.values import SessionStatus
from runtime.services import epochs
from runtime.services.management import entities
from runtime.services.management.entities import Parents
from runtime.services.management.listing import Listed, ListQuery
from runtime.services.management.people.expiry import status_filter, with_current_status
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.services.outbox import logout_notices
from runtime.storage.sql import entities as storage
from runtime.storage.sql import sessions


async def list_(unit: UnitOfWork, kind: Kind, parents: Parents, query: ListQuery) -> Listed:
    """One page of sessions: those that somebody began, and with `include_nested` those below them too."""
    scope = await entities.scope_of(unit, SESSION, parents)
    entities.require(unit, SESSION, Verb.LIST, scope)
    more = []
    if (status := status_filter(query)) is not None:
        more.append(sessions.has_status(unit.now, status))
    if whose := query.special.get("session_type"):
        more.append(sessions.is_of(whose[0]))
    if "include_nested" not in query.special:
        more.append(sessions.is_initiated())
    listed = await entities.page(unit, SESSION, scope, query, *more)
    return listed.with_items([with_current_status(unit, session) for session in listed.items])


async def retrieve(
    unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, expands: frozenset[str] = frozenset()
) -> Entity:
    """The session, as it stands now."""
    return with_current_status(unit, await entities.retrieve(unit, SESSION, parents, entity_id))


async def revoke(
    unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, patch: Mapping[str, Any]
) -> Entity:
    """End a session and those below it, with their refresh tokens; nothing at all when it has ended."""
    scope, before = await entities.for_change(unit, SESSION, parents, entity_id, Verb.UPDATE)
    if before.status is not SessionStatus.REVOKED:
        await _end(unit, entity_id, scope["zone_id"])
    return with_current_status(unit, await storage.get(unit.conn, SESSION, entity_id, within=scope))


async def delete(unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str) -> None:
    """End a session as `revoke` does, and keep nothing of it and of those below it."""
    scope, before = await entities.for_change(unit, SESSION, parents, entity_id, Verb.DELETE)
    zone_id = scope["zone_id"]
    await _end(unit, entity_id, zone_id)
    await storage.remove(unit.conn, SESSION, entity_id, within=scope)
    told = {"user_id": before.user_id}
    await unit.record("sessions.delete", SESSION.name, entity_id, zone_id, before=told, after=None)


async def announce_ended_sessions(unit: UnitOfWork, ended: Mapping[str, int], zone_id: str) -> None:
    """Publish the new epochs of ended sessions after the commit, and enqueue back-channel logout.

    Args:
        ended: session id -> its new epoch.
    """
    await logout_notices.enqueue(unit.conn, unit.services.outbox, ended, zone_id=zone_id)
    for session_id, epoch in ended.items():
        unit.epochs.add(epochs.session_key(session_id), epoch)

    async def send() -> None:
        unit.services.outbox.notify()

    unit.after_commit(send)


async def _end(unit: UnitOfWork, session_id: str, zone_id: str) -> None:
    await unit.next_revision()
    ended = await sessions.revoke(unit.conn, session_id, zone_id=zone_id, now=unit.now)
    await announce_ended_sessions(unit, ended, zone_id)
    for one in sorted(ended):
        # The claims in a session are no matter for the audit log.
        before, after = {"status": "active"}, {"status": "revoked"}
        await unit.record("sessions.revoke", SESSION.name, one, zone_id, before=before, after=after)
