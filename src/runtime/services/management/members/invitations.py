"""Invitations to an organization. The token is only in the e-mail; its hash is stored."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from runtime.adapters.keys.sealing import new_secret
from runtime.adapters.mail import address_of
from runtime.domain.errors import Conflict, Forbidden, RateLimited, ValidationFailed
from runtime.domain.kinds import INVITATION, Entity, Kind, Verb
from runtime.domain.kinds.values import InvitationStatus, OrganizationRole
from runtime.services import rate_limits
from runtime.services.management import entities
from runtime.services.management.access import permissions
from runtime.services.management.entities import Parents
from runtime.services.management.listing import Listed, ListQuery
from runtime.services.management.members import invitation_mail, organization_users
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import entities as storage
from runtime.storage.sql import invitations


async def list_(unit: UnitOfWork, kind: Kind, parents: Parents, query: ListQuery) -> Listed:
    """One page of invitations, each as it stands now."""
    listed = await entities.list_(unit, INVITATION, parents, query)
    current = await invitations.with_current_status(unit.conn, listed.items, now=unit.now)
    return listed.with_items([one.as_of(unit.now) for one in current])


async def create(unit: UnitOfWork, kind: Kind, parents: Parents, body: Mapping[str, Any]) -> Entity:
    """Invite somebody, by a mail that leaves after the commit.

    Raises: Forbidden for a role above the caller's; Conflict for an address that is a user's or invited.
    """
    organization = await entities.organization_of(unit, parents["organization_id"])
    permissions.require(unit.caller.role, INVITATION.operations, Verb.CREATE)
    _require_reach(unit.caller.role, OrganizationRole(body["role"]))
    await unit.next_revision()
    _require_mailable(body["email"])
    address = str(body["email"]).lower()
    await _require_new(unit, address)
    await _require_calm(unit, address)
    token = new_secret()
    made = await entities.new_entity(
        unit,
        INVITATION,
        {"organization_id": organization.id},
        body,
        created_by=unit.caller.id,
        inviter_name=unit.caller.display,
        expires_at=unit.now + timedelta(seconds=unit.services.settings.invitation_lifetime_seconds),
        status=InvitationStatus.PENDING,
        address=address,
        token_hash=unit.services.hasher.hash(token),
    )
    invitation = await entities.add(unit, INVITATION, made)
    zone = await organization_users.home_zone(unit)
    await invitation_mail.enqueue_mail(unit, invitation, token, organization.name, zone)
    return invitation


async def revoke(unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str) -> None:
    """Take an invitation back, whatever has become of it: it opens nothing any more, and stays in the list.

    Who has accepted it stays a user of the organization.
    """
    scope, _ = await entities.for_change(unit, INVITATION, parents, entity_id, Verb.DELETE)
    await unit.next_revision()
    before = await storage.get(unit.conn, INVITATION, entity_id, within=scope)
    after = before.model_copy(update={"status": InvitationStatus.REVOKED, "zone_user_id": None})
    await entities.change(unit, INVITATION, scope, before, after, action="delete")


def _require_reach(inviter: str, role: OrganizationRole) -> None:
    if not permissions.reaches(inviter, role.value):
        raise Forbidden(f"the role `{inviter}` may not invite anybody as `{role.value}`")


def _require_mailable(email: str) -> None:
    try:
        address_of(email)
    except ValueError:
        raise ValidationFailed.of("email", "is not an address that mail can be sent to") from None


async def _require_calm(unit: UnitOfWork, address: str) -> None:
    """Raise RateLimited for an organization that would send mail without end, to many or to one."""
    for limit, whose, of in (
        (rate_limits.INVITATIONS, "this organization", ()),
        (rate_limits.INVITATIONS_TO_ADDRESS, "that address", (address,)),
    ):
        if await unit.services.rate_limiter.hit(limit, unit.organization_id, *of):
            raise RateLimited(f"too many invitations for {whose} today; try again tomorrow")


async def _require_new(unit: UnitOfWork, address: str) -> None:
    """Raise Conflict for an address that is known to the organization, in whatever case it is written."""
    if await invitations.is_user(unit.conn, unit.organization_id, address):
        raise Conflict("`email`: a user with this address already belongs to the organization")
    if await invitations.pending(unit.conn, unit.organization_id, address, now=unit.now):
        raise Conflict("`email`: that address has a pending invitation; delete it to send another")
