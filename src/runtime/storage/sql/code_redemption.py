"""Redemption of an authorization code: inserts the application's session and its refresh family.

The sign-in is checked in the statement that writes, so what was concluded from an earlier look at it holds at
the moment it counts.
"""

from dataclasses import dataclass

from sqlalchemy import FromClause, Select, Table, bindparam, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import ReturningInsert

from runtime.domain.kinds.role import User
from runtime.storage.sql import refresh_families, sessions
from runtime.storage.sql.prepared import PreparedStatement
from runtime.storage.sql.refresh_families import RefreshFamily
from runtime.storage.sql.sessions import SessionRecord
from runtime.storage.sql.tables import METADATA, TABLES

_sessions = METADATA.tables["sessions"]
_families = METADATA.tables["refresh_families"]
_users = TABLES["User"]


@dataclass(frozen=True, slots=True)
class BrowserLogin:
    """A browser session and its user, active when they were read.

    Attributes:
        session: the browser session, with the epoch that it was read at.
    """

    session: SessionRecord
    user: User


# That both are active was concluded from them as they are under these epochs, which every end raises. Whoever
# ends the session or changes the user waits for this, or this one for that and then sees what came of it. The
# user comes first, as in every transaction that locks both.
# Each is found by its own id. Whose the session is never changes: joined by that, a plan of the time when
# there were few sessions reads all that the user has.
_STANDING: Select[tuple[str]] = (
    select(_sessions.c.id)
    .join(_users, _users.c.zone_id == _sessions.c.zone_id)
    .where(
        _sessions.c.zone_id == bindparam("standing_zone"),
        _sessions.c.id == bindparam("standing_session"),
        _sessions.c.epoch == bindparam("standing_session_epoch"),
        _sessions.c.parent_id.is_(None),
        _sessions.c.expires_at == bindparam("standing_end"),
        _users.c.id == bindparam("standing_user"),
        _users.c.epoch == bindparam("standing_user_epoch"),
    )
    .with_for_update(read=True, of=[_users, _sessions])
)


def _where_there_is(
    source: FromClause, table: Table, names: tuple[str, ...], prefix: str
) -> ReturningInsert[tuple[str]]:
    """The statement that adds one row when *source* has one, and says so. Its parameters have a prefix."""
    values = [bindparam(f"{prefix}{name}", type_=table.c[name].type) for name in names]
    added = insert(table).from_select(names, select(*values).select_from(source))
    return added.returning(table.c.id)


_INSERT_SESSION = _where_there_is(_STANDING.cte("standing"), _sessions, SessionRecord.__slots__, "session_")
_SESSION = PreparedStatement(_INSERT_SESSION)
_BOTH = PreparedStatement(
    _where_there_is(_INSERT_SESSION.cte("session"), _families, RefreshFamily.__slots__, "family_")
)


async def insert_session(
    conn: AsyncConnection, session: SessionRecord, family: RefreshFamily | None, *, under: BrowserLogin
) -> bool:
    """Insert the session of a redeemed code, and its refresh family; tell whether they were inserted.

    Nothing is inserted when the browser session or the user has changed since, or the client is gone.

    It is one statement on PostgreSQL, and two in a transaction of the caller's on SQLite.
    """
    standing = {
        "standing_zone": under.session.zone_id,
        "standing_session": under.session.id,
        "standing_session_epoch": under.session.epoch,
        "standing_end": under.session.expires_at,
        "standing_user": under.user.id,
        "standing_user_epoch": under.user.epoch,
    }
    given = standing | {f"session_{name}": value for name, value in sessions.values(session).items()}
    in_one = family is not None and conn.dialect.name == "postgresql"
    if family is not None and in_one:
        given |= {f"family_{name}": value for name, value in refresh_families.values(family).items()}
    try:
        added = bool(await (_BOTH if in_one else _SESSION).rows(conn, given))
    except IntegrityError:  # the application was deleted meanwhile
        return False
    if added and family is not None and not in_one:
        await refresh_families.add(conn, family)
    return added
