"""Admission requests: the facts about somebody who registers or signs in, one class for each way.

Spec: docs/admission.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from runtime.domain.kinds.invitation import Invitation
from runtime.domain.kinds.organization import OrganizationUser
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.role import User
from runtime.domain.kinds.zone import Zone


@dataclass(frozen=True, slots=True)
class PasswordSignIn:
    """The right password of a user was given.

    Attributes:
        password_hash: what the password was compared with; None for somebody who has just registered.
    """

    user: User
    password_hash: str | None = field(default=None, repr=False)


class RegisteredBy(StrEnum):
    """Whose doing it is that somebody new has a password."""

    THEMSELVES = "themselves"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class PasswordRegistration:
    """Somebody new chooses a password.

    Attributes:
        verified: somebody vouches that the address is theirs.
    """

    email: str
    password_hash: str = field(repr=False)
    registrar: RegisteredBy
    verified: bool


@dataclass(frozen=True, slots=True)
class InvitedRegistration:
    """Somebody new chooses a password, with an invitation of the organization that has the zone among others.

    Attributes:
        invitation: as it was when its token was shown.
    """

    invitation: Invitation
    password_hash: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class InvitedMember:
    """Somebody accepts an invitation to act for the organization whose home zone it is, and has no account.

    Attributes:
        email: where the invitation was sent.
        user_id: of the user to be.
    """

    email: str
    user_id: str


@dataclass(frozen=True, slots=True)
class FirstPassword:
    """The user whom an invitation makes, or has made, chooses a password with its token.

    Attributes:
        invitation: as it was before that, while nobody else changes it.
    """

    invitation: Invitation
    user_id: str
    password_hash: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class UpstreamSignIn:
    """The zone's identity provider has signed somebody in.

    Attributes:
        provider: as it was when it was asked.
        claims: of the ID token, completed by userinfo.
    """

    provider: Provider
    issuer: str
    subject: str
    claims: Mapping[str, object] = field(repr=False)


@dataclass(frozen=True, slots=True)
class UserAssertion:
    """The zone's identity provider vouches for somebody who is not there. Spec: RFC 7523 section 2.1.

    Attributes: as of `UpstreamSignIn`.
    """

    provider: Provider
    issuer: str
    subject: str
    claims: Mapping[str, object] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ManagementToken:
    """A token of somebody who is signed in at some organization's home zone, to manage what they may.

    Attributes:
        account_id: of the user there, who may act.
        home_id, issuer: of that zone.
        source: issuer of the provider that signed them in; None for a password.
        by_platform: the application that has the token is the service's own.
    """

    account_id: str
    home_id: str
    issuer: str
    source: str | None
    by_platform: bool

    @property
    def reaches_further(self) -> bool:
        """Whether it counts for other organizations at all.

        No application of the home organization's does; nor a provider that goes by the zone's own issuer, as
        which other organizations know whoever has a password.
        """
        return self.by_platform and self.source != self.issuer

    @property
    def known_by(self) -> str:
        """What an organization writes down that the account comes to act for."""
        return self.source or self.issuer


@dataclass(frozen=True, slots=True)
class JoiningAccount:
    """An account of one organization comes to act for another: invited by it, or to be its founder.

    Attributes:
        home: the home zone that the account belongs to.
        user: the account there.
        provider: of that zone; None where it signs people in itself.
    """

    token: ManagementToken
    home: Zone
    user: User
    provider: Provider | None


AdmissionRequest = (
    PasswordSignIn
    | PasswordRegistration
    | InvitedRegistration
    | InvitedMember
    | FirstPassword
    | UpstreamSignIn
    | UserAssertion
    | ManagementToken
    | JoiningAccount
)


@dataclass(frozen=True, slots=True)
class AdmittedUser:
    """Whom somebody is in a zone.

    Attributes:
        member: what they are in the organization whose home zone it is; where the way in is about that.
        epochs: to publish after the commit.
    """

    user: User
    member: OrganizationUser | None = None
    epochs: Mapping[str, int] = field(default_factory=dict)
