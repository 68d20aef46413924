"""Small writes on SQLite that come together: one commit for all, and each stands or falls by itself."""

import asyncio

import pytest
from sqlalchemy import event, text
from tests.support import entities as make

from runtime.domain.errors import Unavailable
from runtime.domain.kinds import ORGANIZATION
from runtime.storage.sql import entities


async def write(database, organization, *, failure=None, statement=None):
    """One small write, which may end in a failure, or run another statement besides."""
    async with database.writing_once() as conn:
        await entities.insert(conn, ORGANIZATION, organization)
        if statement is not None:
            await conn.execute(text(statement))
        if failure is not None:
            raise failure


async def together(database, *writes):
    """Outcomes of writes that have come while another transaction had its turn, and how many commits."""
    commits = []

    def note(connection):
        commits.append(connection)

    async with database.transaction():
        waiting = [asyncio.ensure_future(each) for each in writes]
        await asyncio.sleep(0)  # now each has asked
    event.listen(database.engine.sync_engine, "commit", note)
    try:
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    finally:
        event.remove(database.engine.sync_engine, "commit", note)
    return outcomes, len(commits)


async def names(database):
    """Names of what is stored, as another connection sees it."""
    async with database.querying() as conn:
        return set((await conn.execute(text("SELECT name FROM organizations"))).scalars())


async def test_what_comes_together_is_committed_together(sqlite_database):
    """Each is stored, and twelve took one commit, which has happened when a write is over."""
    made = [make.organization() for _ in range(12)]
    seen = []

    async def write_and_look(organization):
        await write(sqlite_database, organization)
        seen.append(organization.name in await names(sqlite_database))

    outcomes, commits = await together(sqlite_database, *map(write_and_look, made))

    assert outcomes == [None] * 12
    assert (seen, commits) == ([True] * 12, 1)
    assert await names(sqlite_database) == {each.name for each in made}


async def test_what_comes_one_after_the_other_is_not_mixed_up(sqlite_database):
    """Each write that begins after another has ended is a transaction of its own."""
    made = [make.organization() for _ in range(3)]

    for number, organization in enumerate(made, start=1):
        await write(sqlite_database, organization)
        assert await names(sqlite_database) == {each.name for each in made[:number]}


async def test_one_that_raises_is_undone_alone(sqlite_database):
    """Whoever wrote before it and after it has written."""
    first, failing, last = (make.organization() for _ in range(3))

    outcomes, commits = await together(
        sqlite_database,
        write(sqlite_database, first),
        write(sqlite_database, failing, failure=ValueError("mine")),
        write(sqlite_database, last),
    )

    assert [repr(each) for each in outcomes] == ["None", "ValueError('mine')", "None"]
    assert commits == 1
    assert await names(sqlite_database) == {first.name, last.name}


async def test_one_that_the_database_refuses_is_undone_alone(sqlite_database):
    """A row that is there already is one write's own failure."""
    first, last = make.organization(), make.organization()

    outcomes, _ = await together(
        sqlite_database,
        write(sqlite_database, first),
        write(sqlite_database, first),
        write(sqlite_database, last),
    )

    assert [isinstance(each, Exception) for each in outcomes] == [False, True, False]
    assert await names(sqlite_database) == {first.name, last.name}


async def test_one_that_is_cancelled_keeps_nobody_else_from_writing(sqlite_database):
    """Its request has gone while it waited: the others are stored, and it is not."""
    first, gone, last = (make.organization() for _ in range(3))

    async def leave(task):
        task.cancel()

    leaving = asyncio.ensure_future(write(sqlite_database, gone))
    outcomes, _ = await together(
        sqlite_database, write(sqlite_database, first), leave(leaving), write(sqlite_database, last)
    )

    assert outcomes == [None] * 3
    assert leaving.cancelled()
    assert await names(sqlite_database) == {first.name, last.name}


async def test_a_group_whose_members_are_all_cancelled_ends(sqlite_database):
    """The next write does not wait for anybody who has gone."""
    stays = make.organization()
    async with sqlite_database.transaction():
        leaving = asyncio.ensure_future(write(sqlite_database, make.organization()))
        await asyncio.sleep(0)
        leaving.cancel()

    await write(sqlite_database, stays)

    assert await names(sqlite_database) == {stays.name}


async def test_nobody_is_told_that_it_is_stored_when_the_transaction_has_ended(sqlite_database):
    """SQLite may end a transaction in which it cannot go on: then each of its writes has failed."""
    made = [make.organization() for _ in range(3)]

    outcomes, _ = await together(
        sqlite_database,
        write(sqlite_database, made[0]),
        write(sqlite_database, made[1], statement="ROLLBACK"),
        write(sqlite_database, made[2]),
    )

    assert [type(each) for each in outcomes] == [Unavailable] * 3
    assert await names(sqlite_database) == set()
    await write(sqlite_database, made[0])
    assert await names(sqlite_database) == {made[0].name}


async def test_each_hears_of_a_commit_that_failed(sqlite_database):
    """A failure of the commit is everybody's, each with an exception of its own."""
    made = [make.organization() for _ in range(3)]
    failing = [True]

    def fail(_connection):
        if failing:
            raise Unavailable("the disk is gone")

    event.listen(sqlite_database.engine.sync_engine, "commit", fail)
    async with sqlite_database.reading():
        waiting = [asyncio.ensure_future(write(sqlite_database, each)) for each in made]
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    failing.clear()

    assert [each.detail for each in outcomes] == ["the disk is gone"] * 3
    assert len({id(each) for each in outcomes}) == 3
    assert await names(sqlite_database) == set()
    await write(sqlite_database, made[0])
    assert await names(sqlite_database) == {made[0].name}


@pytest.mark.parametrize("outer", ["transaction", "writing_once"])
@pytest.mark.parametrize("inner", ["transaction", "writing_once"])
async def test_a_write_inside_another_is_refused(sqlite_database, outer, inner):
    """It would wait for the outer one forever; after that, both ways are open again."""

    async def nest():
        async with getattr(sqlite_database, outer)(), getattr(sqlite_database, inner)():
            pass

    with pytest.raises(RuntimeError, match="already"):
        await asyncio.wait_for(nest(), 30)

    made = make.organization()
    async with getattr(sqlite_database, outer)() as conn:
        await entities.insert(conn, ORGANIZATION, made)
    assert await names(sqlite_database) == {made.name}
