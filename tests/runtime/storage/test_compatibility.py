"""Programs and databases of different versions: which may serve which, and that migrations only add."""

import ast
import asyncio
from itertools import pairwise
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import Connection, text
from tests.support.additions import Described, described, in_the_way
from tests.support.postgres import PostgresServer

from runtime.cli import doctor
from runtime.cli.diagnosis import Verdict
from runtime.storage.sql import compatibility
from runtime.storage.sql import migrate as migrations
from runtime.storage.sql.database import Database
from runtime.storage.sql.migrate import VersionUnusable, migrate, require_usable

VERSIONS = Path(migrations.__file__).parent / "migrations/versions"
FIRST = "0043"  # programs from before it know nothing of compatibility
# What a newer program may have added to the tables of this one.
ADDITIONS = (
    "CREATE TABLE of_a_newer_program (id VARCHAR PRIMARY KEY)",
    "ALTER TABLE zones ADD COLUMN of_a_newer_program VARCHAR",
    "CREATE INDEX of_a_newer_program_idx ON users (created_at)",
)


def later() -> list[str]:
    """The versions that have to be compatible, or say why they are not."""
    known = migrations.lineage()
    return [each for each in known[known.index(FIRST) :] if each not in compatibility.BREAKING]


async def changed(url: str, *statements: str) -> None:
    """Do as another program does."""
    database = Database.open(url, migrating=True)
    async with database.transaction() as conn:
        for statement in statements:
            await conn.execute(text(statement))
    await database.close()


async def extended(url: str, *, oldest: str) -> None:
    """Do as a newer program does that supports programs from that version on."""
    await migrate(url)
    await changed(
        url,
        *ADDITIONS,
        "UPDATE alembic_version SET version_num = '9999'",
        f"UPDATE schema_compatibility SET oldest_version = '{oldest}'",
    )


async def test_a_database_names_the_oldest_program_that_it_supports(empty_url: str):
    """What its newest breaking migration says."""
    await migrate(empty_url)
    database = Database.open(empty_url)
    async with database.reading() as conn:
        noted = await conn.run_sync(compatibility.noted)
    await database.close()
    assert noted == compatibility.oldest_supported(migrations.lineage())
    assert noted in compatibility.BREAKING


class TestNewerDatabase:
    async def test_is_served_where_it_supports_this_program(self, database_url: str):
        """And no longer once it does not."""
        await extended(database_url, oldest=migrations.newest())
        await require_usable(database_url)

        await changed(database_url, "UPDATE schema_compatibility SET oldest_version = '9998'")
        with pytest.raises(VersionUnusable, match="at version 9999, which this zoned does not know"):
            await require_usable(database_url)

    async def test_is_refused_where_nothing_is_noted(self, database_url: str):
        """A database that says nothing of it supports nobody."""
        await extended(database_url, oldest=migrations.newest())
        await changed(database_url, "DELETE FROM schema_compatibility")
        with pytest.raises(VersionUnusable, match="9999"):
            await require_usable(database_url)
        await changed(database_url, "DROP TABLE schema_compatibility")
        with pytest.raises(VersionUnusable, match="9999"):
            await require_usable(database_url)

    async def test_stays_as_it_is_when_it_is_migrated_again(self, database_url: str):
        """By the older program, whose node is started again meanwhile."""
        await extended(database_url, oldest=migrations.newest())
        await migrate(database_url)
        database = Database.open(database_url)
        async with database.reading() as conn:
            assert await migrations.newer_version(conn) == "9999"
            assert await conn.run_sync(compatibility.noted) == migrations.newest()
        await database.close()

    async def test_is_well_to_the_doctor(self, database_url: str):
        """It warns of a newer program; what that has added is no problem, and what is missing is one."""
        await extended(database_url, oldest=migrations.newest())
        database = Database.open(database_url)
        async with database.reading() as conn:
            (found,) = await doctor._of_the_schema(conn)
        assert found.verdict is Verdict.WARNING
        assert "to version 9999; this one works with it" in found.detail
        await changed(database_url, "DROP TABLE audit_anchors")
        async with database.reading() as conn:
            verdicts = [each.verdict for each in await doctor._of_the_schema(conn)]
        await database.close()
        assert verdicts == [Verdict.WARNING, Verdict.PROBLEM]


@pytest.mark.parametrize(
    ("lineage", "oldest"),
    [(["0001", "0002"], "0001"), (["0042", "0043"], "0043"), (["0043", "0044", "0045"], "0043")],
)
def test_the_oldest_program_is_that_of_the_newest_breaking_migration(lineage: list[str], oldest: str):
    """Without one, the program of the first migration."""
    assert compatibility.oldest_supported(lineage) == oldest


ADDING = ["0040", "0042", *later()]
TAKING = {
    "0008": "`consents.id` is new, and may not be left out",
    "0018": "`api_keys.revision` is new, and may not be left out",
    "0029": "has a new rule: unique",
}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
async def tables(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Described]]:
    """Version -> the tables there, of each kind of database in turn: one walk over all migrations."""
    if request.param == "sqlite":
        url = f"sqlite+aiosqlite:///{tmp_path_factory.mktemp('walked')}/walked.db"
    else:
        url = await request.getfixturevalue("postgres").empty()
    database = Database.open(url, migrating=True)
    async with database.transaction() as conn:
        found = {version: await conn.run_sync(_at, version) for version in _stops()}
    await database.close()
    return found


def _stops() -> list[str]:
    """The versions that are compared, and that before each."""
    pairs = pairwise(migrations.lineage())
    compared = {*ADDING, *TAKING}
    return list(dict.fromkeys(version for pair in pairs if pair[1] in compared for version in pair))


def around(
    tables: dict[str, dict[str, Described]], version: str
) -> tuple[dict[str, Described], dict[str, Described]]:
    """The tables before a migration and after it."""
    known = migrations.lineage()
    return tables[known[known.index(version) - 1]], tables[version]


def _at(connection: Connection, version: str) -> dict[str, Described]:
    config = migrations._config()
    config.attributes["connection"] = connection
    command.upgrade(config, version)
    return described(connection)


@pytest.mark.parametrize("version", ADDING)
def test_a_migration_only_adds(tables: dict[str, dict[str, Described]], version: str):
    """Programs of before stay able to read and write what they know; else it is in `BREAKING`."""
    assert in_the_way(*around(tables, version)) == []


@pytest.mark.parametrize(("version", "told"), TAKING.items())
def test_a_migration_that_takes_something_away_is_noticed(
    tables: dict[str, dict[str, Described]], version: str, told: str
):
    """By the same comparison."""
    assert [each for each in in_the_way(*around(tables, version)) if told in each]


NUMBERS = Described({"number": ("INTEGER", True)}, frozenset({"primary key ['id']"}))


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ({}, ["`t` is gone"]),
        ({"t": Described({}, NUMBERS.rules)}, ["`t.number` is gone"]),
        (
            {"t": Described({"number": ("VARCHAR", True)}, NUMBERS.rules)},
            ["`t.number` is VARCHAR, and was INTEGER"],
        ),
        (
            {"t": Described({"number": ("INTEGER", False)}, NUMBERS.rules)},
            ["`t.number` may not be left out any more"],
        ),
        ({"t": NUMBERS, "u": NUMBERS}, []),
    ],
)
def test_what_is_in_the_way_of_a_program_is_told(after: dict[str, Described], told: list[str]):
    assert in_the_way({"t": NUMBERS}, after) == told


def does_more(source: str) -> bool:
    """Whether a migration does more than to make tables, columns and indexes."""
    called = {
        node.func.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    return bool(called & {"execute", "get_bind", "bulk_insert"})


def test_what_does_more_than_add_says_why_programs_of_before_can_go_on():
    """A change of meaning is not to be seen in the tables."""
    sources = {file.stem[:4]: file.read_text("utf-8") for file in VERSIONS.glob("*.py")}
    assert does_more(sources["0036"])
    assert not does_more(sources["0042"])
    assert {version for version in later() if does_more(sources[version])} == compatibility.STATEMENTS.keys()


async def test_a_migration_gives_way_to_requests(postgres: PostgresServer):
    """While a transaction has a table, others that read it do not wait behind the migration for long."""
    url = await postgres.empty()
    database = Database.open(url)
    async with database.transaction() as conn:
        await conn.run_sync(_at, "0042")
    async with database.transaction() as writer:
        await writer.execute(text("LOCK TABLE delegated_grants IN ROW EXCLUSIVE MODE"))
        migrating = asyncio.create_task(migrate(url))
        for _ in range(5):
            async with database.transaction() as other:  # waits while the migration asks for its lock
                await other.execute(text("LOCK TABLE delegated_grants IN ROW EXCLUSIVE MODE"))
        assert not migrating.done()
    await migrating
    await require_usable(url)
    await database.close()
    await postgres.drop(url)
