"""A session together with its user, in one statement."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import LargeBinary, and_, any_, bindparam, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import USER
from runtime.domain.kinds.role import User
from runtime.storage.batching import RequestBatcher
from runtime.storage.sql.conversion import converter
from runtime.storage.sql.database import Database
from runtime.storage.sql.prepared import PreparedStatement
from runtime.storage.sql.sessions import PREFIXED, SessionRecord, read_in_order
from runtime.storage.sql.tables import METADATA, TABLES

_sessions = METADATA.tables["sessions"]
_users = TABLES["User"]

_BOTH = select(*PREFIXED, *_users.c).join(
    _users, and_(_users.c.id == _sessions.c.user_id, _users.c.zone_id == _sessions.c.zone_id)
)
_OF_COOKIE = PreparedStatement(_BOTH.where(_sessions.c.cookie_hash == bindparam("cookie")))
_OF_COOKIES = PreparedStatement(  # PostgreSQL's
    _BOTH.where(_sessions.c.cookie_hash == any_(bindparam("cookies", type_=ARRAY(LargeBinary))))
)
_OF_ID = PreparedStatement(
    _BOTH.where(_sessions.c.zone_id == bindparam("zone"), _sessions.c.id == bindparam("session"))
)

_ZONE, _COOKIE = (SessionRecord.__slots__.index(name) for name in ("zone_id", "cookie_hash"))

SessionUser = tuple[SessionRecord, User]


class BrowserSessionReader:
    """Reads browser sessions by cookie: those asked for at the same time, on one connection."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lookups = RequestBatcher(self._read)

    async def by_cookie(self, cookie_hash: bytes, *, zone_id: str) -> SessionUser | None:
        """The browser session that a cookie of that zone stands for, whatever its status, and its user.

        Raises: Unavailable.
        """
        row = await self._lookups.answer((zone_id, cookie_hash))
        return None if row is None else _pair(row)

    async def _read(self, wanted: Sequence[tuple[str, bytes]]) -> Sequence[Sequence[Any] | None]:
        """The rows as they are: one that cannot be read is a failure of who asks for it alone."""
        cookies = list({cookie for _, cookie in wanted})
        async with self._database.querying() as conn:
            if self._database.dialect == "postgresql":
                rows = await _OF_COOKIES.rows(conn, {"cookies": cookies})
            else:
                rows = [row for each in cookies for row in await _OF_COOKIE.rows(conn, {"cookie": each})]
        found = {(row[_ZONE], row[_COOKIE]): row for row in rows}
        return [found.get(each) for each in wanted]


async def by_session(conn: AsyncConnection, session_id: str, *, zone_id: str) -> SessionUser | None:
    """The user's session with that id in that zone, whatever its status, and the user."""
    found = await _OF_ID.rows(conn, {"zone": zone_id, "session": session_id})
    return _pair(found[0]) if found else None


def _pair(row: Sequence[Any]) -> SessionUser:
    return read_in_order(row[: len(PREFIXED)]), converter(USER).entity(row[len(PREFIXED) :])
