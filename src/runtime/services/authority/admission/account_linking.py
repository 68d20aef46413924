"""Users of the zone's identity provider: found by issuer and subject, linked to a local account, or created.

Spec: OpenID Connect Core section 5.7 (`iss` and `sub` identify a user); RFC 7523 section 2.1 for assertions.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import Conflict, NameRetired, SignInRefused, ValidationFailed
from runtime.domain.kinds.provider import Provider, ProviderOpenID
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import Identifier
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth.claims import has_verified_email
from runtime.services import epochs
from runtime.services.authority import active
from runtime.services.authority.active import NotActive
from runtime.services.authority.admission.checks import (
    DISABLED,
    add_user,
    hold_active,
    hold_provider,
    is_organization_zone,
    new_user,
)
from runtime.services.authority.admission.organization_accounts import require_agreed_elsewhere
from runtime.services.authority.admission.requests import AdmittedUser, UpstreamSignIn, UserAssertion
from runtime.services.authority.credential_rules import checked_email
from runtime.storage.sql import organization_users
from runtime.storage.sql import users as storage

_IDENTIFIER: TypeAdapter[str] = TypeAdapter(Identifier)


async def find_admissible(conn: AsyncConnection, zone: Zone, by: UserAssertion) -> User:
    """The user whom an assertion would be admitted as, for what has to be found out before that.

    It binds nothing and keeps nothing as it is: `admit` still decides. Raises SignInRefused.
    """
    if (user := await _find_linked(conn, zone, by)) is None:
        raise SignInRefused("no user of this zone has this identity", internal="no such user")
    try:
        active.require_user_active(user)
    except NotActive as failure:
        raise SignInRefused(DISABLED, internal=str(failure)) from None
    await require_agreed_elsewhere(conn, zone, user, by.provider)
    return user


async def by_upstream_sign_in(
    conn: AsyncConnection, zone: Zone, by: UpstreamSignIn, now: datetime
) -> AdmittedUser:
    await hold_provider(conn, zone, by.provider)
    user = await _find_linked(conn, zone, by)
    if user is None:
        # Two first sign-ins of one person at once: the second waits here, and then finds the first.
        await storage.lock_zone(conn, zone.id)
        user = await _find_linked(conn, zone, by)
    bumped: dict[str, int] = {}
    if user is None and (user := await _find_linkable(conn, zone, by)) is not None:
        await require_agreed_elsewhere(conn, zone, user, by.provider)
        user = await _link(conn, zone, user, by, now)
        bumped = await epochs.bump_user(conn, zone.id, user.id)
    if user is None:
        return AdmittedUser(await _create_user(conn, zone, by, now))
    await hold_active(conn, user)
    await require_agreed_elsewhere(conn, zone, user, by.provider)
    if user.provider_id != by.provider.id:
        of_identity = {"issuer": by.issuer, "subject": by.subject}
        await storage.renew_provider(conn, user, provider_id=by.provider.id, now=now, **of_identity)
    current, more = await _update_from_claims(conn, user, by, now)
    return AdmittedUser(current, epochs={**bumped, **more})


async def by_assertion(conn: AsyncConnection, zone: Zone, by: UserAssertion) -> AdmittedUser:
    """Whoever has signed in at the provider before; nobody new, and nothing about them changes."""
    await hold_provider(conn, zone, by.provider)
    user = await find_admissible(conn, zone, by)
    await hold_active(conn, user)
    return AdmittedUser(user)


async def _find_linked(conn: AsyncConnection, zone: Zone, by: UpstreamSignIn | UserAssertion) -> User | None:
    """Who has signed in before as that subject of that issuer. Raises SignInRefused."""
    if _openid_settings(by.provider).external_id_claim == "email":
        _require_verified(by.claims)
    return await storage.find_by_subject(conn, zone_id=zone.id, issuer=by.issuer, subject=by.subject)


async def _find_linkable(conn: AsyncConnection, zone: Zone, by: UpstreamSignIn) -> User | None:
    """The user of an organization's home zone who signed in without a provider so far.

    Only a verified address tells who that is, and only somebody whom no provider has signed in: a connection
    that is changed to another issuer takes over nobody whom the one before has signed in.
    """
    if not is_organization_zone(zone) or not has_verified_email(by.claims):
        return None
    address = _email_claim(by.claims).lower()
    found = await storage.local_with_verified(conn, zone_id=zone.id, address=address)
    return found[0] if len(found) == 1 else None


async def _link(conn: AsyncConnection, zone: Zone, user: User, by: UpstreamSignIn, now: datetime) -> User:
    """Have the provider sign in from now on somebody who was there before."""
    bound = {"provider_id": by.provider.id, "issuer": by.issuer, "subject": by.subject}
    await storage.add_federation(conn, user, now=now, **bound)
    await storage.change(conn, user, **bound)
    await organization_users.change_source(conn, zone.organization_id, user.id, by.issuer)
    return user.model_copy(update=bound)


async def _create_user(conn: AsyncConnection, zone: Zone, by: UpstreamSignIn, now: datetime) -> User:
    bound = {"provider_id": by.provider.id, "issuer": by.issuer, "subject": by.subject}
    user = new_user(
        zone,
        _email_claim(by.claims),
        now,
        verified=has_verified_email(by.claims),
        identifier=_identifier_claim(by),
        authenticated_at=now,
        **bound,
    )
    try:
        await add_user(conn, user, now)
    except NameRetired:
        # Somebody else was called so, whom tokens and policies may still mean: this is another person.
        user = user.model_copy(update={"identifier": user.id})
        await add_user(conn, user, now)
    except Conflict:
        # Policies match on identifiers, and others on `sub`: nobody shares one, is merged or renamed here.
        raise SignInRefused(
            f"another user of this zone has the identifier `{user.identifier}`; "
            "ask an administrator of the zone"
        ) from None
    await storage.add_federation(conn, user, now=now, **bound)
    return user


async def _update_from_claims(
    conn: AsyncConnection, user: User, by: UpstreamSignIn, now: datetime
) -> tuple[User, dict[str, int]]:
    """Take over what the provider says today; memberships wait for the address to be verified."""
    changes: dict[str, Any] = {"authenticated_at": now, "provider_id": by.provider.id}
    verified = has_verified_email(by.claims)
    email = by.claims.get("email")
    if isinstance(email, str) and verified and (email, True) != (user.email, user.email_verified):
        changes |= {"email": _email_claim(by.claims), "email_verified": True, "updated_at": now}
    await storage.change(conn, user, **changes)
    current = user.model_copy(update=changes)
    if "email" in changes:
        await organization_users.change_email(conn, user.organization_id, user.id, current.email)
    joined = await storage.bind_invitations(conn, current, now=now) if current.email_verified else 0
    if joined or "email" in changes:
        return current, await epochs.bump_user(conn, user.zone_id, user.id)
    return current, {}


def _identifier_claim(by: UpstreamSignIn) -> str | None:
    """The identifier a provider's claim gives a new user. Spec: `ProviderOpenID.user_identifier_claim`."""
    claim = _openid_settings(by.provider).user_identifier_claim
    value = by.claims.get(claim) if claim else None
    if not isinstance(value, str):
        return None
    if claim == "email":
        _require_verified(by.claims)
    try:
        return _IDENTIFIER.validate_python(value)
    except ValidationError:
        return None


def _openid_settings(provider: Provider) -> ProviderOpenID:
    return (provider.protocols.openid if provider.protocols else None) or ProviderOpenID()


def _require_verified(claims: Mapping[str, object]) -> None:
    """Refuse somebody who only says what their address is, where the address says who they are."""
    if not has_verified_email(claims):
        raise SignInRefused("your identity provider has not verified your e-mail address")


def _email_claim(claims: Mapping[str, object]) -> str:
    email = claims.get("email")
    try:
        return checked_email(email if isinstance(email, str) else "")
    except ValidationFailed:
        raise SignInRefused("your identity provider did not send a valid e-mail address") from None
