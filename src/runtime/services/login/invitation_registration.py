"""Registration with an invitation: the address is the one it was sent to, and counts as verified.

In the organization's home zone that accepts the invitation; in its other zones it only lets the person in.
Once it has been accepted it does neither.
Between the pages an invitation is known by the hash of its token: the token is kept nowhere.
"""

from dataclasses import dataclass
from typing import cast

from runtime.adapters.passwords import PasswordsBusy
from runtime.domain.errors import Conflict, SignInRefused, SignInUnavailable
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import INVITATION, ORGANIZATION
from runtime.domain.kinds.invitation import Invitation
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import InvitationStatus
from runtime.services.authority import admission
from runtime.services.authority.admission import FirstPassword, InvitedRegistration
from runtime.services.authority.credential_rules import checked_password
from runtime.services.container import Services
from runtime.services.login import throttling
from runtime.services.management import entities
from runtime.services.management.members import acceptance, organization_users
from runtime.services.management.unit_of_work import UnitOfWork, unit_of_work
from runtime.services.zones import CachedZone
from runtime.storage.sql import entities as storage
from runtime.storage.sql import invitations

_BUSY = "too many registrations at this moment; try again shortly"
_KNOWN = "an account with your e-mail address exists already; sign in with it"


@dataclass(frozen=True, slots=True)
class Invitee:
    """Somebody who may register.

    Attributes:
        organization: the name of the one that invites.
        joins: whether registering here makes them a user of the organization.
    """

    invitation: Invitation
    organization: str
    joins: bool

    @property
    def email(self) -> str:
        """The address that the account will have."""
        return self.invitation.email


def remembered(services: Services, token: str) -> str:
    """How an invitation is known between the pages."""
    return services.hasher.hash(token).hex()


async def find(services: Services, zone: CachedZone, known_as: str) -> Invitee:
    """Who is invited. Raises SignInRefused for an invitation that opens nothing here (any more)."""
    async with services.database.reading() as conn:
        found = await invitations.by_token(conn, bytes.fromhex(known_as), now=services.clock())
        if found is None or found[0].organization_id != zone.organization_id:
            raise SignInRefused(admission.INVITATION_OVER)
        organization = await storage.get(conn, ORGANIZATION, zone.organization_id, within={})
    invitation, name = found
    joins = organization.zone_id == zone.id
    admission.require_open_invitation(invitation, services.clock(), joins=joins)
    return Invitee(invitation, name, joins)


async def register(
    services: Services, zone: CachedZone, invited: Invitee, password: str, *, address: str
) -> User:
    """The new user of the zone, who signs in with that password.

    Args:
        address: where the request comes from.
    Raises: ValidationFailed for a password that will not do; SignInRefused for an invitation that somebody
        has used meanwhile, or an address that has an account; TooManyTries; SignInUnavailable.
    """
    # Counted by invitation: those who are invited together may well share an address.
    await throttling.check_password_rate(services, zone.id, f"invitation {invited.invitation.id}", address)
    try:
        if invited.joins:
            return await _join(services, zone, invited, password)
        return await _let_in(services, zone, invited, password)
    except Conflict:
        raise SignInRefused(_KNOWN) from None
    except PasswordsBusy:
        raise SignInUnavailable(_BUSY) from None


async def _let_in(services: Services, zone: CachedZone, invited: Invitee, password: str) -> User:
    """Make a user of a zone that is not the organization's own, while nobody takes the invitation back."""
    hashed = await services.passwords.hash(checked_password(password), tenant=zone.organization_id)
    by = InvitedRegistration(invited.invitation, hashed)
    async with services.database.transaction(tenant=zone.organization_id) as conn:
        return (await admission.admit(conn, zone.entity, by, now=services.clock())).user


async def _join(services: Services, zone: CachedZone, invited: Invitee, password: str) -> User:
    """Make the user, or give the one whom an acceptance has made already their first credential."""
    hashed = await services.passwords.hash(checked_password(password), tenant=zone.organization_id)
    invitation, user_id = invited.invitation, invited.invitation.zone_user_id or new_id()
    async with unit_of_work(services, acceptance.actor(invitation, user_id), new_id()) as unit:
        current = await acceptance.locked(unit, invitation)
        admission.require_open_invitation(current, unit.now, joins=True)
        if current.status is InvitationStatus.PENDING:
            user_id = await _accept(unit, current, user_id)
        else:
            user_id = await _complete(unit, current)
        by = FirstPassword(current, user_id, hashed)
        return (await admission.admit(unit.conn, zone.entity, by, now=unit.now)).user


async def _accept(unit: UnitOfWork, invitation: Invitation, user_id: str) -> str:
    zone = await organization_users.home_zone(unit)
    await acceptance.claim(unit, invitation)
    user = await acceptance.new_user(unit, zone, invitation, user_id)
    await organization_users.add_home_user(unit, user, invitation.role)
    return user.id


async def _complete(unit: UnitOfWork, invitation: Invitation) -> str:
    """Use up what is left of an accepted invitation: the user it has made has no credential yet."""
    after = invitation.model_copy(update={"zone_user_id": None})
    scope = {"organization_id": unit.organization_id}
    await entities.change(unit, INVITATION, scope, invitation, after, action="register")
    return cast(str, invitation.zone_user_id)
