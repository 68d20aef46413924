"""Conditions that several ways to sign in share: passwords allowed, invitation valid, user active."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import SignInRefused
from runtime.domain.identifiers import new_id
from runtime.domain.kinds.invitation import Invitation
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import InvitationStatus, OwnerType
from runtime.domain.kinds.zone import Zone
from runtime.storage.sql import users as storage

DISABLED = "your account is disabled; ask an administrator of this zone"
INVITATION_OVER = "this invitation has expired or was revoked; ask whoever invited you for a new one"
INVITATION_USED = "this invitation has been used; sign in with the account that was made for it"
NOT_AGREED = (
    "your account acts for other organizations too, which have not agreed to this way of signing in; "
    "ask an administrator of this zone"
)


def require_local(zone: Zone) -> None:
    """Refuse passwords where people sign in elsewhere. Raises SignInRefused."""
    if zone.user_identity_provider_id is not None:
        raise SignInRefused("passwords are not accepted here: sign in with the zone's identity provider")


def require_open_registration(zone: Zone) -> None:
    """Refuse registration where it takes an invitation. Raises SignInRefused.

    Spec: service interface, zone `requires_invitation`; it says nothing of those whom a provider signs in.
    """
    require_local(zone)
    if zone.requires_invitation:
        raise SignInRefused(
            "registration here needs an invitation; ask an administrator of this zone for one, and open the "
            "address in its mail"
        )


def require_open_invitation(invitation: Invitation, now: datetime, *, joins: bool) -> None:
    """Refuse an invitation that opens nothing (any more). Raises SignInRefused.

    Args:
        joins: in the organization's home zone, where whom it has made without a credential may choose one.
    """
    if now >= invitation.expires_at or invitation.status is InvitationStatus.REVOKED:
        raise SignInRefused(INVITATION_OVER)
    waits_for_password = joins and invitation.zone_user_id is not None
    if invitation.status is not InvitationStatus.PENDING and not waits_for_password:
        raise SignInRefused(INVITATION_USED)


async def hold_active(conn: AsyncConnection, user: User) -> None:
    """Refuse a user who is disabled, also since a moment ago.

    They stay as they are until their session stands: who disables them then sees it. Raises SignInRefused.
    """
    if not await storage.hold_active(conn, user):
        raise SignInRefused(DISABLED)


async def hold_provider(conn: AsyncConnection, zone: Zone, provider: Provider) -> None:
    """Refuse whom a provider sends that was changed, or went, while it was being asked.

    It stays as it is until the session stands: who changes it then sees that. Raises SignInRefused.
    """
    is_the_zones = zone.user_identity_provider_id == provider.id
    if not is_the_zones or not await storage.hold_provider(conn, provider):
        raise SignInRefused("this zone's identity provider has just been changed; please sign in again")


async def add_user(
    conn: AsyncConnection, user: User, now: datetime, *, awaited: Collection[str] | None = None
) -> None:
    """Keep a new user, who joins what waits for their address if it is theirs.

    Args:
        awaited: the addresses, in lower case, for which anything waits; None when that is not known.
    """
    await storage.add(conn, user)
    if user.email_verified and (awaited is None or user.email.lower() in awaited):
        await storage.bind_invitations(conn, user, now=now)


def new_user(zone: Zone, email: str, now: datetime, *, verified: bool, **members: Any) -> User:
    user_id = members.pop("id", None) or new_id()
    identifier = members.pop("identifier", None) or user_id
    return User(
        id=user_id,
        organization_id=zone.organization_id,
        zone_id=zone.id,
        identifier=identifier,
        email=email,
        email_verified=verified,
        created_at=now,
        updated_at=now,
        **members,
    )


def is_organization_zone(zone: Zone) -> bool:
    """Tell whether it is an organization's own: its users are accounts, which may act for others, too."""
    return zone.owner_type is OwnerType.PLATFORM
