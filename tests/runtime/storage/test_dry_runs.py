"""Dry runs: what is written on their connections stays there, and nobody waits for it."""

import asyncio
import contextlib
from typing import Any

import pytest
from sqlalchemy import event, func, select, text, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection
from tests import conftest
from tests.support import entities as make

from runtime.domain.errors import Conflict, TooLarge, Unavailable, ValidationFailed
from runtime.domain.kinds import APPLICATION, RESOURCE, USER, ZONE
from runtime.domain.kinds.zone import Zone
from runtime.storage.sql import dry_runs, engines, entities, insert_batches, organization_revision
from runtime.storage.sql.database import Database
from runtime.storage.sql.dry_runs import COPIED, READ_IN_PLACE
from runtime.storage.sql.tables import METADATA, TABLES

database = conftest.database  # each test's own: more than its rows is changed here

# What a dry run neither changes nor looks up: there it is empty. Whoever adds a table says what it is.
EMPTY = {
    "api_keys",
    "audit_anchors",
    "assigned_names",
    "changesets",
    "consents",
    "delegated_grants",
    "epoch_changes",
    "invitations",
    "jobs",
    "organization_users",
    "outbox",
    "refresh_families",
    "revocations",
    "service_account_credentials",
    "service_secrets",
    "session_issuers",
    "sessions",
    "token_events",
    "tombstones",
    "user_credentials",
    "vault_tokens",
    "withdrawn_in_sessions",
    "withdrawn_names",
    "zone_address_uses",
    "zone_changes",
}


@pytest.fixture
async def zone(database: Database) -> Zone:
    """A stored zone of an organization that can be written to."""
    async with database.transaction() as conn:
        zone = await make.add_zone(conn)
        await organization_revision.begin(conn, zone.organization_id)
    return zone


async def count(conn: AsyncConnection, table: str) -> int:
    """The rows of a table, by its unqualified name."""
    return int((await conn.execute(select(func.count()).select_from(METADATA.tables[table]))).scalar_one())


def test_every_table_is_copied_or_read_in_place_or_empty() -> None:
    """No table is forgotten: an unknown one would be empty on dry runs, without anybody having decided so."""
    assert set(METADATA.tables) == COPIED | READ_IN_PLACE | EMPTY
    assert not COPIED & READ_IN_PLACE
    assert not (COPIED | READ_IN_PLACE) & EMPTY


async def test_what_is_written_is_seen_there_alone_and_gone_afterwards(
    database: Database, zone: Zone
) -> None:
    """Creates, updates and deletions happen on the connection, with what goes by foreign key."""
    async with database.transaction() as conn:
        kept = make.application(zone)
        await entities.insert(conn, APPLICATION, kept)
        await entities.insert(conn, RESOURCE, make.resource(zone, application_id=kept.id))
    for _ in range(2):  # the second time on a connection that has been used
        async with database.dry_run(zone.organization_id, [zone.id]) as conn:
            await entities.insert(conn, APPLICATION, make.application(zone))
            assert await count(conn, "applications") == 2
            assert (await organization_revision.advance(conn, zone.organization_id)).revision == 1
            async with database.reading() as other:
                assert await count(other, "applications") == 1
            await entities.remove(conn, ZONE, zone.id, within={"organization_id": zone.organization_id})
            assert await count(conn, "applications") == await count(conn, "resources") == 0
    async with database.reading() as conn:
        assert await count(conn, "applications") == await count(conn, "resources") == 1
        assert await organization_revision.revision(conn, zone.organization_id) == 0


async def test_the_database_refuses_to_write_anything_else(database: Database, zone: Zone) -> None:
    """The real tables can be named, and not be written: that is no matter of what the code does."""
    source = "main" if database.dialect == "sqlite" else "public"
    change = text(f"UPDATE {source}.zones SET name = 'Other'")
    async with database.transaction() as conn:
        assert (await conn.execute(change)).rowcount == 1
    async with database.dry_run(zone.organization_id, [zone.id]) as conn:
        assert (await conn.execute(text("UPDATE zones SET name = 'Third'"))).rowcount == 1
        with pytest.raises(DBAPIError, match=r"read-only|readonly"):
            await conn.execute(change)


async def test_a_lost_connection_is_an_unavailable_database(postgres_url: str) -> None:
    """Also where the dry run goes on to its end, which cannot be told to a server that is gone."""
    database, other = Database.open(postgres_url), Database.open(postgres_url)
    try:
        async with database.transaction() as conn:
            zone = await make.add_zone(conn)
        for is_lost in (False, True):
            with pytest.raises(Unavailable) if is_lost else contextlib.nullcontext():
                async with database.dry_run(zone.organization_id, [zone.id]) as conn:
                    pid = await conn.scalar(text("SELECT pg_backend_pid()"))
                    if is_lost:
                        async with other.querying() as killing:
                            await killing.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
                    await count(conn, "applications")
        async with database.dry_run(zone.organization_id, [zone.id]) as conn:
            assert await conn.scalar(text("SELECT pg_backend_pid()")) != pid
    finally:
        await database.close()
        await other.close()


@pytest.mark.threat("41l")
async def test_nobody_waits(database: Database, zone: Zone) -> None:
    """While a dry run has a name, a row and the head of the organization, others take and change them."""
    held = make.application(zone)
    async with database.dry_run(zone.organization_id, [zone.id]) as conn:
        await organization_revision.advance(conn, zone.organization_id)
        await entities.insert(conn, APPLICATION, held)
        await conn.execute(update(TABLES["Zone"]).values(name="Tried"))
        async with asyncio.timeout(10), database.transaction() as writing:
            await organization_revision.advance(writing, zone.organization_id)
            await writing.execute(update(TABLES["Zone"]).values(name="Written"))
            same = make.application(zone, identifier=held.identifier, slug=held.slug)
            await entities.insert(writing, APPLICATION, same)
        # What has been written since it began is not seen by it.
        assert await conn.scalar(select(TABLES["Zone"].c.name)) == "Tried"
        assert await count(conn, "applications") == 1
    async with database.reading() as reading:
        assert await organization_revision.revision(reading, zone.organization_id) == 1
        assert await reading.scalar(select(TABLES["Zone"].c.name)) == "Written"


async def test_rules_of_the_database_hold(database: Database, zone: Zone) -> None:
    """What is unique is, and references lead somewhere; a refused dry run leaves nothing for the next."""
    taken = make.application(zone)
    async with database.transaction() as conn:
        await entities.insert(conn, APPLICATION, taken)

    async def attempt(kind: Any, entity: Any) -> None:
        async with database.dry_run(zone.organization_id, [zone.id]) as conn:
            await entities.insert(conn, APPLICATION, make.application(zone))
            assert await count(conn, "applications") == 2
            await entities.insert(conn, kind, entity)

    await attempt(RESOURCE, make.resource(zone, application_id=taken.id))
    with pytest.raises(Conflict) as conflict:
        await attempt(APPLICATION, make.application(zone, identifier=taken.identifier))
    assert conflict.value.problems[0].field == "identifier"
    with pytest.raises(ValidationFailed) as missing:
        await attempt(RESOURCE, make.resource(zone, application_id="0" * 26))
    assert missing.value.problems[0].field == "application_id"
    await attempt(RESOURCE, make.resource(zone, application_id=taken.id))


async def test_only_what_it_is_about_is_there(database: Database, zone: Zone) -> None:
    """Of other zones of the organization it sees that they are there; of other organizations, nothing."""
    async with database.transaction() as conn:
        beside = make.zone(make.organization(id=zone.organization_id))
        await entities.insert(conn, ZONE, beside)
        strange = await make.add_zone(conn)
        for each in (zone, beside, strange):
            await entities.insert(conn, APPLICATION, make.application(each))
    async with database.dry_run(zone.organization_id, [zone.id, strange.id]) as conn:
        zones = set(await conn.scalars(select(TABLES["Zone"].c.id)))
        within = set(await conn.scalars(select(TABLES["Application"].c.zone_id)))
    assert (zones, within) == ({zone.id, beside.id}, {zone.id})


async def test_users_are_read_where_they_are(database: Database, zone: Zone) -> None:
    """They are not copied; what would be written of them is left out, and everything else goes on."""
    user = make.user(zone)
    async with database.transaction() as conn:
        await entities.insert(conn, USER, user)
    users = TABLES["User"]
    async with database.dry_run(zone.organization_id, [zone.id]) as conn:
        assert list(await conn.scalars(select(users.c.email))) == [user.email]
        await conn.execute(update(users).values(email="other@example.org"))
        assert list(await conn.scalars(select(users.c.email))) == [user.email]
        await entities.insert(conn, APPLICATION, make.application(zone))


async def test_names_of_users_are_taken(database: Database, zone: Zone) -> None:
    """What a user is called no application may be called; only the names it is about are looked at."""
    user, beside = make.user(zone), make.user(zone)
    async with database.transaction() as conn:
        for each in (user, beside):
            await entities.insert(conn, USER, each)
        await entities.insert(conn, APPLICATION, make.application(zone, identifier="taken"))
    names = [user.identifier.upper(), "other"]
    async with database.dry_run(zone.organization_id, [zone.id], names) as conn:
        assert await count(conn, "subjects") == 2
        await entities.insert(conn, APPLICATION, make.application(zone, identifier="other"))
        with pytest.raises(Conflict):
            await entities.insert(conn, APPLICATION, make.application(zone, identifier="TAKEN"))
        with pytest.raises(Conflict, match="already a User"):
            await entities.insert(conn, APPLICATION, make.application(zone, identifier=names[0]))


async def test_who_stops_in_the_midst_leaves_nothing(database: Database, zone: Zone) -> None:
    """A dry run that is cancelled gives its connection up."""
    begun = asyncio.Event()

    async def attempt() -> None:
        async with database.dry_run(zone.organization_id, [zone.id]) as conn:
            await entities.insert(conn, APPLICATION, make.application(zone))
            begun.set()
            await asyncio.Event().wait()

    for _ in range(6):  # more than there are connections
        begun.clear()
        task = asyncio.create_task(attempt())
        async with asyncio.timeout(30):
            await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with asyncio.timeout(30), database.dry_run(zone.organization_id, [zone.id]) as conn:
        assert await count(conn, "applications") == 0


async def test_a_dry_run_is_not_kept_in_memory_without_end(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite, where temporary tables are in memory, there is a most; the next dry run goes on."""
    monkeypatch.setattr(engines, "_DRY_RUN_PAGES", 300)
    database = Database.open(sqlite_url)

    async def attempt(zone: Zone, applications: int) -> None:
        async with database.dry_run(zone.organization_id, [zone.id]) as conn:
            for _ in range(applications):
                await entities.insert(conn, APPLICATION, make.application(zone, description="x" * 2_000))

    try:
        async with database.transaction() as conn:
            zone = await make.add_zone(conn)
        await attempt(zone, 10)
        with pytest.raises(TooLarge):
            await attempt(zone, 1_000)
        await attempt(zone, 10)
    finally:
        await database.close()


async def test_who_may_make_no_temporary_tables_is_told(postgres_url: str) -> None:
    """On PostgreSQL an operator can take that right away: dry runs are refused then, and nothing else is."""
    database = Database.open(postgres_url)
    plain = make_url(postgres_url).set(username="plain")
    try:
        async with database.transaction() as conn:
            zone = await make.add_zone(conn)
            for statement in (
                "CREATE ROLE plain LOGIN",
                "GRANT SELECT ON ALL TABLES IN SCHEMA public TO plain",
                f"REVOKE TEMPORARY ON DATABASE {plain.database} FROM PUBLIC",
            ):
                await conn.execute(text(statement))
        limited = Database.open(plain.render_as_string(hide_password=False))
        try:
            async with limited.reading() as conn:
                assert await count(conn, "zones") == 1
            with pytest.raises(Unavailable, match="temporary tables"):
                async with limited.dry_run(zone.organization_id, [zone.id]):
                    pass
            async with database.transaction() as conn:
                await conn.execute(text(f"GRANT TEMPORARY ON DATABASE {plain.database} TO plain"))
            async with limited.dry_run(zone.organization_id, [zone.id]) as conn:
                assert await count(conn, "zones") == 1
        finally:
            await limited.close()
    finally:
        async with database.transaction() as conn:
            await conn.execute(text("DROP OWNED BY plain CASCADE"))
            await conn.execute(text("DROP ROLE plain"))
        await database.close()


async def test_dead_rows_do_not_pile_up(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On PostgreSQL temporary tables are emptied for good when they are large, also after a refusal."""
    monkeypatch.setattr(dry_runs, "DEAD_BYTES", 0)
    database = Database.open(postgres_url)
    size = text("SELECT pg_relation_size('pg_temp.applications')")

    async def refused(zone: Zone) -> None:
        async with database.dry_run(zone.organization_id, [zone.id]) as conn:
            assert await conn.scalar(size) == 0
            for _ in range(50):
                await entities.insert(conn, APPLICATION, (made := make.application(zone)))
            assert await conn.scalar(size) > 0
            await entities.insert(conn, APPLICATION, make.application(zone, slug=made.slug))

    try:
        async with database.transaction() as conn:
            zone = await make.add_zone(conn)
        for _ in range(3):
            with pytest.raises(Conflict):
                await refused(zone)
    finally:
        await database.close()


async def test_what_is_new_is_written_together(database: Database, zone: Zone) -> None:
    """With one statement a table, and before anything else is asked."""
    written: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("INSERT"):
            written.append(statement.partition("(")[0].strip())

    made = [make.resource(zone, identifier=f"https://{n}.example") for n in range(20)]
    async with database.dry_run(zone.organization_id, [zone.id]) as conn:
        event.listen(conn.sync_connection, "before_cursor_execute", note)
        async with insert_batches.batched(conn):
            for each in made:
                await entities.insert(conn, RESOURCE, each)
            assert written == []
            assert await count(conn, "resources") == 20
            assert written == ["INSERT INTO resources"]
            await entities.insert(conn, RESOURCE, make.resource(zone, identifier="https://last.example"))
        assert await count(conn, "resources") == 21
        await entities.insert(conn, RESOURCE, make.resource(zone, identifier="https://alone.example"))
        assert written == ["INSERT INTO resources"] * 3


async def test_what_is_refused_together_is_said_one_by_one(database: Database, zone: Zone) -> None:
    """The database does not say which of many rows it was."""
    twice = [make.resource(zone, identifier="https://same.example") for _ in range(2)]
    async with database.dry_run(zone.organization_id, [zone.id]) as conn:
        await entities.insert(conn, RESOURCE, twice[0])
        with pytest.raises(Conflict):
            await entities.insert(conn, RESOURCE, twice[1])

    async def attempt(*, asked: bool) -> None:
        async with database.dry_run(zone.organization_id, [zone.id]) as conn, insert_batches.batched(conn):
            for each in twice:
                await entities.insert(conn, RESOURCE, each)
            if asked:
                await count(conn, "roles")

    with pytest.raises(insert_batches.BatchRejected):
        await attempt(asked=False)
    with pytest.raises(insert_batches.BatchRejected):
        await attempt(asked=True)


async def test_what_waits_when_something_fails_is_not_written(database: Database, zone: Zone) -> None:
    """Whoever goes on on the connection finds it as it was before."""

    async def attempt(conn: AsyncConnection) -> None:
        async with insert_batches.batched(conn):
            await entities.insert(conn, RESOURCE, make.resource(zone))
            raise LookupError

    async with database.dry_run(zone.organization_id, [zone.id]) as conn:
        with pytest.raises(LookupError):
            await attempt(conn)
        assert await count(conn, "resources") == 0
