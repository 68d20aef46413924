"""Prepared statements: the driver gives what the engine gives, in its transaction, or fails as it does."""

import asyncio
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from sqlalchemy import bindparam, delete, event, func, insert, select
from sqlalchemy.exc import DBAPIError, IntegrityError
from tests.support import entities as make

from runtime.domain.errors import Unavailable
from runtime.domain.identifiers import new_id
from runtime.storage.sql import sessions
from runtime.storage.sql.prepared import PreparedStatement
from runtime.storage.sql.sessions import SessionRecord
from runtime.storage.sql.tables import METADATA

NOW = datetime(2026, 1, 1, 12, 30, 0, 123456, tzinfo=UTC)
_sessions = METADATA.tables["sessions"]
_ALL = tuple(_sessions.c[name] for name in SessionRecord.__slots__)
_INSERT = insert(_sessions).returning(_sessions.c.id)
_FIND = select(*_ALL).where(_sessions.c.zone_id == bindparam("zone"), _sessions.c.id == bindparam("session"))
WAYS = ["querying", "writing_once", "transaction", "reading", "brief_reading"]


@pytest.fixture
async def zone(database):
    """A stored zone."""
    async with database.transaction() as conn:
        return await make.add_zone(conn)


def session_in(zone):
    """A session with a value of every type."""
    return SessionRecord(
        id=new_id(),
        organization_id=zone.organization_id,
        zone_id=zone.id,
        user_id=None,
        application_id=None,
        session_type="browser",
        authenticated_at=None,
        expires_at=NOW,
        created_at=NOW,
        updated_at=NOW,
        amr=["pwd", "otp"],
        session_data={"name": "Zoë", "n": [1, None, True]},
        cookie_hash=bytes(range(32)),
    )


def where(session):
    """The parameters that find it."""
    return {"zone": session.zone_id, "session": session.id}


def begun(database, way):
    """A connection of one sort."""
    return database.reading(brief=True) if way == "brief_reading" else getattr(database, way)()


@contextmanager
def noted(database, name):
    """What is told to who listens to the engine's events of that name."""
    seen = []

    def note(_conn, *told):
        seen.append(str(told[0] if name == "before_execute" else told[1]))

    event.listen(database.engine.sync_engine, name, note)
    try:
        yield seen
    finally:
        event.remove(database.engine.sync_engine, name, note)


@pytest.mark.parametrize("way", WAYS)
async def test_rows_are_those_of_the_engine(database, zone, way):
    """Values of every type, in the order of the columns, on each sort of connection."""
    session = session_in(zone)
    async with database.transaction() as conn:
        await sessions.add(conn, session)
        expected = tuple((await conn.execute(_FIND, where(session))).one())

    async with begun(database, way) as conn:
        (found,) = await PreparedStatement(_FIND).rows(conn, where(session))
        none = await PreparedStatement(_FIND).rows(conn, where(session_in(zone)))

    assert tuple(found) == expected
    assert dict(zip(SessionRecord.__slots__, found, strict=True)) == sessions.values(session)
    assert not none


@pytest.mark.parametrize(
    ("way", "engines"),
    [("querying", ()), ("writing_once", ()), ("reading", ("sqlite",)), ("brief_reading", ())],
)
async def test_the_driver_executes_it_on_hot_paths(database, zone, way, engines):
    """Elsewhere the engine does. Who listens to what is sent to the database hears of it either way."""
    engine_executes = int(database.dialect in engines)
    with noted(database, "before_execute") as executed, noted(database, "before_cursor_execute") as sent:
        async with begun(database, way) as conn:
            await PreparedStatement(_FIND).rows(conn, where(session_in(zone)))

    assert len([each for each in executed if each.startswith("SELECT")]) == engine_executes
    assert len([each for each in sent if each.startswith("SELECT")]) == 1


@pytest.mark.parametrize("way", ["writing_once", "transaction"])
async def test_what_it_writes_is_of_the_transaction(database, zone, way):
    """A row is there once the block has ended; of one that raises after it, nothing is."""
    kept, undone = session_in(zone), session_in(zone)
    add, find = PreparedStatement(_INSERT), PreparedStatement(_FIND)
    async with getattr(database, way)() as conn:
        assert [tuple(row) for row in await add.rows(conn, sessions.values(kept))] == [(kept.id,)]

    async def fail():
        async with database.transaction() as conn:
            await add.rows(conn, sessions.values(undone) | {"cookie_hash": None})
            raise RuntimeError("on the way")

    with pytest.raises(RuntimeError, match="on the way"):
        await fail()

    async with database.querying() as conn:
        assert await find.rows(conn, where(kept))
        assert not await find.rows(conn, where(undone))


@pytest.mark.parametrize("way", ["querying", "writing_once", "transaction"])
async def test_a_refusal_is_the_engines(database, zone, way):
    """A row that is there already is refused in the engine's words, and the connection can be used again."""
    session = session_in(zone)
    add, find = PreparedStatement(_INSERT), PreparedStatement(_FIND)

    async def insert_it():
        async with getattr(database, way)() as conn:
            await add.rows(conn, sessions.values(session))

    await insert_it()
    with pytest.raises(IntegrityError):
        await insert_it()
    async with database.transaction() as conn:
        await conn.execute(delete(_sessions).where(_sessions.c.id == session.id))
    await insert_it()

    async with database.querying() as conn:
        assert await find.rows(conn, where(session))


@pytest.mark.parametrize("brief", [True, False], ids=["brief", "long"])
async def test_what_is_read_is_of_one_instant(database, zone, brief):
    """What is committed after the first statement is not seen by the second, nor by one of the engine."""
    session, find = session_in(zone), PreparedStatement(_FIND)
    async with database.reading(brief=brief) as conn:
        before = await find.rows(conn, where(session))
        async with database.transaction() as other:
            await sessions.add(other, session)
        after = await find.rows(conn, where(session))
        by_engine = (await conn.execute(_FIND, where(session))).all()
    async with database.reading(brief=brief) as conn:
        afresh = await find.rows(conn, where(session))

    assert [len(rows) for rows in (before, after, by_engine, afresh)] == [0, 0, 0, 1]


async def test_nothing_is_written_where_it_is_for_reading(emptied_database):
    """The engine's words for it, and the next one has the connection as it was."""
    database, add = emptied_database, PreparedStatement(_INSERT)

    async def write():
        async with database.reading() as conn:
            await add.rows(conn, dict.fromkeys(SessionRecord.__slots__))

    with pytest.raises(DBAPIError, match="read-only transaction"):
        await write()
    async with database.reading() as conn:
        assert not await PreparedStatement(select(_sessions.c.id)).rows(conn, {})


async def test_a_read_that_is_stopped_leaves_no_transaction_to_the_next(emptied_database):
    """The connection is given up, as the engine does."""
    used = []

    async def read():
        async with emptied_database.reading() as conn:
            used.append(conn.sync_connection.connection.driver_connection)
            await PreparedStatement(select(func.pg_sleep(30))).rows(conn, {})

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await read()

    assert used[0].is_closed()
    async with emptied_database.querying() as conn:
        assert not await PreparedStatement(select(_sessions.c.id)).rows(conn, {})


@pytest.mark.parametrize("way", ["querying", "reading"])
async def test_a_database_that_is_away_is_told_as_ever(emptied_database, way):
    """A connection that has been cut off means that the database is unavailable."""
    statement = PreparedStatement(select(_sessions.c.id))

    async def cut_off():
        async with getattr(emptied_database, way)() as conn:
            conn.sync_connection.connection.driver_connection.terminate()
            await statement.rows(conn, {})

    with pytest.raises(Unavailable):
        await cut_off()
    async with emptied_database.querying() as conn:
        assert not await statement.rows(conn, {})


async def test_a_cancelled_read_leaves_nothing_to_roll_back(database, zone, caplog):
    """Its connection is given up; the pool does not try to use it, nor log that it cannot."""
    if database.dialect == "sqlite":
        pytest.skip("a read on SQLite is not awaited")
    slow = PreparedStatement(select(func.pg_sleep(bindparam("seconds"))))
    async with database.reading() as conn:
        assert len(await slow.rows(conn, {"seconds": 0.0})) == 1

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2), database.reading() as conn:
            await slow.rows(conn, {"seconds": 30.0})

    async with database.reading() as conn:
        assert await PreparedStatement(_FIND).rows(conn, {"zone": zone.id, "session": "none"}) == []
    assert [each.getMessage() for each in caplog.records] == []
