"""Registration, sign-in and account linking: which user of a zone an external identity is.

`admit` decides for every way, inside the transaction that acts on the answer: what it has checked cannot
change before that commits. The ways are values (`requests`); docs/admission.md has the table of conditions.
"""

from runtime.services.authority.admission.account_linking import find_admissible
from runtime.services.authority.admission.checks import (
    INVITATION_OVER,
    require_local,
    require_open_invitation,
    require_open_registration,
)
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
    RegisteredBy,
    UpstreamSignIn,
    UserAssertion,
)
from runtime.services.authority.admission.sign_in_admission import admit

__all__ = [
    "INVITATION_OVER",
    "AdmissionRequest",
    "AdmittedUser",
    "FirstPassword",
    "InvitedMember",
    "InvitedRegistration",
    "JoiningAccount",
    "ManagementToken",
    "PasswordRegistration",
    "PasswordSignIn",
    "RegisteredBy",
    "UpstreamSignIn",
    "UserAssertion",
    "admit",
    "find_admissible",
    "require_local",
    "require_open_invitation",
    "require_open_registration",
]
