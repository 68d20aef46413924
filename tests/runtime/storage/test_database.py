"""Guarantees of transactions, on SQLite and on PostgreSQL."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import threading

import pytest
from sqlalchemy import event, insert, select, text, update
from sqlalchemy.exc import DBAPIError
from tests import conftest
from tests.support import entities as make
from tests.support.waiting import let_elapse, until

from runtime.domain.errors import Unavailable
from runtime.domain.kinds import APPLICATION, ORGANIZATION, USER
from runtime.storage.sql import engines, entities
from runtime.storage.sql.database import Database
from runtime.storage.sql.sqlite import CommitWatch
from runtime.storage.sql.tables import organization_heads

database = conftest.database  # each test's own: more than its rows is changed here


@pytest.fixture
async def zone(database):
    """A stored zone, its organization at revision 0."""
    async with database.transaction() as conn:
        made = await make.add_zone(conn)
        head = {"revision": 0, "audit_sequence": 0, "audit_hash": ""}
        await conn.execute(insert(organization_heads), head | {"organization_id": made.organization_id})
    return made


async def count(database, zone):
    async with database.querying() as conn:
        return await entities.count(conn, APPLICATION, within={"zone_id": zone.id})


async def test_a_transaction_commits_when_its_block_ends(database, zone):
    """What was written is there for the next connection."""
    async with database.transaction() as conn:
        await entities.insert(conn, APPLICATION, make.application(zone))

    assert await count(database, zone) == 1


async def test_a_transaction_that_raises_leaves_nothing(database, zone):
    """All of it is undone, whatever went wrong."""

    async def write():
        async with database.transaction() as conn:
            await entities.insert(conn, APPLICATION, make.application(zone))
            raise RuntimeError("on the way")

    with pytest.raises(RuntimeError, match="on the way"):
        await write()

    assert await count(database, zone) == 0


async def test_a_cancelled_transaction_leaves_nothing_and_lets_go(database, zone):
    """A request that is cut off neither writes nor keeps others waiting."""
    began = asyncio.Event()

    async def write_forever():
        async with database.transaction() as conn:
            await entities.insert(conn, APPLICATION, make.application(zone))
            began.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(write_forever())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    async with asyncio.timeout(5), database.transaction() as conn:
        await entities.insert(conn, APPLICATION, make.application(zone))
    assert await count(database, zone) == 1


async def test_a_savepoint_undoes_its_part_only(database, zone):
    """Inside a transaction, what a savepoint holds can fail alone."""

    async def fail(conn):
        async with conn.begin_nested():
            await entities.insert(conn, APPLICATION, make.application(zone))
            raise RuntimeError("in the savepoint")

    async with database.transaction() as conn:
        await entities.insert(conn, APPLICATION, make.application(zone))
        with pytest.raises(RuntimeError):
            await fail(conn)

    assert await count(database, zone) == 1


async def test_nothing_is_seen_before_the_commit(database, zone):
    """Readers see what was committed, and do not wait for the writer."""
    async with database.transaction() as conn:
        await entities.insert(conn, APPLICATION, make.application(zone))

        async with asyncio.timeout(5):
            assert await count(database, zone) == 0


@pytest.mark.parametrize("brief", [False, True])
async def test_a_reading_connection_sees_one_instant(database, zone, brief):
    """Whatever is committed meanwhile, the statements of one reading belong together."""
    async with database.reading(brief=brief) as conn:
        before = await entities.count(conn, APPLICATION, within={"zone_id": zone.id})
        async with database.transaction() as writing:
            await entities.insert(writing, APPLICATION, make.application(zone))
        after = await entities.count(conn, APPLICATION, within={"zone_id": zone.id})

    assert (before, after) == (0, 0)
    assert await count(database, zone) == 1


@pytest.mark.parametrize("brief", [False, True])
async def test_a_reading_connection_keeps_nothing(database, zone, brief):
    """What somebody writes on it by mistake is refused or lost."""
    with contextlib.suppress(DBAPIError):
        async with database.reading(brief=brief) as conn:
            await conn.execute(update(organization_heads).values(revision=99))

    async with database.reading(brief=brief) as conn:
        assert (await conn.execute(select(organization_heads.c.revision))).scalar_one() == 0


@pytest.mark.parametrize("brief", [False, True])
async def test_a_brief_reading_of_sqlite_asks_no_thread(sqlite_database, brief):
    """From its beginning to its end; any other runs its statements where they keep nobody waiting."""
    threads = set()
    async with sqlite_database.reading(brief=brief) as conn:
        driver = (await conn.get_raw_connection()).driver_connection._conn
        driver.set_trace_callback(lambda _: threads.add(threading.get_ident()))
        await conn.execute(select(organization_heads.c.revision))
    driver.set_trace_callback(None)

    assert (threads == {threading.get_ident()}) is brief
    assert threads
    assert not driver.in_transaction


async def test_a_brief_reading_that_fails_leaves_no_transaction(sqlite_database):
    """Its connection goes back to the pool as any other's."""

    async def fail():
        async with sqlite_database.reading(brief=True) as conn:
            await conn.execute(select(organization_heads.c.revision))
            drivers.append((await conn.get_raw_connection()).driver_connection._conn)
            raise RuntimeError("on the way")

    drivers = []
    with pytest.raises(RuntimeError, match="on the way"):
        await fail()

    assert not drivers[0].in_transaction


async def test_writes_of_one_organization_follow_one_another(database, zone):
    """Concurrent writers that move the head each get a revision of their own, without a gap."""
    heads = organization_heads
    step = (
        update(heads)
        .where(heads.c.organization_id == zone.organization_id)
        .values(revision=heads.c.revision + 1)
        .returning(heads.c.revision)
    )

    async def write():
        async with database.transaction() as conn:
            revision = (await conn.execute(step)).scalar_one()
            await let_elapse(0.001)
            await entities.insert(conn, APPLICATION, make.application(zone))
            return revision

    revisions = await asyncio.gather(*(write() for _ in range(20)))

    assert sorted(revisions) == list(range(1, 21))
    assert await count(database, zone) == 20


async def test_a_transaction_inside_another_is_refused(sqlite_database):
    """On SQLite the inner one would wait for the outer one forever."""
    with pytest.raises(RuntimeError, match="already"):
        async with sqlite_database.transaction(), sqlite_database.transaction():
            pass


async def test_two_processes_write_to_one_sqlite_file(sqlite_database, sqlite_url):
    """Another process's writer waits at the file; nobody is told that it is locked."""
    other = Database.open(sqlite_url)
    try:
        for database in (sqlite_database, other) * 3:
            async with database.transaction() as conn:
                await entities.insert(conn, ORGANIZATION, make.organization())

        async def write(database):
            async with database.transaction() as conn:
                await conn.execute(select(1))
                await let_elapse(0.01)
                await entities.insert(conn, ORGANIZATION, make.organization())

        await asyncio.gather(*(write(database) for database in (sqlite_database, other) * 5))
        async with other.reading() as conn:
            assert await entities.count(conn, ORGANIZATION, within={}) == 16
    finally:
        await other.close()


async def test_sqlite_holds_to_foreign_keys_and_writes_ahead(sqlite_database):
    """The pragmas that correctness and concurrency rest on are set on every connection."""
    async with sqlite_database.querying() as conn, sqlite_database.querying() as second:
        assert {
            (await connection.execute(text("PRAGMA foreign_keys"))).scalar_one()
            for connection in (conn, second)
        } == {1}
        assert {
            (await connection.execute(text("PRAGMA journal_mode"))).scalar_one()
            for connection in (conn, second)
        } == {"wal"}
        assert not [
            connection
            for connection in (conn, second)
            if not (await connection.execute(text("PRAGMA busy_timeout"))).scalar_one() > 0
        ]


async def test_reads_of_many_requests_at_once_share_a_connection(sqlite_database):
    """Each gives it back before the next one asks: opening one costs a thread, and more than fifty reads."""
    opened = []

    def note(connection, _record):
        opened.append(connection)

    async def read():
        async with sqlite_database.querying() as conn:
            return (await conn.execute(text("SELECT 1"))).scalar_one()

    assert await read() == 1
    event.listen(sqlite_database.engine.sync_engine, "connect", note)
    assert await asyncio.gather(*(read() for _ in range(40))) == [1] * 40

    assert opened == []


async def test_a_connection_that_is_given_back_on_the_way_is_clean(sqlite_database):
    """Requests that are cancelled in a transaction leave nothing open: the next one writes and reads."""
    begun = asyncio.Event()

    async def never_end():
        async with sqlite_database.transaction() as conn:
            await entities.insert(conn, ORGANIZATION, make.organization())
            begun.set()
            await asyncio.Event().wait()

    for _ in range(3):
        begun.clear()
        task = asyncio.ensure_future(never_end())
        await begun.wait()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    async with sqlite_database.transaction() as conn:
        await entities.insert(conn, ORGANIZATION, make.organization())

    async with sqlite_database.reading() as conn:
        assert await entities.count(conn, ORGANIZATION, within={}) == 1


async def test_streams_do_not_need_everything_in_memory(database, zone):
    """Two streams on two connections can be read in turns."""
    async with database.transaction() as conn:
        await entities.insert_many(conn, USER, [make.user(zone) for _ in range(700)])
    scope = {"zone_id": zone.id}

    async with database.reading() as one, database.reading() as two:
        first, second = entities.all_of(one, USER, within=scope), entities.all_of(two, USER, within=scope)
        assert [await anext(first) for _ in range(600)] == [await anext(second) for _ in range(600)]
        await first.aclose()
        await second.aclose()


async def test_a_stream_that_nobody_reads_to_its_end_ends_with_its_connection(database, zone):
    """Whoever has the connection next sees what is there, and can write: as after one that was read."""
    async with database.transaction() as conn:
        await entities.insert_many(conn, APPLICATION, [make.application(zone) for _ in range(700)])
    scope, there = {"zone_id": zone.id}, 700

    for read in (700, 1):
        async with database.reading() as conn:
            left = entities.all_of(conn, APPLICATION, within=scope)
            for _ in range(read):
                await anext(left)
            async with database.transaction() as another:
                await entities.insert(another, APPLICATION, make.application(zone))
            there += 1
        assert {await count(database, zone) for _ in range(4)} == {there}
        for _ in range(2):
            async with database.transaction() as conn:
                await entities.insert(conn, APPLICATION, make.application(zone))
            there += 1
        assert {await count(database, zone) for _ in range(4)} == {there}
        await left.aclose()


async def test_a_database_that_is_away_is_unavailable(tmp_path):
    """Callers are told to come back, not shown a driver's error."""
    away = Database.open(f"postgresql+asyncpg://postgres@/nothing?host={tmp_path}")

    with pytest.raises(Unavailable):
        await away.ping()
    with pytest.raises(Unavailable):
        async with away.transaction():
            pass
    await away.close()


async def test_connections_that_the_server_ended_are_replaced(postgres_url):
    """After the server has come back, the next request works again."""
    database, other = Database.open(postgres_url), Database.open(postgres_url)
    try:
        async with database.querying() as conn:
            pid = (await conn.execute(text("SELECT pg_backend_pid()"))).scalar_one()
        async with other.querying() as conn:
            await conn.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})

        async def is_gone() -> bool:
            async with other.querying() as conn:
                found = text("SELECT count(*) FROM pg_stat_activity WHERE pid = :pid")
                return await conn.scalar(found, {"pid": pid}) == 0

        await until(is_gone)

        await database.ping()
        async with database.querying() as conn:
            assert (await conn.execute(text("SELECT pg_backend_pid()"))).scalar_one() != pid
    finally:
        await database.close()
        await other.close()


@pytest.mark.parametrize("by", ["a limit", "somebody"])
async def test_a_canceled_statement_is_unavailable(postgres_url, by):
    """By the limit of the database for statements, or by somebody who runs it."""
    database, other = Database.open(postgres_url), Database.open(postgres_url)

    async def held(seconds: int) -> None:
        async with database.reading() as conn:
            pid = await conn.scalar(text("SELECT pg_backend_pid()"))
            if by == "a limit":
                await conn.execute(text("SET LOCAL statement_timeout = '200ms'"))
            waiting = asyncio.ensure_future(conn.execute(text("SELECT pg_sleep(:s)"), {"s": seconds}))
            while by == "somebody" and seconds and not waiting.done():
                async with other.querying() as canceling:
                    await canceling.execute(text("SELECT pg_cancel_backend(:pid)"), {"pid": pid})
            await waiting

    try:
        await held(0)
        with pytest.raises(Unavailable):
            await held(60)
        await database.ping()
    finally:
        await database.close()
        await other.close()


async def test_a_full_disk_is_unavailable(sqlite_database):
    """Whoever wanted to write comes back later; once there is room again, the write works."""

    async def write(room):
        async with sqlite_database.transaction() as conn:
            pages = (await conn.execute(text("PRAGMA page_count"))).scalar_one()
            await conn.execute(text(f"PRAGMA max_page_count = {pages + room}"))
            await conn.execute(text("CREATE TABLE ballast AS SELECT zeroblob(100000) AS it"))

    with pytest.raises(Unavailable, match="takes no writes") as refused:
        await write(room=0)
    assert "full" in refused.value.internal
    await write(room=1000)


async def test_a_file_that_cannot_be_written_is_unavailable(sqlite_database, zone):
    """It is read as before; readiness says so from the first refused write on."""
    database = Database.open(f"{sqlite_database.engine.url}".replace("///", "///file:") + "?mode=ro&uri=true")
    try:
        await database.ping()
        with pytest.raises(Unavailable, match="takes no writes") as refused:
            async with database.transaction() as conn:
                await entities.insert(conn, APPLICATION, make.application(zone))
        assert "readonly" in refused.value.internal
        assert await count(database, zone) == 0
        with pytest.raises(Unavailable, match="takes no writes"):
            await database.ping()
    finally:
        await database.close()


async def test_a_file_that_cannot_be_written_is_noticed_without_a_write(sqlite_database):
    """A node that nobody asks to write tries to, now and then, and again until it works."""
    address = f"{sqlite_database.engine.url}".replace("///", "///file:")
    for mode, is_well in (("rw", True), ("ro", False)):
        database = Database.open(f"{address}?mode={mode}&uri=true")
        try:
            for _ in range(2):
                with (
                    contextlib.nullcontext()
                    if is_well
                    else pytest.raises(Unavailable, match="takes no writes")
                ):
                    await database.check()
        finally:
            await database.close()


async def test_a_write_that_is_under_way_shows_that_writes_are_taken(sqlite_database):
    """However long it takes: who asks meanwhile does not wait for it."""
    async with sqlite_database.transaction():
        await asyncio.wait_for(sqlite_database.check(), 10)


async def test_a_database_that_is_read_only_is_noticed_without_a_write(postgres_url):
    """A primary that is set to be says so, as a standby does."""
    database = Database.open(postgres_url, pool_size=1)
    try:
        await database.check()
        async with database.querying() as conn:
            await conn.execute(text("SET default_transaction_read_only = on"))
        with pytest.raises(Unavailable, match="takes no writes"):
            await database.check()
    finally:
        await database.close()


async def test_tables_that_are_missing_are_unavailable(database, zone):
    """A restore makes them one by one. Readiness says so until all of them are there again."""
    async with database.transaction() as conn:
        await conn.execute(text("ALTER TABLE applications RENAME TO elsewhere"))
    try:
        await database.ping()
        with pytest.raises(Unavailable, match="lacks tables") as refused:
            await count(database, zone)
        assert "applications" in refused.value.internal
        with pytest.raises(Unavailable, match="lacks tables"):
            await database.ping()
    finally:
        async with database.transaction() as conn:
            await conn.execute(text("ALTER TABLE elsewhere RENAME TO applications"))
    await database.ping()
    assert await count(database, zone) == 0


@pytest.mark.threat("35b")
async def test_a_database_that_hangs_is_unavailable(postgres_url):
    """A statement that takes too long, and a server that says nothing at all: nobody waits for ever."""
    database = Database.open(postgres_url, statement_timeout_seconds=0.3)
    try:
        async with database.querying() as conn:
            await conn.execute(text("SELECT pg_sleep(0.01)"))
        with pytest.raises(Unavailable):
            async with database.transaction() as conn:
                await conn.execute(text("SELECT pg_sleep(60)"))
        async with database.querying() as conn:
            server = int(await conn.scalar(text("SELECT pg_backend_pid()")))
        os.kill(server, signal.SIGSTOP)
        try:
            async with asyncio.timeout(20):
                with pytest.raises(Unavailable):
                    async with database.querying() as conn:
                        await conn.execute(text("SELECT 1"))
        finally:
            os.kill(server, signal.SIGCONT)
        await database.ping()
    finally:
        await database.close()


async def test_a_statement_that_is_given_up_ends(postgres_url):
    """Where the server would go on with it, others would wait for its locks as long."""
    database, other = Database.open(postgres_url, statement_timeout_seconds=1), Database.open(postgres_url)
    lock = text("SELECT pg_advisory_xact_lock(1), pg_sleep(:seconds)")

    async def hold(seconds: float) -> None:
        async with database.transaction() as conn:
            await conn.execute(lock, {"seconds": seconds})

    try:
        await hold(0)
        with pytest.raises(Unavailable, match="does not answer"):
            await hold(60)
        async with asyncio.timeout(10), other.transaction() as conn:
            await conn.execute(lock, {"seconds": 0})
    finally:
        await database.close()
        await other.close()


async def test_a_transaction_that_is_left_ends(postgres_url, monkeypatch: pytest.MonkeyPatch):
    """A process that hangs keeps nobody from what it had locked; it is told so when it goes on."""
    monkeypatch.setattr(engines, "IDLE_SECONDS", 0.5)
    database, other = Database.open(postgres_url), Database.open(postgres_url)
    lock = text("SELECT pg_advisory_xact_lock(2)")

    async def stall() -> None:
        async with database.transaction() as conn:
            await conn.execute(lock)
            async with asyncio.timeout(20), other.transaction() as others:
                await others.execute(lock)
            await conn.execute(lock)

    try:
        with pytest.raises(Unavailable, match="does not answer"):
            await stall()
        async with database.transaction() as conn:
            await conn.execute(lock)
    finally:
        await database.close()
        await other.close()


def test_other_databases_are_refused():
    """Only two databases are supported, and the message says which."""
    with pytest.raises(ValueError, match="sqlite"):
        Database.open("mysql://localhost/x")


async def test_a_file_that_cannot_be_opened_leaves_no_thread(tmp_path):
    """The driver's thread is gone when the failure is told, so it tells nothing of its own afterwards."""
    database = Database.open(f"sqlite+aiosqlite:///{tmp_path}/not/there.db")
    of_others = set(threading.enumerate())  # a server of another module may still have its own

    for _ in range(20):
        with pytest.raises(Unavailable, match="cannot be used") as away:
            await database.ping()
        assert "unable to open" in away.value.internal
        left = set(threading.enumerate()) - of_others
        assert not [each.name for each in left if "_connection_worker" in each.name]


async def test_sqlite_tells_of_commits_of_other_processes(sqlite_database):
    """The version differs after a commit, whoever made it, and not after what is rolled back."""
    other = Database.open(str(sqlite_database.engine.url))
    try:
        before = sqlite_database.version()
        with contextlib.suppress(ZeroDivisionError):
            async with other.transaction() as conn:
                await make.add_zone(conn)
                raise ZeroDivisionError
        assert before is not None
        assert sqlite_database.version() == before

        async with other.transaction() as conn:
            await make.add_zone(conn)
            assert sqlite_database.version() == before

        assert sqlite_database.version() not in (None, before)
    finally:
        await other.close()


async def test_a_file_that_is_not_there_tells_of_nothing(tmp_path):
    """Once it is there, it does."""
    path = tmp_path / "later.db"
    watch = CommitWatch(path)
    assert watch.version() is None
    assert not path.exists(), "asking makes no file"

    with contextlib.closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE rows (id)")
        made.commit()
    assert watch.version() is not None
    watch.close()


async def test_postgresql_tells_of_no_commits(emptied_database):
    """There is nothing to ask that would cost nothing: its notes are read at intervals."""
    assert emptied_database.version() is None


async def test_nobody_takes_a_connection_for_a_moment_while_they_have_one(emptied_database):
    """That is refused at once: with as many who do so as there are connections, nobody would go on."""
    async with emptied_database.querying() as conn:
        assert await conn.scalar(select(1)) == 1
        with pytest.raises(RuntimeError, match="pass it on"):
            async with emptied_database.writing_once(tenant="one"):
                pass
    async with emptied_database.writing_once(tenant="one") as conn:
        assert await conn.scalar(select(1)) == 1


async def test_connections_are_not_opened_for_those_who_can_wait_a_moment(postgres_url):
    """A hundred at once who look at a row each share the connections that are kept."""
    database = Database.open(postgres_url, pool_size=4)
    try:

        async def look() -> int:
            async with database.querying() as conn:
                await conn.execute(select(1))
                return (await conn.execute(text("SELECT pg_backend_pid()"))).scalar_one()

        assert len(set(await asyncio.gather(*(look() for _ in range(100))))) <= 4
    finally:
        await database.close()


@pytest.mark.parametrize(("held", "most"), [("writing_once", 3), ("querying", 4)])
async def test_readiness_and_queries_do_not_wait_for_writes_that_wait(postgres_url, held, most):
    """Rows are read while as many writes as there may be wait for a lock; and readiness is asked apart."""
    database, go_on = Database.open(postgres_url, pool_size=4), asyncio.Event()
    holding = 0

    async def hold(number: int) -> None:
        nonlocal holding
        use = database.querying() if held == "querying" else database.writing_once(tenant=f"{number}")
        async with use:
            holding += 1
            await go_on.wait()

    tasks = [asyncio.create_task(hold(number)) for number in range(most + 1)]

    async def is_full() -> bool:
        return holding == most

    await until(is_full)
    try:
        async with asyncio.timeout(5):
            await database.ping()
            if held == "writing_once":
                async with database.querying() as conn:
                    assert await conn.scalar(select(1)) == 1
        assert holding == most  # the last waits for one of them
    finally:
        go_on.set()
        await asyncio.gather(*tasks)
        await database.close()
    assert holding == most + 1
