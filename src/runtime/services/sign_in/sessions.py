"""Browser sessions: single sign-on for the applications of one zone, never across zones."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.adapters.keys.sealing import new_secret
from runtime.domain.errors import NotFound
from runtime.domain.identifiers import new_id
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import UserStatus
from runtime.services.parts import Parts
from runtime.services.zones import ZoneView
from runtime.storage.sql import sessions as storage
from runtime.storage.sql import users
from runtime.storage.sql.sessions import Session

# What a session keeps of what a provider says about a person, and userinfo repeats under `profile`.
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
    """What a request shows of the browser it comes from: two cookies of this zone, and an address."""

    session: str | None
    pre_login: str | None
    address: str


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A user with the browser session that stands for them."""

    session: Session
    user: User


@dataclass(frozen=True, slots=True)
class Authentication:
    """How somebody has just proved who they are.

    Attributes:
        at: when; a provider may say that it was earlier.
        claims: what a provider says about the person.
    """

    at: datetime
    amr: tuple[str, ...] = ()
    acr: str | None = None
    provider_id: str | None = None
    issuer: str | None = None
    subject: str | None = None
    claims: Mapping[str, Any] = field(default_factory=dict)


async def current(parts: Parts, view: ZoneView, cookie: str | None) -> SignedIn | None:
    """Whom the browser's cookie stands for; None when nobody, any more."""
    if cookie is None:
        return None
    async with parts.database.reading() as conn:
        session = await storage.find_by_cookie(conn, parts.hasher.hash(cookie), zone_id=view.id)
        if session is None or session.user_id is None or not session.is_active(parts.clock()):
            return None
        try:
            user = await users.get(conn, session.user_id, zone_id=view.id)
        except NotFound:
            return None
    return SignedIn(session, user) if user.status is UserStatus.ACTIVE else None


async def open_session(
    conn: AsyncConnection,
    parts: Parts,
    view: ZoneView,
    user: User,
    how: Authentication,
    *,
    started_by: str,
    previous_cookie: str | None,
) -> tuple[SignedIn, str]:
    """A new session, and the new cookie value that stands for it.

    The cookie the browser came with means nothing afterwards, whoever put it there.

    Args:
        started_by: name of the application the user was signing in to.
    """
    if previous_cookie is not None:
        await storage.detach_cookie(conn, parts.hasher.hash(previous_cookie), zone_id=view.id)
    cookie, now = new_secret(), parts.clock()
    session = Session(
        id=new_id(),
        organization_id=view.organization_id,
        zone_id=view.id,
        user_id=user.id,
        application_id=None,
        session_type="browser",
        authenticated_at=how.at,
        expires_at=now + timedelta(seconds=parts.settings.session_lifetime_seconds),
        created_at=now,
        updated_at=now,
        acr=how.acr,
        amr=list(how.amr),
        provider_id=how.provider_id,
        issuer=how.issuer,
        subject=how.subject,
        session_data={name: how.claims[name] for name in PROFILE_CLAIMS if _is_plain(how.claims.get(name))},
        metadata={"name": started_by},
        cookie_hash=parts.hasher.hash(cookie),
    )
    await storage.add(conn, session)
    return SignedIn(session, user), cookie


def _is_plain(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 2048
