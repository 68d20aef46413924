"""Users as sign-in makes and finds them: by provider and subject, or with an address and a password."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.adapters.identity_providers.answers import ProviderIdentity
from runtime.adapters.passwords import MAX_PASSWORD_CHARS
from runtime.domain.errors import Conflict, NameRetired, SignInRefused, ValidationFailed
from runtime.domain.identifiers import new_id
from runtime.domain.kinds.provider import Provider, ProviderOpenID
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import Email, Identifier, OwnerType
from runtime.services import epochs
from runtime.services.authority import active
from runtime.services.authority.active import NotActive
from runtime.services.parts import Parts
from runtime.services.zones import ZoneView
from runtime.storage.sql import organization_users
from runtime.storage.sql import users as storage

MIN_PASSWORD_CHARS = 12
_DISABLED = "your account is disabled; ask the people who run this zone"
_EMAIL: TypeAdapter[str] = TypeAdapter(Email)
_IDENTIFIER: TypeAdapter[str] = TypeAdapter(Identifier)


async def create_local_user(parts: Parts, zone_id: str, email: str, password: str, *, verified: bool) -> User:
    """A new user of the zone who signs in with a password.

    Args:
        verified: somebody vouches for the address, so memberships that wait for it are bound.
    Raises: ValidationFailed for an address or password that will not do; Conflict when the address has a
        user with a password; NotFound for an unknown zone.
    """
    address, chosen = checked_email(email), checked_password(password)
    view = await parts.zones.view(zone_id)
    hashed = await parts.passwords.hash(chosen)
    async with parts.database.transaction() as conn:
        return await add_local_user(conn, view, address, hashed, verified=verified, now=parts.clock())


async def add_local_user(
    conn: AsyncConnection, view: ZoneView, email: str, password_hash: str, *, verified: bool, now: datetime
) -> User:
    """As `create_local_user`, within a transaction of the caller's, of a checked address and password."""
    await storage.lock_zone(conn, view.id)
    if await storage.find_by_password(conn, zone_id=view.id, email=email) is not None:
        raise Conflict(f"there is a user with the address `{email}` already")
    user = _new(view, email, now, verified=verified)
    await storage.add(conn, user)
    await storage.add_password(conn, user, password_hash=password_hash, now=now)
    if verified:
        await storage.bind_invitations(conn, user, now=now)
    return user


def checked_email(email: str) -> str:
    """The address, without the spaces around it. Raises ValidationFailed."""
    try:
        return _EMAIL.validate_python(email.strip())
    except ValidationError:
        raise ValidationFailed.of("email", "is not an e-mail address") from None


def checked_password(password: str) -> str:
    """A password long enough to be chosen. Raises ValidationFailed."""
    if len(password) < MIN_PASSWORD_CHARS:
        raise ValidationFailed.of("password", f"has fewer than {MIN_PASSWORD_CHARS} characters")
    if len(password) > MAX_PASSWORD_CHARS:
        raise ValidationFailed.of("password", f"has more than {MAX_PASSWORD_CHARS} characters")
    return password


async def admit_federated(
    conn: AsyncConnection,
    view: ZoneView,
    provider: Provider,
    identity: ProviderIdentity,
    claims: Mapping[str, Any],
    *,
    now: datetime,
) -> tuple[User, dict[str, int]]:
    """The user whom a provider has signed in, made at the first time; and epochs to publish after the commit.

    Args:
        claims: of the ID token, completed by userinfo.
    Raises: SignInRefused when the provider is not what it was any more; for a disabled user, one without an
        address, one whom only an address that is not verified tells apart, or an identifier that somebody
        else has.
    """
    openid = _openid(provider)
    if openid.external_id_claim == "email":
        _require_verified(claims)
    await require_same_provider(conn, provider)
    of_identity = {"issuer": identity.issuer, "subject": identity.subject}
    user = await storage.find_by_subject(conn, zone_id=view.id, **of_identity)
    if user is None:
        # Two first sign-ins of one person at once: the second waits here, and then finds the first.
        await storage.lock_zone(conn, view.id)
        user = await storage.find_by_subject(conn, zone_id=view.id, **of_identity)
    bumped: dict[str, int] = {}
    if user is None and provider.owner_type is OwnerType.PLATFORM:
        user = await _take_over_local(conn, view, provider, identity, claims, now=now)
        bumped = await epochs.bump_user(conn, view.id, user.id) if user else bumped
    if user is None:
        return await _create_federated(conn, view, provider, identity, claims, now=now), {}
    await require_still_active(conn, user)
    if provider.owner_type is OwnerType.PLATFORM and not _speaks_for_itself(provider):
        await _require_at_home_alone(conn, view, user)
    if user.provider_id != provider.id:
        await storage.renew_provider(conn, user, provider_id=provider.id, now=now, **of_identity)
    current, more = await _bring_up_to_date(conn, user, provider, claims, now=now)
    return current, {**bumped, **more}


def require_active(user: User) -> None:
    """Refuse a disabled user. Raises SignInRefused."""
    try:
        active.require_user_active(user)
    except NotActive as failure:
        raise SignInRefused(_DISABLED, internal=str(failure)) from None


async def require_still_active(conn: AsyncConnection, user: User) -> None:
    """Refuse a user who was disabled while they were signing in.

    They stay as they are until their session stands: who disables them then sees it. Raises SignInRefused.
    """
    if not await storage.hold_active(conn, user):
        raise SignInRefused(_DISABLED)


async def require_same_provider(conn: AsyncConnection, provider: Provider) -> None:
    """Refuse whom a provider sends that was changed, or went, while it was being asked.

    It stays as it is until the session stands: who changes it then sees that. Raises SignInRefused.
    """
    if not await storage.hold_provider(conn, provider):
        raise SignInRefused("this zone's identity provider has just been changed; please sign in again")


async def touch(conn: AsyncConnection, user: User, *, now: datetime) -> None:
    """Note that a user has just authenticated. Raises SignInRefused for one who may not any more."""
    await require_still_active(conn, user)
    await storage.change(conn, user, authenticated_at=now)


async def _take_over_local(
    conn: AsyncConnection,
    view: ZoneView,
    provider: Provider,
    identity: ProviderIdentity,
    claims: Mapping[str, Any],
    *,
    now: datetime,
) -> User | None:
    """The user of an organization's own zone who signed in without a provider so far, bound to this one.

    Only a verified address tells who that is, and only somebody whom no provider has signed in: a connection
    that is changed to another issuer takes over nobody whom the one before has signed in.

    Raises: SignInRefused for an account that acts for other organizations too: they have not agreed to trust
        this provider.
    """
    if not _is_verified(claims):
        return None
    address = _claimed_email(claims).lower()
    found = await storage.local_with_verified(conn, zone_id=view.id, address=address)
    if len(found) != 1:
        return None
    user = found[0]
    await _require_at_home_alone(conn, view, user)
    bound = {"provider_id": provider.id, "issuer": identity.issuer, "subject": identity.subject}
    await storage.add_federation(
        conn, user, provider_id=provider.id, issuer=identity.issuer, subject=identity.subject, now=now
    )
    await storage.change(conn, user, **bound)
    await organization_users.change_source(conn, view.organization_id, user.id, identity.issuer)
    return user.model_copy(update=bound)


def _speaks_for_itself(provider: Provider) -> bool:
    """Tell whether it is the issuer that says who somebody is.

    Where an administrator has written down by hand whose keys count, where codes are redeemed, or which claim
    is the subject, it is the administrator.
    """
    oauth2 = provider.protocols.oauth2 if provider.protocols else None
    openid = _openid(provider)
    by_hand = (oauth2 and (oauth2.jwks_uri or oauth2.token_endpoint)) or openid.userinfo_endpoint
    return not by_hand and openid.external_id_claim in (None, "sub")


async def _require_at_home_alone(conn: AsyncConnection, view: ZoneView, user: User) -> None:
    """Refuse an account that acts for other organizations too: they have not agreed to trust this provider.

    Raises: SignInRefused.
    """
    if await organization_users.acts_elsewhere(
        conn, view.organization_id, issuer=view.issuer, subject=user.identifier
    ):
        raise SignInRefused(
            "your account acts for other organizations too, which have not agreed to this way of signing in; "
            "ask the people who run this zone"
        )


async def _create_federated(
    conn: AsyncConnection,
    view: ZoneView,
    provider: Provider,
    identity: ProviderIdentity,
    claims: Mapping[str, Any],
    *,
    now: datetime,
) -> User:
    identifier = _claimed_identifier(provider, claims)
    user = _new(
        view,
        _claimed_email(claims),
        now,
        verified=_is_verified(claims),
        identifier=identifier,
        authenticated_at=now,
        provider_id=provider.id,
        issuer=identity.issuer,
        subject=identity.subject,
    )
    try:
        await storage.add(conn, user)
    except NameRetired:
        # Somebody else was called so, whom tokens and policies may still mean: this is another person.
        user = user.model_copy(update={"identifier": user.id})
        await storage.add(conn, user)
    except Conflict:
        # Policies match on identifiers, and others on `sub`: nobody shares one, is merged or renamed here.
        raise SignInRefused(
            f"somebody else in this zone is known as `{identifier}`; ask the people who run it"
        ) from None
    await storage.add_federation(
        conn, user, provider_id=provider.id, issuer=identity.issuer, subject=identity.subject, now=now
    )
    if user.email_verified:
        await storage.bind_invitations(conn, user, now=now)
    return user


async def _bring_up_to_date(
    conn: AsyncConnection, user: User, provider: Provider, claims: Mapping[str, Any], *, now: datetime
) -> tuple[User, dict[str, int]]:
    """Take over what the provider says today; memberships wait for the address to be verified."""
    changes: dict[str, Any] = {"authenticated_at": now, "provider_id": provider.id}
    verified = _is_verified(claims)
    email = claims.get("email")
    if isinstance(email, str) and verified and (email, True) != (user.email, user.email_verified):
        changes |= {"email": _claimed_email(claims), "email_verified": True, "updated_at": now}
    await storage.change(conn, user, **changes)
    current = user.model_copy(update=changes)
    if "email" in changes:
        await organization_users.change_email(conn, user.organization_id, user.id, current.email)
    joined = await storage.bind_invitations(conn, current, now=now) if current.email_verified else 0
    if joined or "email" in changes:
        return current, await epochs.bump_user(conn, user.zone_id, user.id)
    return current, {}


def _new(view: ZoneView, email: str, now: datetime, *, verified: bool, **members: Any) -> User:
    user_id = new_id()
    identifier = members.pop("identifier", None) or user_id
    return User(
        id=user_id,
        organization_id=view.organization_id,
        zone_id=view.id,
        identifier=identifier,
        email=email,
        email_verified=verified,
        created_at=now,
        updated_at=now,
        **members,
    )


def _claimed_identifier(provider: Provider, claims: Mapping[str, Any]) -> str | None:
    """The identifier a provider's claim gives a new user. Spec: `ProviderOpenID.user_identifier_claim`."""
    claim = _openid(provider).user_identifier_claim
    value = claims.get(claim) if claim else None
    if not isinstance(value, str):
        return None
    if claim == "email":
        _require_verified(claims)
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
        raise SignInRefused("your identity provider did not tell us an e-mail address") from None


def _is_verified(claims: Mapping[str, Any]) -> bool:
    return claims.get("email_verified") in (True, "true")
