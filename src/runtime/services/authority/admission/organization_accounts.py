"""Accounts of an organization's home zone: for which organizations they act, and which providers those trust.

What the administrators of the home organization can change counts nowhere else: acting for another
organization takes a membership that this organization granted, the identity provider it was granted for, and
the service's own client.
"""

from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import NotFound, SignInRefused
from runtime.domain.kinds import ORGANIZATION_USER
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.role import User
from runtime.domain.kinds.zone import Zone
from runtime.domain.provider_issuers import issuer_of, speaks_for_itself
from runtime.services.authority import active
from runtime.services.authority.active import NotActive
from runtime.services.authority.admission.checks import (
    NOT_AGREED,
    hold_provider,
    is_organization_zone,
    new_user,
)
from runtime.services.authority.admission.requests import AdmittedUser, JoiningAccount, ManagementToken
from runtime.storage.sql import entities, organization_users
from runtime.storage.sql import users as storage


async def by_management_token(conn: AsyncConnection, zone: Zone, by: ManagementToken) -> AdmittedUser:
    """What the account is now in the organization whose home zone it is."""
    elsewhere = zone.id != by.home_id
    if elsewhere:
        _require_trusted_elsewhere(by)
    within = {"organization_id": zone.organization_id}
    try:
        member = await entities.get(conn, ORGANIZATION_USER, by.account_id, within=within)
        if member.account_issuer != by.issuer:
            raise SignInRefused(
                "the token was issued for an account of another zone", internal="an account of another zone"
            )
        user = await storage.get(conn, member.zone_user_id, zone_id=zone.id)
        active.require_member_active(member)
        active.require_user_active(user)
    except (NotFound, NotActive) as failure:
        raise SignInRefused(
            "your account is not a user of this organization", internal=str(failure)
        ) from None
    # A password is checked by the service itself: no organization's administrator has a hand in it.
    if elsewhere and by.source is not None and by.source != member.source:
        raise SignInRefused(NOT_AGREED, internal=f"signed in by {by.source}, known by {member.source}")
    return AdmittedUser(user, member)


async def by_joining_account(
    conn: AsyncConnection, zone: Zone, by: JoiningAccount, now: datetime
) -> AdmittedUser:
    """Somebody who stands in the zone for the account, and whose user signs in at home."""
    _require_trusted_elsewhere(by.token)
    await by_management_token(conn, by.home, by.token)
    if by.token.source is not None:
        await _require_provider_for_all(conn, by.home, by.provider)
    account = {"issuer": by.token.issuer, "subject": by.user.identifier}
    stand_in = new_user(zone, by.user.email, now, verified=by.user.email_verified, **account)
    await storage.add(conn, stand_in)
    return AdmittedUser(stand_in)


async def _require_provider_for_all(conn: AsyncConnection, home: Zone, provider: Provider | None) -> None:
    """Refuse an account whose sign-ins the administrators at home could make up themselves.

    The provider stays as it is until the membership stands: who changes it then sees that.
    """
    if provider is None:
        raise SignInRefused(NOT_AGREED, internal="the provider that signed the user in no longer exists")
    await hold_provider(conn, home, provider)
    if trusted_issuer(home, provider) is None:
        raise SignInRefused(
            NOT_AGREED, internal="an administrator of the home organization controls the provider's claims"
        )


async def require_agreed_elsewhere(conn: AsyncConnection, zone: Zone, user: User, provider: Provider) -> None:
    """Refuse an account that acts for organizations which have not agreed to trust this provider.

    They have agreed to the issuer that signed the account in when it came to act for them; never to one for
    which an administrator at home says by hand whose word counts. Raises SignInRefused.
    """
    if not is_organization_zone(zone):
        return
    agreed = trusted_issuer(zone, provider)
    account = {"issuer": str(zone.protocols.oauth2.issuer), "subject": user.identifier}
    if await organization_users.acts_elsewhere(conn, zone.organization_id, agreed=agreed, **account):
        raise SignInRefused(NOT_AGREED)


def trusted_issuer(zone: Zone, provider: Provider) -> str | None:
    """The issuer that other organizations can agree to; None where an administrator at home could be it.

    One that goes by the zone's own issuer would pass for the passwords that the zone checks itself.
    """
    issuer = issuer_of(provider)
    is_itself = issuer != str(zone.protocols.oauth2.issuer) and speaks_for_itself(provider)
    return issuer if is_itself else None


def _require_trusted_elsewhere(by: ManagementToken) -> None:
    """Refuse what only the organization at home has decided on. Raises SignInRefused."""
    if not by.by_platform:
        raise SignInRefused(
            "an application of one organization has no access to another; sign in with `zonectl`",
            internal="an application that the other organization has not decided on",
        )
    if not by.reaches_further:
        raise SignInRefused(NOT_AGREED, internal="signed in by a provider in the zone's own name")
