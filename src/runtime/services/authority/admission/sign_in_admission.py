"""`admit`: decides which user of a zone somebody is who signs in, registers or presents an assertion."""

from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds.zone import Zone
from runtime.services.authority.admission import account_linking, organization_accounts, password_accounts
from runtime.services.authority.admission.requests import (
    AdmissionRequest,
    AdmittedUser,
    FirstPassword,
    InvitedMember,
    InvitedRegistration,
    JoiningAccount,
    ManagementToken,
    PasswordRegistration,
    PasswordSignIn,
    UpstreamSignIn,
    UserAssertion,
)


async def admit(conn: AsyncConnection, zone: Zone, by: AdmissionRequest, *, now: datetime) -> AdmittedUser:
    """The user of the zone whom somebody is who comes that way; made, bound or brought up to date.

    Raises: SignInRefused for whoever may not be a user here, or not that way; Conflict for an address that
        has an account already, where that is not theirs for the asking.
    """
    match by:
        case PasswordSignIn():
            return await password_accounts.by_password(conn, zone, by, now)
        case PasswordRegistration():
            return await password_accounts.by_registration(conn, zone, by, now)
        case InvitedRegistration():
            return await password_accounts.by_invited_registration(conn, zone, by, now)
        case InvitedMember():
            return await password_accounts.by_invited_member(conn, zone, by, now)
        case FirstPassword():
            return await password_accounts.by_first_password(conn, zone, by, now)
        case UpstreamSignIn():
            return await account_linking.by_upstream_sign_in(conn, zone, by, now)
        case UserAssertion():
            return await account_linking.by_assertion(conn, zone, by)
        case ManagementToken():
            return await organization_accounts.by_management_token(conn, zone, by)
        case JoiningAccount():
            return await organization_accounts.by_joining_account(conn, zone, by, now)
