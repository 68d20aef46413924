"""Notes of epochs that have moved: each is read once, from the commit on that moved them."""

import asyncio
from contextlib import suppress

import pytest
from sqlalchemy import delete, func, select, update
from tests.support.waiting import let_elapse

from runtime.storage.sql import epochs
from runtime.storage.sql.tables import epoch_changes


async def read(database, seen):
    """One reading, and what the next one starts from."""
    async with database.querying() as conn:
        found = await epochs.read_changes(conn, seen)
    assert found.is_complete
    return dict(found.epochs), found.seen


async def note(database, **moved):
    async with database.transaction() as conn:
        await epochs.record_changes(conn, moved)


async def test_each_note_is_read_once(database):
    """What was noted before the first reading is in the rows that are read after it. The greatest counts."""
    await note(database, a=1)
    found, seen = await read(database, None)
    assert found == {}
    for number in (3, 2, 4):
        await note(database, a=number, b=number * 10)
    found, seen = await read(database, seen)
    assert found == {"a": 4, "b": 40}
    found, seen = await read(database, seen)
    assert found == {}
    await note(database, c=1)
    assert (await read(database, seen))[0] == {"c": 1}


async def test_what_is_rolled_back_is_never_read(database):
    """Nor does it leave a gap."""
    _, seen = await read(database, None)
    with suppress(ZeroDivisionError):
        async with database.transaction() as conn:
            await epochs.record_changes(conn, {"a": 1})
            raise ZeroDivisionError
    await note(database, b=1)

    assert (await read(database, seen))[0] == {"b": 1}


async def test_who_begins_first_may_commit_last(database):
    """A note that becomes visible after newer ones is read all the same, however often one has read since."""
    if database.dialect == "sqlite":
        pytest.skip("there is one writer")
    _, seen = await read(database, None)
    async with database.transaction() as slow:
        await epochs.record_changes(slow, {"slow": 1})
        for number in range(3):
            await note(database, quick=number)
            found, seen = await read(database, seen)
            assert found == {"quick": number}
        found, seen = await read(database, seen)
        assert found == {}
    found, seen = await read(database, seen)
    assert found == {"slow": 1}
    assert (await read(database, seen))[0] == {}


async def test_a_crowd_of_writers_and_readers(database):
    """Whatever overlaps with whatever, every reader has everything in the end, and nothing twice."""
    starts = [(await read(database, None))[1] for _ in range(2)]
    done = asyncio.Event()

    async def follow(seen):
        heard = []
        while True:
            is_last = done.is_set()
            found, seen = await read(database, seen)
            heard += found
            if is_last:
                return heard
            await let_elapse(0.001)

    async def write(writer):
        for number in range(10):
            async with database.transaction() as conn:
                await epochs.record_changes(conn, {f"{writer}.{number}": 1})
                await let_elapse(0.002 * writer)

    readers = [asyncio.create_task(follow(seen)) for seen in starts]
    await asyncio.gather(*(write(writer) for writer in range(6)))
    done.set()

    written = sorted(f"{writer}.{number}" for writer in range(6) for number in range(10))
    assert [sorted(await reader) for reader in readers] == [written] * len(readers)


async def test_a_database_that_was_set_back_is_noticed(database):
    """One that has seen less than the reader has: nobody can tell what is missing."""
    for number in range(3):
        await note(database, a=number)
    _, seen = await read(database, None)
    ahead = "99999999:99999999:" if ":" in seen else "99999999"
    async with database.querying() as conn:
        assert not (await epochs.read_changes(conn, ahead)).is_complete
        assert (await epochs.read_changes(conn, seen)).is_complete


async def test_a_database_that_was_restored_is_noticed(database):
    """However far it has come since: what the reader knows of is not there."""
    await note(database, a=1)
    async with database.querying() as conn:
        first = await epochs.read_changes(conn, None)
        assert (await epochs.read_changes(conn, first.seen, first.newest)).is_complete
    async with database.transaction() as conn:
        await conn.execute(delete(epoch_changes))
    for number in range(3):
        await note(database, b=number)

    async with database.querying() as conn:
        found = await epochs.read_changes(conn, first.seen, first.newest)
        assert not found.is_complete
        assert (await epochs.read_changes(conn, found.seen, found.newest)).is_complete


async def test_old_notes_go(database):
    """The newest stays whatever its age: numbers go on after it."""
    for number in range(3):
        await note(database, a=number)
    _, seen = await read(database, None)
    async with database.transaction() as conn:
        assert await epochs.prune(conn, older_than_seconds=60) == 0
        await conn.execute(update(epoch_changes).values(noted_at=epoch_changes.c.noted_at - 61))
        assert await epochs.prune(conn, older_than_seconds=60) == 2
        assert await conn.scalar(select(func.count()).select_from(epoch_changes)) == 1
    await note(database, b=1)
    assert (await read(database, seen))[0] == {"b": 1}


async def test_the_databases_clock_never_goes_back(database):
    """Seconds since 1970, a fraction with them, and never back."""
    async with database.querying() as conn:
        first = await epochs.database_time(conn)
        second = (await epochs.read_changes(conn, None)).at
    assert 1.7e9 < first <= second < first + 60
    assert first != int(first)
