"""A session together with its user, in one statement."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import and_, bindparam, select
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import USER
from runtime.domain.kinds.role import User
from runtime.storage.sql.conversion import converter
from runtime.storage.sql.prepared import PreparedStatement
from runtime.storage.sql.sessions import PREFIXED, SessionRecord, read_in_order
from runtime.storage.sql.tables import METADATA, TABLES

_sessions = METADATA.tables["sessions"]
_users = TABLES["User"]

_BOTH = (
    select(*PREFIXED, *_users.c)
    .join(_users, and_(_users.c.id == _sessions.c.user_id, _users.c.zone_id == _sessions.c.zone_id))
    .where(_sessions.c.zone_id == bindparam("zone"))
)
_OF_COOKIE = PreparedStatement(_BOTH.where(_sessions.c.cookie_hash == bindparam("cookie")))
_OF_ID = PreparedStatement(_BOTH.where(_sessions.c.id == bindparam("session")))


async def by_cookie(
    conn: AsyncConnection, cookie_hash: bytes, *, zone_id: str
) -> tuple[SessionRecord, User] | None:
    """The browser session that a cookie of that zone stands for, whatever its status, and its user."""
    return _pair(await _OF_COOKIE.rows(conn, {"zone": zone_id, "cookie": cookie_hash}))


async def by_session(
    conn: AsyncConnection, session_id: str, *, zone_id: str
) -> tuple[SessionRecord, User] | None:
    """The user's session with that id in that zone, whatever its status, and the user."""
    return _pair(await _OF_ID.rows(conn, {"zone": zone_id, "session": session_id}))


def _pair(found: Sequence[Sequence[Any]]) -> tuple[SessionRecord, User] | None:
    if not found:
        return None
    (row,) = found
    return read_in_order(row[: len(PREFIXED)]), converter(USER).entity(row[len(PREFIXED) :])
