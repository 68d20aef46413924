"""Who may be whom: the one place that turns an identity from outside into a user of a zone.

Whichever way somebody comes, `admit` decides, in the transaction that acts on its answer: what it has looked
at stays as it is until that ends. A way in is a value that says what is known of whoever comes by it. A rule
stands here once, for every way that it concerns.

Accounts of an organization's own zone may act for other organizations, too. What the home organization's
administrators can change counts nowhere else: there it takes a membership that the other organization has
given, the provider that it has been given for, and the service's own client.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain import authority as rules
from runtime.domain.errors import Conflict, NameRetired, NotFound, SignInRefused, ValidationFailed
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import ORGANIZATION_USER
from runtime.domain.kinds.invitation import Invitation
from runtime.domain.kinds.organization import OrganizationUser
from runtime.domain.kinds.provider import Provider, ProviderOpenID
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import Identifier, InvitationStatus, OwnerType
from runtime.domain.kinds.zone import Zone
from runtime.services import epochs
from runtime.services.authority import active
from runtime.services.authority.active import NotActive
from runtime.services.authority.credential_rules import checked_email
from runtime.storage.sql import entities, invitations, organization_users
from runtime.storage.sql import users as storage

_IDENTIFIER: TypeAdapter[str] = TypeAdapter(Identifier)
_DISABLED = "your account is disabled; ask the people who run this zone"
INVITATION_OVER = "this invitation has expired or was revoked; ask whoever invited you for a new one"
_INVITATION_USED = "this invitation has been used; sign in with the account that was made for it"
_NOT_AGREED = (
    "your account acts for other organizations too, which have not agreed to this way of signing in; "
    "ask the people who run this zone"
)


# --- the ways in


@dataclass(frozen=True, slots=True)
class PasswordSignIn:
    """The right password of a user was given."""

    user: User


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
    """Somebody accepts an invitation to act for the organization whose own zone it is, and has no account.

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
    claims: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class UserAssertion:
    """The zone's identity provider vouches for somebody who is not there. Spec: RFC 7523 section 2.1.

    Attributes: as of `UpstreamSignIn`.
    """

    provider: Provider
    issuer: str
    subject: str
    claims: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ManagementToken:
    """A token of somebody who is signed in at some organization's own zone, to manage what they may.

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
        home: the own zone that the account belongs to.
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
        member: what they are in the organization whose own zone it is; where the way in is about that.
        epochs: to publish after the commit.
    """

    user: User
    member: OrganizationUser | None = None
    epochs: Mapping[str, int] = field(default_factory=dict)


async def admit(conn: AsyncConnection, zone: Zone, by: AdmissionRequest, *, now: datetime) -> AdmittedUser:
    """The user of the zone whom somebody is who comes that way; made, bound or brought up to date.

    Raises: SignInRefused for whoever may not be a user here, or not that way; Conflict for an address that
        has an account already, where that is not theirs for the asking.
    """
    match by:
        case PasswordSignIn():
            return await _by_password(conn, zone, by, now)
        case PasswordRegistration():
            return await _by_registration(conn, zone, by, now)
        case InvitedRegistration():
            return await _by_invited_registration(conn, zone, by, now)
        case InvitedMember():
            return await _by_invitation(conn, zone, by, now)
        case FirstPassword():
            return await _by_first_password(conn, zone, by, now)
        case UpstreamSignIn():
            return await _by_provider(conn, zone, by, now)
        case UserAssertion():
            return await _by_assertion(conn, zone, by)
        case ManagementToken():
            return await _by_management_token(conn, zone, by)
        case JoiningAccount():
            return await _by_joining(conn, zone, by, now)


async def find_admissible(conn: AsyncConnection, zone: Zone, by: UserAssertion) -> User:
    """The user whom an assertion would be admitted as, for what has to be found out before that.

    It binds nothing and keeps nothing as it is: `admit` still decides. Raises SignInRefused.
    """
    if (user := await _known(conn, zone, by)) is None:
        raise SignInRefused("no user of this zone has this identity", internal="no such user")
    try:
        active.require_user_active(user)
    except NotActive as failure:
        raise SignInRefused(_DISABLED, internal=str(failure)) from None
    await _require_agreed_elsewhere(conn, zone, user, by.provider)
    return user


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
            "registration here needs an invitation; ask the people who run this zone for one, and open the "
            "address in its mail"
        )


def require_open_invitation(invitation: Invitation, now: datetime, *, joins: bool) -> None:
    """Refuse an invitation that opens nothing (any more). Raises SignInRefused.

    Args:
        joins: in the organization's own zone, where whom it has made without a credential may choose one.
    """
    if now >= invitation.expires_at or invitation.status is InvitationStatus.REVOKED:
        raise SignInRefused(INVITATION_OVER)
    waits_for_password = joins and invitation.zone_user_id is not None
    if invitation.status is not InvitationStatus.PENDING and not waits_for_password:
        raise SignInRefused(_INVITATION_USED)


# --- passwords


async def _by_password(conn: AsyncConnection, zone: Zone, by: PasswordSignIn, now: datetime) -> AdmittedUser:
    require_local(zone)
    await _hold_active(conn, by.user)
    await storage.change(conn, by.user, authenticated_at=now)
    return AdmittedUser(by.user)


async def _by_registration(
    conn: AsyncConnection, zone: Zone, by: PasswordRegistration, now: datetime
) -> AdmittedUser:
    if by.registrar is RegisteredBy.THEMSELVES:
        require_open_registration(zone)
    return await _with_password(conn, zone, by.email, by.password_hash, now, verified=by.verified)


async def _by_invited_registration(
    conn: AsyncConnection, zone: Zone, by: InvitedRegistration, now: datetime
) -> AdmittedUser:
    require_local(zone)
    current = await invitations.held(conn, by.invitation, now=now)
    if current is None or current.organization_id != zone.organization_id:
        raise SignInRefused(INVITATION_OVER)
    require_open_invitation(current, now, joins=False)
    return await _with_password(conn, zone, current.email, by.password_hash, now, verified=True)


async def _with_password(
    conn: AsyncConnection, zone: Zone, email: str, password_hash: str, now: datetime, *, verified: bool
) -> AdmittedUser:
    """Somebody new. Raises Conflict for an address that has a user with a password."""
    await storage.lock_zone(conn, zone.id)
    if await storage.find_by_password(conn, zone_id=zone.id, email=email) is not None:
        raise Conflict(f"a user with the e-mail address `{email}` exists already")
    user = _new(zone, email, now, verified=verified)
    await _add(conn, user, now)
    await storage.add_password(conn, user, password_hash=password_hash, now=now)
    return AdmittedUser(user)


async def _by_invitation(conn: AsyncConnection, zone: Zone, by: InvitedMember, now: datetime) -> AdmittedUser:
    await storage.lock_zone(conn, zone.id)
    if await storage.has_verified(conn, zone_id=zone.id, address=by.email.lower()):
        raise Conflict(
            "an account with this e-mail address exists already: sign in, then accept the invitation"
        )
    user = _new(zone, by.email, now, verified=True, id=by.user_id)
    await _add(conn, user, now)
    return AdmittedUser(user)


async def _by_first_password(
    conn: AsyncConnection, zone: Zone, by: FirstPassword, now: datetime
) -> AdmittedUser:
    require_local(zone)
    require_open_invitation(by.invitation, now, joins=True)
    user = await storage.without_credential(conn, by.user_id, zone_id=zone.id)
    if user is None:
        raise SignInRefused(_INVITATION_USED)
    await _hold_active(conn, user)
    await storage.add_password(conn, user, password_hash=by.password_hash, now=now)
    return AdmittedUser(user)


# --- the zone's identity provider


async def _by_provider(conn: AsyncConnection, zone: Zone, by: UpstreamSignIn, now: datetime) -> AdmittedUser:
    await _hold_provider(conn, zone, by.provider)
    user = await _known(conn, zone, by)
    if user is None:
        # Two first sign-ins of one person at once: the second waits here, and then finds the first.
        await storage.lock_zone(conn, zone.id)
        user = await _known(conn, zone, by)
    bumped: dict[str, int] = {}
    if user is None and (user := await _local_account(conn, zone, by)) is not None:
        await _require_agreed_elsewhere(conn, zone, user, by.provider)
        user = await _bind(conn, zone, user, by, now)
        bumped = await epochs.bump_user(conn, zone.id, user.id)
    if user is None:
        return AdmittedUser(await _first_contact(conn, zone, by, now))
    await _hold_active(conn, user)
    await _require_agreed_elsewhere(conn, zone, user, by.provider)
    if user.provider_id != by.provider.id:
        of_identity = {"issuer": by.issuer, "subject": by.subject}
        await storage.renew_provider(conn, user, provider_id=by.provider.id, now=now, **of_identity)
    current, more = await _bring_up_to_date(conn, user, by, now)
    return AdmittedUser(current, epochs={**bumped, **more})


async def _by_assertion(conn: AsyncConnection, zone: Zone, by: UserAssertion) -> AdmittedUser:
    """Whoever has signed in at the provider before; nobody new, and nothing about them changes."""
    await _hold_provider(conn, zone, by.provider)
    user = await find_admissible(conn, zone, by)
    await _hold_active(conn, user)
    return AdmittedUser(user)


async def _known(conn: AsyncConnection, zone: Zone, by: UpstreamSignIn | UserAssertion) -> User | None:
    """Who has signed in before as that subject of that issuer. Raises SignInRefused."""
    if _openid(by.provider).external_id_claim == "email":
        _require_verified(by.claims)
    return await storage.find_by_subject(conn, zone_id=zone.id, issuer=by.issuer, subject=by.subject)


async def _local_account(conn: AsyncConnection, zone: Zone, by: UpstreamSignIn) -> User | None:
    """The user of an organization's own zone who signed in without a provider so far.

    Only a verified address tells who that is, and only somebody whom no provider has signed in: a connection
    that is changed to another issuer takes over nobody whom the one before has signed in.
    """
    if not _is_own_zone(zone) or not _is_verified(by.claims):
        return None
    address = _claimed_email(by.claims).lower()
    found = await storage.local_with_verified(conn, zone_id=zone.id, address=address)
    return found[0] if len(found) == 1 else None


async def _bind(conn: AsyncConnection, zone: Zone, user: User, by: UpstreamSignIn, now: datetime) -> User:
    """Have the provider sign in from now on somebody who was there before."""
    bound = {"provider_id": by.provider.id, "issuer": by.issuer, "subject": by.subject}
    await storage.add_federation(conn, user, now=now, **bound)
    await storage.change(conn, user, **bound)
    await organization_users.change_source(conn, zone.organization_id, user.id, by.issuer)
    return user.model_copy(update=bound)


async def _first_contact(conn: AsyncConnection, zone: Zone, by: UpstreamSignIn, now: datetime) -> User:
    bound = {"provider_id": by.provider.id, "issuer": by.issuer, "subject": by.subject}
    user = _new(
        zone,
        _claimed_email(by.claims),
        now,
        verified=_is_verified(by.claims),
        identifier=_claimed_identifier(by),
        authenticated_at=now,
        **bound,
    )
    try:
        await _add(conn, user, now)
    except NameRetired:
        # Somebody else was called so, whom tokens and policies may still mean: this is another person.
        user = user.model_copy(update={"identifier": user.id})
        await _add(conn, user, now)
    except Conflict:
        # Policies match on identifiers, and others on `sub`: nobody shares one, is merged or renamed here.
        raise SignInRefused(
            f"another user of this zone has the identifier `{user.identifier}`; "
            "ask the people who run the zone"
        ) from None
    await storage.add_federation(conn, user, now=now, **bound)
    return user


async def _bring_up_to_date(
    conn: AsyncConnection, user: User, by: UpstreamSignIn, now: datetime
) -> tuple[User, dict[str, int]]:
    """Take over what the provider says today; memberships wait for the address to be verified."""
    changes: dict[str, Any] = {"authenticated_at": now, "provider_id": by.provider.id}
    verified = _is_verified(by.claims)
    email = by.claims.get("email")
    if isinstance(email, str) and verified and (email, True) != (user.email, user.email_verified):
        changes |= {"email": _claimed_email(by.claims), "email_verified": True, "updated_at": now}
    await storage.change(conn, user, **changes)
    current = user.model_copy(update=changes)
    if "email" in changes:
        await organization_users.change_email(conn, user.organization_id, user.id, current.email)
    joined = await storage.bind_invitations(conn, current, now=now) if current.email_verified else 0
    if joined or "email" in changes:
        return current, await epochs.bump_user(conn, user.zone_id, user.id)
    return current, {}


# --- accounts of organizations


async def _by_management_token(conn: AsyncConnection, zone: Zone, by: ManagementToken) -> AdmittedUser:
    """What the account is now in the organization whose own zone it is."""
    elsewhere = zone.id != by.home_id
    if elsewhere:
        _require_reach(by)
    within = {"organization_id": zone.organization_id}
    try:
        member = await entities.get(conn, ORGANIZATION_USER, by.account_id, within=within)
        if member.account_issuer != by.issuer:
            raise SignInRefused(
                "the token is of another zone's account", internal="an account of another zone"
            )
        user = await storage.get(conn, member.zone_user_id, zone_id=zone.id)
        active.require_member_active(member)
        active.require_user_active(user)
    except (NotFound, NotActive) as failure:
        raise SignInRefused(
            "your account does not act for this organization", internal=str(failure)
        ) from None
    # A password is checked by the service itself: no organization's administrator has a hand in it.
    if elsewhere and by.source is not None and by.source != member.source:
        raise SignInRefused(_NOT_AGREED, internal=f"signed in by {by.source}, known by {member.source}")
    return AdmittedUser(user, member)


async def _by_joining(conn: AsyncConnection, zone: Zone, by: JoiningAccount, now: datetime) -> AdmittedUser:
    """Somebody who stands in the zone for the account, and whose user signs in at home."""
    _require_reach(by.token)
    await _by_management_token(conn, by.home, by.token)
    if by.token.source is not None:
        await _require_provider_for_all(conn, by.home, by.provider)
    account = {"issuer": by.token.issuer, "subject": by.user.identifier}
    stand_in = _new(zone, by.user.email, now, verified=by.user.email_verified, **account)
    await storage.add(conn, stand_in)
    return AdmittedUser(stand_in)


async def _require_provider_for_all(conn: AsyncConnection, home: Zone, provider: Provider | None) -> None:
    """Refuse an account whose sign-ins the administrators at home could make up themselves.

    The provider stays as it is until the membership stands: who changes it then sees that.
    """
    if provider is None:
        raise SignInRefused(_NOT_AGREED, internal="signed in by a provider that is gone")
    await _hold_provider(conn, home, provider)
    if _counts_elsewhere(home, provider) is None:
        raise SignInRefused(_NOT_AGREED, internal="an administrator has a hand in what the provider says")


async def _require_agreed_elsewhere(
    conn: AsyncConnection, zone: Zone, user: User, provider: Provider
) -> None:
    """Refuse an account that acts for organizations which have not agreed to trust this provider.

    They have agreed to the issuer that signed the account in when it came to act for them; never to one for
    which an administrator at home says by hand whose word counts. Raises SignInRefused.
    """
    if not _is_own_zone(zone):
        return
    agreed = _counts_elsewhere(zone, provider)
    account = {"issuer": str(zone.protocols.oauth2.issuer), "subject": user.identifier}
    if await organization_users.acts_elsewhere(conn, zone.organization_id, agreed=agreed, **account):
        raise SignInRefused(_NOT_AGREED)


def _counts_elsewhere(zone: Zone, provider: Provider) -> str | None:
    """The issuer that other organizations can agree to; None where an administrator at home could be it.

    One that goes by the zone's own issuer would pass for the passwords that the zone checks itself.
    """
    issuer = rules.issuer_of(provider)
    is_itself = issuer != str(zone.protocols.oauth2.issuer) and rules.speaks_for_itself(provider)
    return issuer if is_itself else None


def _require_reach(by: ManagementToken) -> None:
    """Refuse what only the organization at home has decided on. Raises SignInRefused."""
    if not by.by_platform:
        raise SignInRefused(
            "an application of one organization acts in no other: sign in with the service's own client",
            internal="an application that the other organization has not decided on",
        )
    if not by.reaches_further:
        raise SignInRefused(_NOT_AGREED, internal="signed in by a provider in the zone's own name")


# --- what several ways ask


async def _hold_active(conn: AsyncConnection, user: User) -> None:
    """Refuse a user who is disabled, also since a moment ago.

    They stay as they are until their session stands: who disables them then sees it. Raises SignInRefused.
    """
    if not await storage.hold_active(conn, user):
        raise SignInRefused(_DISABLED)


async def _hold_provider(conn: AsyncConnection, zone: Zone, provider: Provider) -> None:
    """Refuse whom a provider sends that was changed, or went, while it was being asked.

    It stays as it is until the session stands: who changes it then sees that. Raises SignInRefused.
    """
    is_the_zones = zone.user_identity_provider_id == provider.id
    if not is_the_zones or not await storage.hold_provider(conn, provider):
        raise SignInRefused("this zone's identity provider has just been changed; please sign in again")


async def _add(conn: AsyncConnection, user: User, now: datetime) -> None:
    """Keep a new user, who joins what waits for their address if it is theirs."""
    await storage.add(conn, user)
    if user.email_verified:
        await storage.bind_invitations(conn, user, now=now)


def _new(zone: Zone, email: str, now: datetime, *, verified: bool, **members: Any) -> User:
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


def _is_own_zone(zone: Zone) -> bool:
    """Tell whether it is an organization's own: its users are accounts, which may act for others, too."""
    return zone.owner_type is OwnerType.PLATFORM


def _claimed_identifier(by: UpstreamSignIn) -> str | None:
    """The identifier a provider's claim gives a new user. Spec: `ProviderOpenID.user_identifier_claim`."""
    claim = _openid(by.provider).user_identifier_claim
    value = by.claims.get(claim) if claim else None
    if not isinstance(value, str):
        return None
    if claim == "email":
        _require_verified(by.claims)
    try:
        return _IDENTIFIER.validate_python(value)
    except ValidationError:
        return None


def _openid(provider: Provider) -> ProviderOpenID:
    return (provider.protocols.openid if provider.protocols else None) or ProviderOpenID()


def _require_verified(claims: Mapping[str, Any]) -> None:
    """Refuse somebody who only says what their address is, where the address says who they are."""
    if not _is_verified(claims):
        raise SignInRefused("your identity provider has not verified your e-mail address")


def _claimed_email(claims: Mapping[str, Any]) -> str:
    email = claims.get("email")
    try:
        return checked_email(email if isinstance(email, str) else "")
    except ValidationFailed:
        raise SignInRefused("your identity provider did not send a valid e-mail address") from None


def _is_verified(claims: Mapping[str, Any]) -> bool:
    return claims.get("email_verified") in (True, "true")
