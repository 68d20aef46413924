"""Authenticates people at the management API, by one of two tokens.

An access token of an organization's home zone acts in that organization, and for the account in the few
operations that are about all its organizations. It can be swapped for a token of one organization, here or
elsewhere, which acts in that one alone. Both rest on the session of the sign-in. Whether that still stands,
and what the person is, is read at each request: whatever ends ends at once.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, cast

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.adapters.keys.signing import InvalidJwt
from runtime.contract.answers import TokenResponse
from runtime.domain.errors import (
    Forbidden,
    NonceRequired,
    NotFound,
    OAuthError,
    SignInRefused,
    Unauthorized,
)
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import ORGANIZATION
from runtime.domain.kinds.organization import Organization, OrganizationUser
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import OwnerType
from runtime.domain.oauth.claims import ACCESS_TOKEN_TYPE
from runtime.domain.oauth.decision_events import DecisionEvent
from runtime.domain.oauth.revocable_names import TokenNames
from runtime.services.authority import active, admission
from runtime.services.authority.active import NotActive
from runtime.services.authority.admission import ManagementToken
from runtime.services.authority.consents import require_allowance
from runtime.services.authority.subject_tokens import confirmation_thumbprint
from runtime.services.client_types import ApplicationClient
from runtime.services.clients import client_lookup, dpop_verification
from runtime.services.clients.dpop_verification import PresentedToken
from runtime.services.container import Services
from runtime.services.decision_log import Decision
from runtime.services.issuing.access_tokens import confirmation
from runtime.services.management.access.caller import REFUSED, TOKEN_TYPE, Caller, CallerSession, HomeAccount
from runtime.services.management.authentication import unverified, verified
from runtime.services.zones import CachedZone
from runtime.services.zones.withdrawals import issued_until_in_session
from runtime.storage.sql import entities, organizations, sessions, users, zone_data
from runtime.storage.sql import organization_users as people
from runtime.storage.sql.sessions import SessionRecord

TOKEN_LIFETIME = timedelta(hours=1)
_HOME = "home_zone_id"  # the claim that says where the session of an organization token stands


@dataclass(frozen=True, slots=True)
class AuthenticatedUser:
    """Who has signed in at an organization's home zone, as an access token of it says, member or not.

    Attributes:
        view: that zone.
        client: the application that has the token.
        jkt: thumbprint of the key that was proved.
    """

    zone: CachedZone
    session: SessionRecord
    user: User
    client: ApplicationClient
    jkt: str | None

    @property
    def token(self) -> ManagementToken:
        """What admission knows of it."""
        source = self.session.issuer
        return ManagementToken(
            self.user.id, self.zone.id, self.zone.issuer, source, _is_platforms(self.client)
        )


async def by_access_token(services: Services, presented: PresentedToken) -> Caller:
    """The user whom an access token of an organization's home zone was issued to. Raises Unauthorized."""
    found = await signed_in(services, presented)

    async def look_up(conn: AsyncConnection) -> Caller:
        await _still_standing(services, conn, found.zone, found.session.id)
        caller = await _caller(services, conn, found.zone, _sign_in(found, at_home=True))
        return replace(caller, looked_up=look_up)

    async with services.database.reading() as conn:
        return replace(
            await _caller(services, conn, found.zone, _sign_in(found, at_home=True)), looked_up=look_up
        )


async def signed_in(services: Services, presented: PresentedToken) -> AuthenticatedUser:
    """Who has signed in at which organization's home zone, member or not. Raises Unauthorized; Unavailable.

    Only by a token that an application got for a user who signed in to it: none that acts through others. The
    application must still be one that depends on the management API, as an administrator has decided, and the
    user must not have taken it back. A client that registered itself may ask users for any resource of a
    zone; a click must not be enough to hand it an organization.
    """
    try:
        zone = await _zone_of_key(services, presented.token)
        claims = verified.claims(services, zone, presented.token, typ=ACCESS_TOKEN_TYPE)
        if "act" in claims:
            raise Unauthorized(REFUSED, internal="an actor besides the user")
        jkt = await _possessed(services, zone, presented, claims)
        client = await _application(services, zone, claims)
        async with services.database.reading() as conn:
            await _owner(conn, zone)
            session, user = await _standing(services, conn, zone, str(claims["sid"]))
        if user.identifier != claims["sub"]:
            raise Unauthorized(REFUSED, internal="the session is another user's")
    except (InvalidJwt, NotFound, KeyError) as failure:
        raise Unauthorized(REFUSED, internal=str(failure)) from None
    return AuthenticatedUser(zone, session, user, client, jkt)


async def _application(services: Services, zone: CachedZone, claims: dict[str, Any]) -> ApplicationClient:
    """The application, if it may call the management API, for an administrator and for the user.

    A client id can be there again, or still, after its tokens were revoked: with its other secret, or once
    somebody active is accountable for its application.

    Args:
        zone: where the session of the verified token is, and the client that it names.

    Raises: Unauthorized; KeyError for a claim that is missing.
    """
    session_id, client_id = str(claims["sid"]), str(claims["client_id"])
    client, target = (
        await zone.clients.get(client_id),
        await zone.resources.resolve(services.settings.public_url),
    )
    if not isinstance(client, ApplicationClient) or target is None:
        raise Unauthorized(REFUSED, internal="issued to no application that is here")
    if not await client_lookup.may_request(zone, client, target):
        raise Unauthorized(REFUSED, internal="the application does not depend on the management API")
    root = await zone.session_roots.read(session_id)
    if root is None:
        raise Unauthorized(REFUSED, internal="the session is gone")
    names = TokenNames(client_id, target.identifier)
    in_session = issued_until_in_session(root.withdrawn, names.in_session())
    if claims["iat"] <= max(in_session, await zone.withdrawals.issued_until(names)):
        raise Unauthorized(REFUSED, internal="what the token rests on was revoked since it was issued")
    try:
        await require_allowance(services, zone, client, root, target, wanted=None, now=services.clock())
    except OAuthError as failure:
        raise Unauthorized(REFUSED, internal=failure.internal) from None
    return client


def _is_platforms(client: ApplicationClient) -> bool:
    """Tell whether an application is the service's own, which nobody changes through the API."""
    return client.application.owner_type is OwnerType.PLATFORM


async def by_organization_token(services: Services, presented: PresentedToken) -> Caller:
    """The user whom a token of one organization was issued to. Raises Unauthorized."""
    try:
        zone = await _zone_of_key(services, presented.token)
        claims = verified.claims(services, zone, presented.token, typ=TOKEN_TYPE)
        jkt = await _possessed(services, zone, presented, claims)
        home = await services.zones.get(str(claims[_HOME]))
        client = await _application(services, home, claims)
        async with services.database.reading() as conn:
            organization = await _owner(conn, zone)
            await _owner(conn, home)
            session, user = await _standing(services, conn, home, str(claims["sid"]))
            sign_in = _sign_in(AuthenticatedUser(home, session, user, client, jkt), at_home=False)
            if (sign_in.account.id, organization.id) != (claims["sub"], claims["organization_id"]):
                raise Unauthorized(REFUSED, internal="the session is another user's")
            caller = await _away(services, conn, zone, home, sign_in)
    except (InvalidJwt, NotFound, KeyError) as failure:
        raise Unauthorized(REFUSED, internal=str(failure)) from None

    async def look_up(conn: AsyncConnection) -> Caller:
        await _still_standing(services, conn, home, sign_in.session_id)
        return await _away(services, conn, zone, home, sign_in)

    return replace(caller, looked_up=look_up)


async def _away(
    services: Services, conn: AsyncConnection, zone: CachedZone, home: CachedZone, sign_in: CallerSession
) -> Caller:
    """Who somebody is in an organization, at home or elsewhere. Raises Unauthorized."""
    if zone.id != home.id:  # an account ends where it is at home
        await _caller(services, conn, home, sign_in)
    return await _caller(services, conn, zone, sign_in)


async def exchange_token(
    services: Services, caller: Caller, id_or_label: str, request_id: str
) -> TokenResponse:
    """A token for one of the organizations that a user acts for.

    Raises: Forbidden for callers that are no user with a token of their own organization's zone; NotFound
        for an organization they do not act for, or where what they have signed in with does not count.
    """
    unknown = NotFound(f"there is no Organization `{id_or_label}`")
    async with services.database.reading() as conn:
        found = await organizations.find(conn, id_or_label)
    if found is None or not (caller.at_home or found.id == caller.organization_id):
        raise unknown
    sign_in = own_sign_in(caller, "exchange a token for an organization")
    zone = await services.zones.get(cast(str, found.zone_id))
    try:
        async with services.database.reading() as conn:
            person = await _caller(services, conn, zone, sign_in)
    except Unauthorized:
        raise unknown from None
    now = services.clock()
    expires_at = min(now + TOKEN_LIFETIME, sign_in.expires_at)
    token = zone.signing(zone.access_token_algorithm).sign(
        {
            "iss": zone.issuer,
            "sub": person.id,
            "aud": services.settings.public_url,
            "organization_id": found.id,
            "sid": sign_in.session_id,
            "client_id": sign_in.client_id,
            _HOME: sign_in.zone_id,
            "iat": int(now.timestamp()),
            "exp": int(expires_at.timestamp()),
            "jti": new_id(),
        }
        | ({"cnf": confirmation(sign_in.jkt)} if sign_in.jkt else {}),
        typ=TOKEN_TYPE,
    )
    decision = Decision(found.id, zone.id, now, request_id, event=DecisionEvent.ORGANIZATION_TOKEN)
    decision.issue()
    services.decisions.record(decision)
    return TokenResponse(
        access_token=token,
        token_type="DPoP" if sign_in.jkt else "Bearer",
        expires_in=int((expires_at - now).total_seconds()),
    )


def own_sign_in(caller: Caller, what: str) -> CallerSession:
    """The sign-in of a user with a token of their own organization's zone. Raises Forbidden for others."""
    if caller.sign_in is None or not caller.at_home:
        raise Forbidden(
            f"only a user can {what}, with an access token of the zone of the organization they belong to"
        )
    return caller.sign_in


async def _zone_of_key(services: Services, token: str) -> CachedZone:
    """The zone whose key a token names; nothing it says counts before that key has verified it."""
    kid = unverified.key_id(token)
    async with services.database.querying() as conn:
        zone_id = None if kid is None else await zone_data.zone_of_key(conn, kid)
    if zone_id is None:
        raise Unauthorized(REFUSED, internal="no key of that id")
    return await services.zones.get(zone_id)


async def _owner(conn: AsyncConnection, zone: CachedZone) -> Organization:
    """The organization whose home zone this is. Raises Unauthorized for any other zone."""
    organization = await entities.get(conn, ORGANIZATION, zone.organization_id, within={})
    if organization.zone_id != zone.id:
        raise Unauthorized(REFUSED, internal="a token of another zone than an organization's own")
    return organization


async def _standing(
    services: Services, conn: AsyncConnection, zone: CachedZone, session_id: str
) -> tuple[SessionRecord, User]:
    """A session that stands, and its user, who is not disabled. Raises Unauthorized, NotFound."""
    session = await sessions.find(conn, session_id, zone_id=zone.id)
    if session is None or session.user_id is None:
        raise Unauthorized(REFUSED, internal="the session is gone, or nobody's")
    user = await users.get(conn, session.user_id, zone_id=zone.id)
    try:
        active.require_active(session, user, services.clock())
    except NotActive as failure:
        raise Unauthorized(REFUSED, internal=str(failure)) from None
    return session, user


async def _still_standing(
    services: Services, conn: AsyncConnection, zone: CachedZone, session_id: str
) -> None:
    """Raise Unauthorized unless a session and its user stand."""
    try:
        await _standing(services, conn, zone, session_id)
    except NotFound as failure:
        raise Unauthorized(REFUSED, internal=str(failure)) from None


async def _possessed(
    services: Services, zone: CachedZone, presented: PresentedToken, claims: dict[str, Any]
) -> str | None:
    """The key that a verified token is bound to, once the request has proved possession of it.

    Raises: Unauthorized; Unavailable.
    """
    try:
        jkt = confirmation_thumbprint(claims.get("cnf"))
        await dpop_verification.require_proof(services, zone, presented, jkt)
    except NonceRequired as failure:
        raise Unauthorized(REFUSED, internal=failure.detail, nonce=failure.nonce) from None
    except (ValueError, OAuthError) as failure:
        raise Unauthorized(REFUSED, internal=str(failure)) from None
    return jkt


def way_of(sign_in: CallerSession) -> ManagementToken:
    """The way in that the token of a user's request is."""
    account = sign_in.account
    return ManagementToken(account.id, sign_in.zone_id, account.issuer, sign_in.source, sign_in.by_platform)


def _sign_in(found: AuthenticatedUser, *, at_home: bool) -> CallerSession:
    token = found.token
    return CallerSession(
        HomeAccount(found.user.id, found.zone.issuer, found.user.identifier),
        found.zone.organization_id,
        found.zone.id,
        found.session.id,
        found.client.client_id,
        found.session.expires_at,
        by_platform=token.by_platform,
        user=found.user,
        source=token.source,
        at_home=at_home,
        jkt=found.jkt,
    )


async def _caller(
    services: Services, conn: AsyncConnection, zone: CachedZone, sign_in: CallerSession
) -> Caller:
    """Who somebody is in the organization whose home zone it is. Raises Unauthorized."""
    try:
        admitted = await admission.admit(conn, zone.entity, way_of(sign_in), now=services.clock())
    except SignInRefused as refusal:
        raise Unauthorized(REFUSED, internal=refusal.internal or refusal.detail) from None
    person = cast(OrganizationUser, admitted.member)
    return Caller(
        person.id,
        "user",
        person.organization_id,
        person.role.value,
        person.email or admitted.user.email,
        zone_roles=await people.zone_roles(conn, person.zone_user_id, zone_id=zone.id),
        sign_in=sign_in,
    )
