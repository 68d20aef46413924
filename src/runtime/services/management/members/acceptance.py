"""Accepts invitations: by the token's holder, or at sign-in with the invited address.

Of many who try at once exactly one succeeds: an invitation is read again, and written, while nobody else of
the organization writes.
"""

from runtime.contract.answers import InvitationAcceptance, InvitationPreview
from runtime.domain.errors import (
    Conflict,
    Forbidden,
    NotFound,
    RateLimited,
    SignInRefused,
    Unauthorized,
)
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import INVITATION, USER
from runtime.domain.kinds.invitation import Invitation
from runtime.domain.kinds.organization import OrganizationUser
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import InvitationStatus
from runtime.domain.kinds.zone import Zone
from runtime.services import rate_limits
from runtime.services.authority import admission
from runtime.services.authority.admission import InvitedMember
from runtime.services.clients.dpop_verification import PresentedToken
from runtime.services.container import Services
from runtime.services.management import entities
from runtime.services.management.access.caller import Caller
from runtime.services.management.authentication import user_tokens
from runtime.services.management.authentication.user_tokens import AuthenticatedUser
from runtime.services.management.members import organization_users
from runtime.services.management.unit_of_work import UnitOfWork, unit_of_work
from runtime.services.rate_limiter import network_of
from runtime.services.zones import CachedZone
from runtime.storage.sql import invitations
from runtime.storage.sql import organization_users as people

# Many people may share an address, and a token cannot be guessed anyway.
_UNKNOWN = "there is no such invitation"
_NOT_PENDING = "the invitation was already accepted or revoked, or has expired"


async def preview(services: Services, token: str, *, address: str) -> InvitationPreview:
    """What a holder of the token sees. Raises NotFound, RateLimited.

    Args:
        address: where the request comes from.
    """
    invitation, organization = await _find(services, token, address)
    return InvitationPreview(
        created_by_name=invitation.inviter_name,
        email=invitation.email,
        expires_at=invitation.expires_at,
        organization_name=organization,
        role=invitation.role,
        status=invitation.as_of(services.clock()).status,
    )


async def accept(
    services: Services, token: str, guest: AuthenticatedUser | None, *, address: str, request_id: str
) -> InvitationAcceptance:
    """Make the guest a user of the organization, or without a guest whoever reads the invited address.

    Without one, a user of the organization's home zone is made, who can do nothing before they choose a
    password or sign in through the organization's provider.

    Raises: NotFound; RateLimited; Forbidden for a guest of another address, or whose sign-in counts only at
        home; Conflict for an invitation that is not pending, or for an account that is there already.
    """
    invitation, organization = await _find(services, token, address)
    if guest is not None and not _is_addressee(guest.user, invitation):
        raise Forbidden("the invitation was sent to another address than the verified one of your account")
    user_id = guest.user.id if guest else new_id()
    async with unit_of_work(services, actor(invitation, user_id), request_id) as unit:
        current = await claim(unit, invitation, zone_user_id=None if guest else user_id)
        if guest is None:
            person = await _without_account(unit, current, user_id)
        else:
            person = await _with_account(unit, current, guest)
    return InvitationAcceptance(
        organization_id=invitation.organization_id,
        organization_name=organization,
        success=True,
        user_id=person.id,
    )


async def guest_of(
    services: Services, authorization: str | None, presented: PresentedToken | None
) -> AuthenticatedUser | None:
    """Who shows a token; None for nobody, who sends no `Authorization` at all. Raises Unauthorized."""
    if authorization is None:
        return None
    if presented is None:
        raise Unauthorized("send `Authorization: Bearer` with an access token, or none")
    return await user_tokens.signed_in(services, presented)


async def accept_by_address(services: Services, home: CachedZone, user: User, request_id: str) -> bool:
    """Accept what waits for somebody who has just signed in to their organization's home zone.

    Nothing happens for an address that nobody has verified; tell whether there was an invitation.
    """
    address = user.email.lower()
    if not user.email_verified:
        return False
    async with services.database.reading() as conn:
        found = await invitations.pending(conn, home.organization_id, address, now=services.clock())
    if found is None:
        return False
    try:
        async with unit_of_work(services, actor(found, user.id), request_id) as unit:
            zone = await organization_users.home_zone(unit)
            if zone.id != home.id:
                return False
            current = await claim(unit, found)
            await organization_users.add_home_user(unit, user, current.role)
    except Conflict:  # somebody was faster, or they act for the organization already
        return False
    return True


async def locked(unit: UnitOfWork, invitation: Invitation) -> Invitation:
    """The invitation as it stands while nobody else of the organization writes. Raises NotFound."""
    await unit.next_revision()
    current = await invitations.lock(unit.conn, invitation, now=unit.now)
    if current is None:
        raise NotFound(_UNKNOWN)
    return current


async def claim(unit: UnitOfWork, invitation: Invitation, *, zone_user_id: str | None = None) -> Invitation:
    """Mark an invitation as accepted, in the unit that acts on it. Raises Conflict when it is not pending.

    Args:
        zone_user_id: the user made for it, who has no credential yet.
    """
    current = await locked(unit, invitation)
    if not current.is_pending(unit.now):
        raise Conflict(_NOT_PENDING)
    scope = {"organization_id": invitation.organization_id}
    after = current.model_copy(update={"status": InvitationStatus.ACCEPTED, "zone_user_id": zone_user_id})
    return await entities.change(unit, INVITATION, scope, current, after, action="accept")


async def new_user(unit: UnitOfWork, zone: Zone, invitation: Invitation, user_id: str) -> User:
    """A user of the organization's home zone with the invited address, which the token proves to be theirs.

    Raises: Conflict when a user has that address: they sign in, so that nobody acts as them by a mail.
    """
    by = InvitedMember(invitation.email, user_id)
    admitted = await admission.admit(unit.conn, zone, by, now=unit.now)
    return await entities.record_created(unit, USER, admitted.user)


async def _without_account(unit: UnitOfWork, invitation: Invitation, user_id: str) -> OrganizationUser:
    zone = await organization_users.home_zone(unit)
    user = await new_user(unit, zone, invitation, user_id)
    return await organization_users.add_home_user(unit, user, invitation.role)


async def _with_account(
    unit: UnitOfWork, invitation: Invitation, guest: AuthenticatedUser
) -> OrganizationUser:
    if guest.zone.organization_id == unit.organization_id:
        return await organization_users.add_home_user(unit, guest.user, invitation.role)
    at_home = await people.of_zone_user(unit.conn, guest.zone.organization_id, guest.user.id)
    if at_home is None:
        raise Forbidden(
            "this account belongs to no organization: accept the invitation without an access token"
        )
    joining = await organization_users.joining_account(unit, guest.token, guest.zone.entity, guest.user)
    try:
        return await organization_users.add_external_account(unit, invitation.role, joining)
    except SignInRefused as refusal:
        raise Forbidden(refusal.detail, internal=refusal.internal) from None


async def _find(services: Services, token: str, address: str) -> tuple[Invitation, str]:
    """The invitation of a token and its organization's name: as much work for an unknown one."""
    if await services.rate_limiter.hit(rate_limits.INVITATION_LOOKUPS, "", network_of(address)):
        raise RateLimited("too many requests about invitations from your address; wait a minute")
    async with services.database.querying() as conn:
        found = await invitations.by_token(conn, services.hasher.hash(token), now=services.clock())
    if found is None:
        raise NotFound(_UNKNOWN)
    return found


def _is_addressee(user: User, invitation: Invitation) -> bool:
    return user.email_verified and user.email.lower() == invitation.address


def actor(invitation: Invitation, user_id: str) -> Caller:
    """Who an acceptance is recorded as: the person, by the id of their account."""
    return Caller(user_id, "user", invitation.organization_id, invitation.role.value, invitation.email)
