"""Browser sessions: single sign-on for the applications of one zone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeGuard

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.adapters.keys.sealing import new_secret
from runtime.domain.identifiers import new_id
from runtime.domain.kinds.role import User
from runtime.domain.lifetimes import is_active
from runtime.domain.oauth.claims import seconds
from runtime.domain.oauth.session_claims import kept_claims
from runtime.services import cache_sizes
from runtime.services.authority import active
from runtime.services.authority.active import NotActive
from runtime.services.bounded_cache import BoundedCache
from runtime.services.container import Services
from runtime.services.zones import CachedZone, ChangeHistory, ZoneCache
from runtime.storage.sql import sessions as storage
from runtime.storage.sql.sessions import SessionRecord

# What userinfo and ID tokens repeat under `profile` of what a provider says about a person.
PROFILE_CLAIMS = (
    "name",
    "given_name",
    "family_name",
    "middle_name",
    "nickname",
    "preferred_username",
    "profile",
    "picture",
    "website",
    "zoneinfo",
    "locale",
)


@dataclass(frozen=True, slots=True)
class Browser:
    """What a request shows of the browser it comes from: two cookies of this zone, and an address.

    Attributes:
        is_framed: the answer is for a frame of some other site's page; what a browser does not say is not.
    """

    session: str | None
    pre_login: str | None
    address: str
    is_framed: bool = False


@dataclass(frozen=True, slots=True)
class SignedInUser:
    """A user with the browser session that stands for them."""

    session: SessionRecord
    user: User


@dataclass(frozen=True, slots=True)
class Authentication:
    """How somebody has just proved who they are.

    Attributes:
        at: when; a provider may say that it was earlier, or not say.
        claims: what a provider says about the person.
        id_token: the provider's, when the session's end is to be told there.
    """

    at: datetime | None
    amr: tuple[str, ...] = ()
    acr: str | None = None
    provider_id: str | None = None
    issuer: str | None = None
    subject: str | None = None
    claims: Mapping[str, object] = field(default_factory=dict)
    id_token: str | None = field(default=None, repr=False)


class BrowserSessionCache(ZoneCache):
    """Browser sessions of a zone with their users, as they were last read, by session id."""

    def __init__(self, history: ChangeHistory) -> None:
        self.sessions: BoundedCache[tuple[SessionRecord, User]] = BoundedCache(cache_sizes.SESSIONS)


async def current(services: Services, zone: CachedZone, cookie: str | None) -> SignedInUser | None:
    """Whom the browser's cookie stands for; None when nobody, any more."""
    if cookie is None:
        return None
    found = await services.browser_sessions.by_cookie(services.hasher.hash(cookie), zone_id=zone.id)
    if found is None:
        return None
    session, user = found
    zone.cache_of(BrowserSessionCache).sessions[session.id] = found
    try:
        active.require_active(session, user, services.clock())
    except NotActive:
        return None
    return SignedInUser(session, user)


async def open_session(
    conn: AsyncConnection,
    services: Services,
    zone: CachedZone,
    user: User,
    how: Authentication,
    *,
    started_by: str,
    previous_cookie: str | None,
) -> tuple[SignedInUser, str]:
    """A new session, and the new cookie value that stands for it.

    The cookie the browser came with means nothing afterwards, whoever put it there. When it stood for the
    same user, what that session let in goes on below the new one, so that signing out ends all of it.

    Args:
        started_by: name of the application the user was signing in to.
    """
    previous = None
    if previous_cookie is not None:
        hashed = services.hasher.hash(previous_cookie)
        previous = await storage.find_by_cookie(conn, hashed, zone_id=zone.id)
        await storage.detach_cookie(conn, hashed, zone_id=zone.id)
    session_id, cookie, now = new_id(), new_secret(), services.clock()
    session = SessionRecord(
        id=session_id,
        organization_id=zone.organization_id,
        zone_id=zone.id,
        user_id=user.id,
        application_id=None,
        session_type="browser",
        authenticated_at=how.at,
        expires_at=now + timedelta(seconds=services.settings.session_lifetime_seconds),
        created_at=now,
        updated_at=now,
        acr=how.acr,
        amr=list(how.amr),
        provider_id=how.provider_id,
        issuer=how.issuer,
        subject=how.subject,
        provider_subject=_text(how.claims.get("sub")) if how.provider_id else None,
        provider_session=_text(how.claims.get("sid")) if how.provider_id else None,
        provider_id_token=seal_id_token(zone, session_id, how.id_token) if how.id_token else None,
        session_data=_session_data(zone, user, how),
        metadata={"name": started_by},
        cookie_hash=services.hasher.hash(cookie),
    )
    await storage.add(conn, session)
    if previous is not None and previous.user_id == user.id and is_active(previous, now):
        await storage.supersede(conn, previous.id, by=session.id, zone_id=zone.id)
    return SignedInUser(session, user), cookie


def _session_data(zone: CachedZone, user: User, how: Authentication) -> dict[str, Any]:
    """The claims of the ID token that a user signed in with: the provider's, or the zone's own."""
    if how.provider_id is not None:
        return kept_claims(how.claims, first=("iss", "sub", *PROFILE_CLAIMS))
    own = {
        "iss": zone.issuer,
        "sub": user.identifier,
        "email": user.email,
        "email_verified": user.email_verified,
        "auth_time": seconds(how.at) if how.at else None,
        "amr": list(how.amr) or None,
    }
    return {name: value for name, value in own.items() if value is not None}


def seal_id_token(zone: CachedZone, session_id: str, id_token: str) -> bytes:
    """A provider's ID token as its session keeps it."""
    return zone.sealer.seal(id_token.encode(), bound_to=_place(session_id))


def open_id_token(zone: CachedZone, session: SessionRecord) -> str | None:
    """The provider's ID token of a session, if it keeps one."""
    sealed = session.provider_id_token
    return zone.sealer.open(sealed, bound_to=_place(session.id)).decode() if sealed is not None else None


def _place(session_id: str) -> str:
    return f"sessions/{session_id}/provider_id_token"


def profile_claims(session_data: Mapping[str, object]) -> dict[str, str]:
    """What a session knows of a person under the scope `profile`. Spec: OpenID Connect Core section 5.4."""
    return {name: value for name in PROFILE_CLAIMS if _is_plain(value := session_data.get(name))}


def _text(value: object) -> str | None:
    return value if _is_plain(value) else None


def _is_plain(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= 2048
