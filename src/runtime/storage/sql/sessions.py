"""Sessions: a sign-in's browser session, and below it one session for each application."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    and_,
    bindparam,
    delete,
    exists,
    false,
    insert,
    not_,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.engine import CursorResult, RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.storage.sql import revocations
from runtime.storage.sql.batches import among
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.revocations import Revocation
from runtime.storage.sql.tables import METADATA, TABLES

SessionType = Literal["browser", "application", "offline", "client_credentials"]
CLIENT_CREDENTIALS: SessionType = "client_credentials"

_sessions = METADATA.tables["sessions"]
_families = METADATA.tables["refresh_families"]
_applications = TABLES["Application"]

# Statements of every sign-in are made once: making one costs more than running it.
_OF_ZONE = select(_sessions).where(_sessions.c.zone_id == bindparam("zone"))
_OF_ID = _OF_ZONE.where(_sessions.c.id == bindparam("session"))
_PLACE_LOCKED = (
    select(_sessions.c.id, _sessions.c.parent_id, _sessions.c.status, _sessions.c.expires_at)
    .where(_sessions.c.zone_id == bindparam("zone"), _sessions.c.id == bindparam("session"))
    .with_for_update()
)
_OF_COOKIE = _OF_ZONE.where(_sessions.c.cookie_hash == bindparam("cookie"))
_OF_CLIENT = (
    _OF_ZONE.where(
        _sessions.c.user_id.is_(None),
        _sessions.c.session_type == CLIENT_CREDENTIALS,
        _sessions.c.application_id == bindparam("application"),
        _sessions.c.client_id == bindparam("client"),
        _sessions.c.status == "active",
        _sessions.c.expires_at >= bindparam("until", type_=_sessions.c.expires_at.type),
    )
    .order_by(_sessions.c.expires_at.desc(), _sessions.c.id)
    .limit(1)
)
_APPLICATION_LOCKED = (
    select(_applications.c.id)
    .where(_applications.c.zone_id == bindparam("zone"), _applications.c.id == bindparam("application"))
    .with_for_update(key_share=True)
)
_ADD = insert(_sessions)


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session as it is kept.

    Attributes:
        session_type: `browser` for single sign-on; `application` for what one code was redeemed for, below
            a browser session; `offline` for the same when it outlives the browser session;
            `client_credentials` for what an application does on its own behalf, without a user.
        parent_id: the browser session of an `application` session; of a browser session, the later one of
            the same user in the same browser that has taken its place.
        browser_session_id: of an `offline` session, the browser session in which it was begun, or the one
            that has taken its place: its client is told when that ends. The session does not end with it.
        client_id: what the application is on the wire: its logout token is for that. None in a browser's.
        provider_subject, provider_session: `sub` and `sid` of the provider's ID token, by which the provider
            speaks of this session when it ends its own.
        provider_id_token: that ID token, sealed, for leaving the provider too; kept while the session stands.
        authenticated_at: when the user proved who they are; None when the provider does not say.
        cookie_hash: what recognises the browser; None for sessions without one.
        session_data: claims of the ID token that the user signed in with; of an application, about itself.
        metadata: `name` of the application or user agent that started it.
    """

    id: str
    organization_id: str
    zone_id: str
    user_id: str | None
    application_id: str | None
    session_type: str
    authenticated_at: datetime | None
    expires_at: datetime
    created_at: datetime
    updated_at: datetime
    status: str = "active"
    epoch: int = 1
    acr: str | None = None
    amr: list[str] = field(default_factory=list)
    provider_id: str | None = None
    issuer: str | None = None
    subject: str | None = None
    provider_subject: str | None = None
    provider_session: str | None = None
    provider_id_token: bytes | None = None
    session_data: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    user_agent_id: str | None = None
    client_id: str | None = None
    parent_id: str | None = None
    browser_session_id: str | None = None
    cookie_hash: bytes | None = None

    @property
    def client_ref(self) -> ClientRef:
        """Whose session it is; of a browser session, nobody's."""
        return ClientRef(self.application_id, self.user_agent_id)


@dataclass(frozen=True, slots=True)
class SessionState:
    """Where a session stands, and whether it does.

    Attributes:
        parent_id: see `SessionRecord`.
    """

    id: str
    parent_id: str | None
    status: str
    expires_at: datetime


async def lock(conn: AsyncConnection, session_id: str, *, zone_id: str) -> SessionState | None:
    """Let nobody else end a session before the transaction does."""
    found = await conn.execute(_PLACE_LOCKED, {"zone": zone_id, "session": session_id})
    row = found.one_or_none()
    return None if row is None else SessionState(row.id, row.parent_id, row.status, row.expires_at)


async def add(conn: AsyncConnection, session: SessionRecord) -> None:
    """Keep a new session."""
    await conn.execute(_ADD, values(session))


def values(session: SessionRecord) -> dict[str, Any]:
    """The columns of a session's row."""
    columns = {name: getattr(session, name) for name in SessionRecord.__slots__}
    columns["session_data"], columns["metadata"] = dict(session.session_data), dict(session.metadata)
    return columns


async def find(conn: AsyncConnection, session_id: str, *, zone_id: str) -> SessionRecord | None:
    """The session with that id in that zone, whatever its status."""
    return _one(await conn.execute(_OF_ID, {"zone": zone_id, "session": session_id}))


async def find_by_cookie(conn: AsyncConnection, cookie_hash: bytes, *, zone_id: str) -> SessionRecord | None:
    """The browser session that a cookie of that zone stands for, whatever its status."""
    return _one(await conn.execute(_OF_COOKIE, {"zone": zone_id, "cookie": cookie_hash}))


async def of_client(
    conn: AsyncConnection, application_id: str, client_id: str, *, zone_id: str, until: datetime
) -> SessionRecord | None:
    """An active session of an application without a user that lasts until then, at least."""
    asked = {"zone": zone_id, "application": application_id, "client": client_id, "until": until}
    return _one(await conn.execute(_OF_CLIENT, asked))


async def lock_application(conn: AsyncConnection, application_id: str, *, zone_id: str) -> bool:
    """Let nobody else begin a session of an application before the transaction ends; False without one."""
    asked = {"zone": zone_id, "application": application_id}
    return await conn.scalar(_APPLICATION_LOCKED, asked) is not None


async def detach_cookie(conn: AsyncConnection, cookie_hash: bytes, *, zone_id: str) -> None:
    """Let a cookie mean nothing any more; the session behind it keeps its applications' tokens."""
    await conn.execute(
        update(_sessions)
        .where(_sessions.c.cookie_hash == cookie_hash, _sessions.c.zone_id == zone_id)
        .values(cookie_hash=None)
    )


async def supersede(conn: AsyncConnection, session_id: str, *, by: str, zone_id: str) -> None:
    """Put a session, and what stands below it or was begun in it, below the one that has taken its place."""
    await lock(conn, session_id, zone_id=zone_id)  # as in `revoke`
    await conn.execute(
        update(_sessions)
        .where(
            or_(_sessions.c.id == session_id, _sessions.c.parent_id == session_id),
            _sessions.c.zone_id == zone_id,
        )
        .values(parent_id=by)
    )
    await conn.execute(
        update(_sessions)
        .where(_sessions.c.zone_id == zone_id, _sessions.c.browser_session_id == session_id)
        .values(browser_session_id=by)
    )


async def of_provider(
    conn: AsyncConnection, *, zone_id: str, issuer: str, subject: str | None, session: str | None
) -> list[str]:
    """Ids of the standing sessions that a provider means by `sub`, by `sid`, or by both.

    They are those of browsers, and those that an application has by the provider's word alone. Where the
    provider never said a session's `sid`, any `sid` of the same subject may be it.
    """
    vouched_for = and_(_sessions.c.session_type == "application", _sessions.c.parent_id.is_(None))
    named = [_sessions.c.provider_subject == subject] if subject is not None else []
    if session is not None:
        may_be_it = _sessions.c.provider_session.is_(None) if named else false()
        named.append(or_(_sessions.c.provider_session == session, may_be_it))
    found = await conn.execute(
        select(_sessions.c.id).where(
            _sessions.c.zone_id == zone_id,
            _sessions.c.issuer == issuer,
            or_(_sessions.c.session_type == "browser", vouched_for),
            _sessions.c.status == "active",
            *named,
        )
    )
    return list(found.scalars())


async def has_let_in(conn: AsyncConnection, user_id: str, client_id: str, *, zone_id: str) -> bool:
    """Tell whether there is a session of that user for that client, standing or ended."""
    found = await conn.execute(
        select(_sessions.c.id)
        .where(
            _sessions.c.zone_id == zone_id,
            _sessions.c.user_id == user_id,
            _sessions.c.client_id == client_id,
        )
        .limit(1)
    )
    return found.first() is not None


async def of_user(conn: AsyncConnection, user_id: str, *, zone_id: str, now: datetime) -> list[SessionRecord]:
    """A user's standing sessions of every type, the latest first."""
    found = await conn.execute(
        select(_sessions)
        .where(
            _sessions.c.zone_id == zone_id,
            _sessions.c.user_id == user_id,
            _sessions.c.status == "active",
            _sessions.c.expires_at > now,
        )
        .order_by(_sessions.c.created_at.desc(), _sessions.c.id)
    )
    return [read_session(row) for row in found.mappings()]


async def extend(conn: AsyncConnection, session_id: str, *, zone_id: str, until: datetime) -> None:
    """Move an active session's end."""
    await conn.execute(
        update(_sessions)
        .where(_sessions.c.id == session_id, _sessions.c.zone_id == zone_id, _sessions.c.status == "active")
        .values(expires_at=until)
    )


async def revoke(conn: AsyncConnection, *session_ids: str, zone_id: str, now: datetime) -> dict[str, int]:
    """End sessions, those below them and their refresh families, in as many statements for many as for one.

    Returns:
        session id -> its new epoch, for each that this call ended.
    """
    of_zone = select(_sessions.c.id).where(_sessions.c.zone_id == zone_id)
    meant = of_zone.where(among(_sessions.c.id, session_ids))
    # Whoever is putting a session below one of these has its lock: it is seen once the lock is ours.
    await conn.execute(meant.order_by(_sessions.c.id).with_for_update())
    # By itself: where a subquery has both, PostgreSQL may read the whole of it once for each session.
    below = await conn.execute(of_zone.where(among(_sessions.c.parent_id, session_ids)))
    ended = await conn.execute(
        update(_sessions)
        .where(
            _sessions.c.zone_id == zone_id,
            among(_sessions.c.id, {*session_ids, *below.scalars()}),
            _sessions.c.status == "active",
        )
        .values(status="revoked", epoch=_sessions.c.epoch + 1, updated_at=now, provider_id_token=None)
        .returning(_sessions.c.id, _sessions.c.epoch, _sessions.c.expires_at)
    )
    rows = ended.all()
    epochs = {row.id: int(row.epoch) for row in rows}
    if epochs:
        told = [Revocation(now, row.expires_at, {"sid": row.id}) for row in rows]
        await revocations.add(conn, zone_id, told)
        await conn.execute(
            update(_families)
            .where(_families.c.zone_id == zone_id, among(_families.c.session_id, epochs))
            .values(status="revoked", successor_sealed=None)
        )
    return epochs


async def forget_ended(conn: AsyncConnection, *, before: datetime, limit: int) -> int:
    """Forget sessions whose time was over before that instant, with their refresh families; how many.

    Args:
        limit: at most so many. One that others stand below goes after them.
    """
    below = _sessions.alias("below")
    old = (
        select(_sessions.c.zone_id, _sessions.c.id)
        .where(
            _sessions.c.expires_at < before,
            ~exists().where(below.c.zone_id == _sessions.c.zone_id, below.c.parent_id == _sessions.c.id),
        )
        .order_by(_sessions.c.expires_at)
        .limit(limit)
    )
    key = tuple_(_sessions.c.zone_id, _sessions.c.id)
    gone = await conn.execute(delete(_sessions).where(key.in_(old.subquery().select())))
    return gone.rowcount


def has_status(now: datetime, status: str) -> ColumnElement[bool]:
    """The condition that a session is `active`, `expired` or `revoked`."""
    if status == "revoked":
        return _sessions.c.status == status
    alive = _sessions.c.expires_at > now
    return and_(_sessions.c.status == "active", alive if status == "active" else not_(alive))


def is_of(session_type: str) -> ColumnElement[bool]:
    """The condition that a session is a `user`'s, or an `application`'s own."""
    return _sessions.c.user_id.is_not(None) if session_type == "user" else _sessions.c.user_id.is_(None)


def is_initiated() -> ColumnElement[bool]:
    """The condition that a session stands below no other, and that somebody has begun it."""
    return and_(
        _sessions.c.parent_id.is_(None),
        or_(_sessions.c.user_id.is_not(None), _sessions.c.application_id.is_not(None)),
    )


# Beside the columns of another table: each by a name of its own.
PREFIXED = tuple(_sessions.c[name].label(f"session_{name}") for name in SessionRecord.__slots__)


def read_prefixed(row: RowMapping) -> SessionRecord:
    """The session in a row that has the columns of `PREFIXED`, among others."""
    return read_session({name: row[f"session_{name}"] for name in SessionRecord.__slots__})


def read_in_order(values: Sequence[Any]) -> SessionRecord:
    """The session whose columns are those of `PREFIXED`, in that order."""
    return read_session(dict(zip(SessionRecord.__slots__, values, strict=True)))


def read_session(row: RowMapping | Mapping[str, Any]) -> SessionRecord:
    """The session in a row that has every column of the table."""
    values = {name: row[name] for name in SessionRecord.__slots__}
    values["amr"] = values["amr"] or []
    values["session_data"], values["metadata"] = values["session_data"] or {}, values["metadata"] or {}
    return SessionRecord(**values)


def _one(found: CursorResult[Any]) -> SessionRecord | None:
    row = found.mappings().one_or_none()
    return None if row is None else read_session(row)
