"""Withdrawing consents and grants, and ending sessions, by the user on the account page."""

from runtime.domain.oauth.decision_events import DecisionEvent
from runtime.services import epochs
from runtime.services.authority import session_end_events, session_revocation
from runtime.services.authority.browser_sessions import SignedInUser
from runtime.services.authority.session_end_events import SessionEndEvent
from runtime.services.container import Services
from runtime.services.vault import upstream_revocations
from runtime.services.zones import CachedZone
from runtime.storage.sql import connected_applications, consents, revocation_causes, sessions


async def application(services: Services, zone: CachedZone, signed_in: SignedInUser, party_id: str) -> None:
    """Take everything back from an application: consents, what was granted for it alone, its sessions.

    Nothing happens for one that has nothing of this user.
    """
    user_id, now = signed_in.user.id, services.clock()
    async with services.epochs.transaction(tenant=zone.organization_id) as (conn, bumped):
        # First of all: whoever is redeeming a code of theirs has done so, and is seen, or does not any more.
        bumped.update(await epochs.bump_user(conn, zone.id, user_id))
        given = await connected_applications.consents(conn, zone_id=zone.id, user_id=user_id)
        active_sessions = await sessions.of_user(conn, user_id, zone_id=zone.id, now=now)
        for client_ref in {each.client_ref for each in given if each.client_ref.id == party_id}:
            await connected_applications.take_back(
                conn, zone_id=zone.id, user_id=user_id, client_ref=client_ref
            )
            ends = {session.id: session.expires_at for session in active_sessions}
            await revocation_causes.add_between(conn, zone.id, client_ref, ends, now=now)
        theirs = (
            session.id
            for session in active_sessions
            if session.session_type != "browser" and session.client_ref.id == party_id
        )
        bumped.update(await session_revocation.revoke(conn, services, zone.id, *theirs))
        clients = {each.client_ref for each in given}
        clients |= {each.client_ref for each in active_sessions if each.session_type != "browser"}
        lost = [
            SessionEndEvent(
                event=DecisionEvent.WITHDRAWAL,
                organization_id=zone.organization_id,
                zone_id=zone.id,
                user_id=user_id,
                **each.columns,
            )
            for each in clients
            if each.id == party_id
        ]
        await session_end_events.record(conn, lost, now=now)
    services.outbox.notify()


async def grant(services: Services, zone: CachedZone, signed_in: SignedInUser, grant_id: str) -> None:
    """Take a resource back from every application at once: each has to ask again.

    Nothing happens for a grant that is not this user's.
    """
    of_user = {"zone_id": zone.id, "user_id": signed_in.user.id}
    async with services.epochs.transaction(tenant=zone.organization_id) as (conn, bumped):
        resource_id = await connected_applications.resource_of_grant(conn, grant_id=grant_id, **of_user)
        if resource_id is None:
            return
        bumped.update(await epochs.bump_user(conn, zone.id, signed_in.user.id))  # first, as above
        ended = await upstream_revocations.find(conn, zone_id=zone.id, grant_id=grant_id)
        await upstream_revocations.enqueue(conn, services.outbox, zone.sealer, ended)
        await consents.revoke(conn, grant_id, zone_id=zone.id, now=services.clock())
        lost = SessionEndEvent(
            event=DecisionEvent.WITHDRAWAL,
            organization_id=zone.organization_id,
            zone_id=zone.id,
            user_id=signed_in.user.id,
            resource_id=resource_id,
        )
        await session_end_events.record(conn, [lost], now=services.clock())
    services.outbox.notify()


async def session(services: Services, zone: CachedZone, signed_in: SignedInUser, session_id: str) -> None:
    """End a session of the user, with those below it; nothing for one that is not theirs."""
    now = services.clock()
    async with services.epochs.transaction(tenant=zone.organization_id) as (conn, bumped):
        active_sessions = await sessions.of_user(conn, signed_in.user.id, zone_id=zone.id, now=now)
        if session_id not in {each.id for each in active_sessions}:
            return
        bumped.update(await session_revocation.revoke(conn, services, zone.id, session_id))
        ending = SessionEndEvent(
            event=DecisionEvent.SESSION_END,
            organization_id=zone.organization_id,
            zone_id=zone.id,
            user_id=signed_in.user.id,
            session_id=session_id,
        )
        await session_end_events.record(conn, [ending], now=now)
    services.outbox.notify()
