"""The hand-written migrations make exactly the tables that the kinds and the hand-written tables describe."""

import asyncio
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import JSON, Connection, MetaData, insert, inspect, null, select, text
from tests import conftest
from tests.support.postgres import PostgresServer, running_postgres

from runtime.storage.sql import api_keys, column_statistics, ddl
from runtime.storage.sql import migrate as migrations
from runtime.storage.sql.database import Database
from runtime.storage.sql.migrate import VersionUnusable, migrate, require_usable
from runtime.storage.sql.tables import METADATA, TABLES, audit_events, consents

resources = TABLES["Resource"]
database = conftest.database  # each test's own: more than its rows is changed here


def _differences(connection: Connection) -> list[Any]:
    options = {
        "compare_type": True,
        "compare_server_default": True,
        **migrations.what_is_compared(connection),
    }
    context = MigrationContext.configure(connection, opts=options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return list(compare_metadata(context, METADATA))


def _described(connection: Connection) -> dict[str, Any]:
    """What a database says of itself: columns, keys, and indexes with their conditions; no partitions."""
    is_compared = migrations.what_is_compared(connection)["include_name"]
    inspector = inspect(connection)
    return {
        table: {
            "columns": {
                column["name"]: (str(column["type"]), column["nullable"])
                for column in inspector.get_columns(table)
            },
            "primary key": inspector.get_pk_constraint(table),
            "foreign keys": sorted(map(str, inspector.get_foreign_keys(table))),
            "indexes": sorted(map(_index, inspector.get_indexes(table))),
        }
        for table in inspector.get_table_names()
        if table != "alembic_version" and is_compared(table, "table", {})
    }


def _index(index: Any) -> str:
    options = {name: str(value) for name, value in index.get("dialect_options", {}).items()}
    return f"{index['name']} {index['unique']} {index['column_names']} {options}"


async def test_migrations_make_the_described_tables(database):
    """Alembic finds nothing to add, drop or alter after the migrations."""
    async with database.reading() as conn:
        assert await conn.run_sync(_differences) == []


async def test_migrations_and_descriptions_agree_in_every_detail(
    database, postgres: PostgresServer, tmp_path: Path
):
    """Made from the descriptions, a database says the same of itself, partial indexes included."""
    on_sqlite = database.dialect == "sqlite"
    other = Database.open(f"sqlite+aiosqlite:///{tmp_path}/other.db" if on_sqlite else await postgres.empty())
    try:
        async with other.transaction() as conn:
            await conn.run_sync(METADATA.create_all)
        async with other.reading() as made, database.reading() as migrated:
            assert await migrated.run_sync(_described) == await made.run_sync(_described)
    finally:
        await other.close()


async def test_the_planner_is_told_of_every_reference(database):
    """Those that are added later, too: their migration tells it."""
    if database.dialect != "postgresql":
        pytest.skip("SQLite's planner is told nothing")
    query = """
        SELECT attrelid::regclass::text, attname FROM pg_attribute
        WHERE attoptions @> ARRAY['n_distinct=-1'] ORDER BY 1, 2
    """
    async with database.reading() as conn:
        found = [tuple(row) for row in await conn.execute(text(query))]
    assert found == column_statistics.with_many_values()
    assert ("sessions", "user_id") in found


async def test_another_process_migrates_to_the_same_tables(
    database, postgres: PostgresServer, tmp_path: Path
):
    """Two databases that two processes have migrated say the same of themselves."""
    on_sqlite = database.dialect == "sqlite"
    url = f"sqlite+aiosqlite:///{tmp_path}/other.db" if on_sqlite else await postgres.empty()
    await asyncio.to_thread(_in_another_process, "asyncio.run(migrate.migrate(sys.argv[1]))", url, seed="1")
    other = Database.open(url)
    try:
        async with other.reading() as theirs, database.reading() as ours:
            assert await ours.run_sync(_described) == await theirs.run_sync(_described)
    finally:
        await other.close()


async def test_migrating_twice_changes_nothing(database_url):
    """A database at the newest version stays as it is."""
    database = Database.open(database_url)
    try:
        async with database.reading() as conn:
            before = await conn.run_sync(_described)
        await migrate(database_url)

        await require_usable(database_url)
        async with database.reading() as conn:
            assert await conn.run_sync(_described) == before
    finally:
        await database.close()


async def test_an_empty_database_is_not_usable(empty_url):
    """Nobody serves from a database that was never migrated."""
    with pytest.raises(VersionUnusable, match="no tables of this service yet; run `zoned init`"):
        await require_usable(empty_url)


@pytest.mark.parametrize(
    ("version", "told"),
    [("0001", "run `zoned migrate`"), ("9999", "run the newer zoned that has migrated it, or restore")],
)
async def test_another_version_is_not_usable(database_url, version, told):
    """An older one is migrated; what a newer build has changed for good is left alone, by `migrate`, too."""
    await migrate(database_url)
    await require_usable(database_url)
    await _claim(database_url, version, oldest="9998")
    with pytest.raises(VersionUnusable, match=f"at version {version}.* {migrations.newest()}.*{told}"):
        await require_usable(database_url)
    if version == "9999":
        with pytest.raises(VersionUnusable, match=told):
            await migrate(database_url)


async def _claim(url: str, version: str, *, oldest: str) -> None:
    """Have a database say that it is at a version, and which one it supports at least."""
    database = Database.open(url)
    async with database.transaction() as conn:
        await conn.execute(text("UPDATE alembic_version SET version_num = :version"), {"version": version})
        await conn.execute(
            text("UPDATE schema_compatibility SET oldest_version = :oldest"), {"oldest": oldest}
        )
    await database.close()


async def test_two_processes_can_migrate_at_once(empty_url):
    """Of two that start together one waits for the other."""
    await asyncio.gather(migrate(empty_url), migrate(empty_url))

    await require_usable(empty_url)


@pytest.mark.parametrize("statement", ["UPDATE audit_events SET actor_id = 'x'", "DELETE FROM audit_events"])
async def test_the_audit_log_can_only_be_appended_to(database, statement):
    """The database itself refuses to change or remove an audit record."""
    record = dict.fromkeys((c.name for c in audit_events.c if not c.nullable), "x")
    async with database.transaction() as conn:
        await conn.execute(insert(audit_events), record | {"sequence": 1, "at": datetime.now(UTC)})
    with pytest.raises(Exception, match="append-only"):
        async with database.transaction() as conn:
            await conn.execute(text(statement))


async def test_what_stands_stays_when_clients_learn_to_register_themselves(empty_url):
    """Tables that are made anew lose nothing, and nothing that refers to them goes along."""
    older = Database.open(empty_url, migrating=True)
    async with older.transaction() as conn:
        await conn.run_sync(_one_of_each_before_user_agents)
    await older.close()

    await migrate(empty_url)

    newer = Database.open(empty_url)
    async with newer.reading() as conn:
        assert not [
            (empty_url, table)
            for table in ("sessions", "refresh_families", "consents")
            if (await conn.execute(text(f"SELECT application_id, user_agent_id FROM {table}"))).all()
            != [("application", None)]
        ]
        assert (await conn.execute(select(consents.c.id, consents.c.scopes))).one().scopes == ["read"]
        told = "SELECT sessions.client_id FROM sessions JOIN refresh_families USING (client_id)"
        assert len((await conn.execute(text(told))).all()) == 1
    await newer.close()


def _one_of_each_before_user_agents(connection: Connection) -> None:
    config = migrations._config()
    config.attributes["connection"] = connection
    command.upgrade(config, "0007")
    reflected = MetaData()
    reflected.reflect(connection)
    made = {"organizations": "organization", "zones": "zone", "users": "user", "applications": "application"}
    made |= {"sessions": "session", "refresh_families": "family", "consents": "consent"}
    known = {f"{kind}_id": kind for kind in made.values()}
    for name, own in made.items():
        values = {}
        for column in reflected.tables[name].columns:
            if column.name in ("application_id", "user_id") or not column.nullable:
                values[column.name] = known.get(column.name, _anything(column))
        values |= {"id": own} if "id" in reflected.tables[name].c else {}
        values |= {"scopes": ["read"]} if name == "consents" else {}
        connection.execute(insert(reflected.tables[name]), values)


async def test_api_keys_go_on_when_they_learn_to_end(empty_url):
    """Each is the key it was, an operator's that never ends; a name that could not be shown is made plain."""
    older = Database.open(empty_url, migrating=True)
    async with older.transaction() as conn:
        await conn.run_sync(_with_api_keys)
    await older.close()

    await migrate(empty_url)

    newer = Database.open(empty_url)
    async with newer.reading() as conn:
        found = [await api_keys.find(conn, key_id) for key_id in ("plain", "strange", "empty")]
        keys = [each.key for each in found if each is not None]
        assert [key.name for key in keys] == ["ci", "c_i _b_", "unnamed"]
        assert {(key.role, key.secret_hash, key.organization_id) for key in keys} == {
            ("org_admin", b"hash", "acme")
        }
        assert {(key.created_by, key.expires_at, key.person_id) for key in keys} == {("zoned", None, None)}
        then = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        assert {(key.created_at, key.updated_at) for key in keys} == {(then, then)}
    await newer.close()


def _with_api_keys(connection: Connection) -> None:
    config = migrations._config()
    config.attributes["connection"] = connection
    command.upgrade(config, "0017")
    reflected = MetaData()
    reflected.reflect(connection)
    for table, given in (
        ("organizations", [{"id": "acme"}]),
        (
            "api_keys",
            [
                {"id": key_id, "organization_id": "acme", "name": name, "role": "org_admin"}
                for key_id, name in (("plain", "ci"), ("strange", "c\ni <b>"), ("empty", ""))
            ],
        ),
    ):
        columns = reflected.tables[table].columns
        at = "2026-01-02T03:04:05.000000Z" if connection.dialect.name == "sqlite" else None
        moment = at or datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        rest = {
            column.name: moment if column.name.endswith("_at") else _anything(column)
            for column in columns
            if not column.nullable
        }
        rest |= {"secret_hash": b"hash"} if table == "api_keys" else {}
        connection.execute(insert(reflected.tables[table]), [{**rest, **one} for one in given])


async def test_scopes_that_no_request_could_name_become_scope_tokens(empty_url):
    """A text with spaces becomes its parts, each once; what is no scope token is left out; others stay."""
    older = Database.open(empty_url, migrating=True)
    async with older.transaction() as conn:
        await conn.run_sync(_with_resources)
    await older.close()

    await migrate(empty_url)

    newer = Database.open(empty_url)
    async with newer.reading() as conn:
        rows = await conn.execute(select(resources.c.id, resources.c.scopes))
        assert {row.id: row.scopes for row in rows} == {
            "plain": ["read", "write"],
            "spaced": ["read", "write", "a:b"],
            "strange": ["read"],
            "none": None,
        }
    await newer.close()


def _with_resources(connection: Connection) -> None:
    config = migrations._config()
    config.attributes["connection"] = connection
    command.upgrade(config, "0027")
    reflected = MetaData()
    reflected.reflect(connection)
    scopes = {
        "plain": ["read", "write"],
        "spaced": ["read write", "read", "a:b "],
        "strange": ["r\u00e9ad", "read", '"'],
        "none": None,
    }
    rows: dict[str, list[dict[str, Any]]] = {
        "organizations": [{"id": "acme"}],
        "zones": [{"id": "zone", "organization_id": "acme"}],
        "resources": [
            {
                "id": key,
                "identifier": key,
                "slug": key,
                "zone_id": "zone",
                "organization_id": "acme",
                "scopes": given,
            }
            for key, given in scopes.items()
        ],
    }
    for table, given in rows.items():
        columns = reflected.tables[table].columns
        rest = {column.name: _anything(column) for column in columns if not column.nullable}
        connection.execute(insert(reflected.tables[table]), [{**rest, **one} for one in given])


def _anything(column: Any) -> Any:
    """Some value that a column takes."""
    if isinstance(column.type, JSON):
        return {}
    if column.type.python_type is str:
        return datetime.now(UTC).isoformat() if column.name.endswith("_at") else "x"
    now = datetime.now(UTC)
    return {bool: False, int: 1, bytes: b"x", datetime: now}[column.type.python_type]


@pytest.mark.parametrize("seed", ["1", "2"])
def test_every_process_writes_out_the_same_tables(seed: str):
    """The SQL text for reviewers depends on nothing but the tables: no hash decides their order."""
    written = _in_another_process("print(ddl.dump(), end='')", seed=seed)

    assert written == ddl.dump()


@pytest.mark.parametrize("name", METADATA.tables)
def test_every_table_is_written_out(name: str):
    """The SQL text for reviewers has each table."""
    assert f"CREATE TABLE {name} (" in ddl.dump()


def _in_another_process(code: str, *arguments: str, seed: str) -> str:
    """What a process of its own prints, whose hashes of text differ from those of this one."""
    imports = "import asyncio, sys; from runtime.storage.sql import ddl, migrate; "
    done = subprocess.run(
        [sys.executable, "-c", imports + code, *arguments],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": seed},
    )
    return done.stdout


async def test_zones_from_before_strict_audiences_keep_what_they_have(empty_url):
    """On where an operator set it, off where nobody did; the setting of that name is gone, others stay."""
    older = Database.open(empty_url, migrating=True)
    async with older.transaction() as conn:
        await conn.run_sync(_with_zones)
    await older.close()

    await migrate(empty_url)

    newer = Database.open(empty_url)
    async with newer.reading() as conn:
        zones = (await conn.execute(select(TABLES["Zone"].c.id, TABLES["Zone"].c.protocols))).all()
        strict = {row.id: row.protocols["oauth2"] for row in zones}
        internals = METADATA.tables["zone_internals"]
        kept = (await conn.execute(select(internals.c.zone_id, internals.c.switches))).all()
    await newer.close()
    assert strict == {
        "plain": {"issuer": "https://plain", "strict_assertion_audience": False},
        "strict": {"issuer": "https://strict", "strict_assertion_audience": True},
        "other": {"issuer": "https://other", "strict_assertion_audience": False},
    }
    assert {row.zone_id: row.switches for row in kept} == {
        "plain": None,
        "strict": None,
        "other": {"require_dpop_nonce": True},
    }


def _with_zones(connection: Connection) -> None:
    switches: dict[str, dict[str, bool] | None] = {
        "plain": None,
        "strict": {"strict_assertion_audience": True},
        "other": {"require_dpop_nonce": True},
    }
    zones = [
        {
            "id": name,
            "slug": name,
            "organization_id": "acme",
            "protocols": {"oauth2": {"issuer": f"https://{name}"}},
        }
        for name in switches
    ]
    rows: dict[str, list[dict[str, Any]]] = {
        "organizations": [{"id": "acme"}],
        "zones": zones,
        "zone_internals": [
            {"zone_id": name, "organization_id": "acme", "switches": null() if value is None else value}
            for name, value in switches.items()
        ],
    }
    _fill(connection, "0033", rows)


def _fill(connection: Connection, revision: str, rows: dict[str, list[dict[str, Any]]]) -> None:
    """Make the tables of a revision, with these rows in them: table -> what each row says at least."""
    config = migrations._config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
    reflected = MetaData()
    reflected.reflect(connection)
    for table, given in rows.items():
        columns = reflected.tables[table].columns
        rest = {column.name: _anything(column) for column in columns if not column.nullable}
        for one in given:
            connection.execute(insert(reflected.tables[table]), {**rest, **one})


def _many_sessions(connection: Connection) -> None:
    """Sessions of one user, on so many pages that an autovacuum may be made to last."""
    reflected = MetaData()
    reflected.reflect(connection, only=["sessions"], resolve_fks=False)
    sessions = reflected.tables["sessions"]
    rest = {column.name: _anything(column) for column in sessions.columns if not column.nullable}
    connection.execute(text("SET LOCAL session_replication_role = replica"))
    connection.execute(insert(sessions), [{**rest, "id": f"s{number}"} for number in range(5_000)])


async def _migrate_from(url: str, revision: str, rows: dict[str, list[dict[str, Any]]]) -> None:
    """Migrate a database to the newest version that is at a revision, with these rows in it."""
    older = Database.open(url, migrating=True)
    async with older.transaction() as conn:
        await conn.run_sync(_fill, revision, rows)
    await older.close()

    await migrate(url)


async def test_what_was_counted_is_counted_again(postgres: PostgresServer):
    """For what the planner is told since; what was never counted is left so."""
    url = await postgres.empty()
    company, zone = {"organization_id": "acme"}, {"organization_id": "acme", "zone_id": "plain"}
    users = [{**zone, "id": f"u{number}", "identifier": f"u{number}"} for number in range(2)]
    sessions = [{**zone, "id": f"s{number}", "user_id": "u0", "status": "active"} for number in range(20)]
    rows = {
        "organizations": [{"id": "acme"}],
        "zones": [{"id": "plain", **company}],
        "users": users,
        "sessions": sessions,
    }
    older = Database.open(url, migrating=True)
    async with older.transaction() as conn:
        await conn.run_sync(_fill, "0047", rows)
    counted = text("SELECT n_distinct FROM pg_stats WHERE tablename = 'sessions' AND attname = 'user_id'")
    never = text("SELECT reltuples FROM pg_class WHERE relname = 'refresh_families'")
    async with older.transaction() as conn:
        await conn.execute(text("ANALYZE sessions"))
        assert (await conn.scalar(counted), await conn.scalar(never)) == (1, -1)
    await older.close()

    await migrate(url)

    newer = Database.open(url)
    async with newer.reading() as conn:
        assert (await conn.scalar(counted), await conn.scalar(never)) == (-1, -1)
    await newer.close()
    await postgres.drop(url)


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A server whose settings the test may change."""
    with running_postgres() as server:
        yield server


@pytest.mark.long
async def test_autovacuum_gives_way_to_a_migration(
    own_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
):
    """One that lasts would lock it out of a table for as long, which half a second's wait does not end."""
    monkeypatch.setattr(migrations, "_TRY_FOR_SECONDS", 0.1)
    vacuuming = text("SELECT count(*) FROM pg_stat_progress_vacuum WHERE relid = to_regclass('sessions')")
    slowly = "autovacuum_vacuum_insert_threshold = 1, autovacuum_vacuum_cost_limit = 1"
    url = await own_postgres.empty()
    older = Database.open(url, migrating=True)
    async with older.transaction() as conn:
        await conn.run_sync(_fill, "0047", {})
    async with older.querying() as conn:
        for statement in (
            "ALTER SYSTEM SET autovacuum_naptime = '1s'",
            "SELECT pg_reload_conf()",
            f"ALTER TABLE sessions SET ({slowly}, autovacuum_vacuum_cost_delay = 100)",
        ):
            await conn.execute(text(statement))
    async with older.transaction() as conn:
        await conn.run_sync(_many_sessions)
    async with older.querying() as conn, asyncio.timeout(60):
        while not await conn.scalar(vacuuming):
            pass
        await migrate(url)
        told = "SELECT count(*) FROM pg_attribute WHERE attoptions @> ARRAY['n_distinct=-1']"
        assert await conn.scalar(text(told)) == len(column_statistics.with_many_values())
    await older.close()


async def test_secrets_from_before_are_for_the_present_address(empty_url):
    """Of a resource for what it is called now; one of something else has no address."""
    zone = {"organization_id": "acme", "zone_id": "plain"}
    rows = {
        "organizations": [{"id": "acme"}],
        "zones": [
            {"id": "plain", "organization_id": "acme", "protocols": {"oauth2": {"issuer": "https://plain"}}}
        ],
        "resources": [{**zone, "id": "api", "identifier": "https://api.test"}],
        "secrets": [
            {**zone, "id": "shared", "entity_id": "api"},
            {**zone, "id": "other", "entity_id": "app"},
        ],
    }
    await _migrate_from(empty_url, "0035", rows)

    newer = Database.open(empty_url)
    async with newer.reading() as conn:
        secrets = TABLES["Secret"].c
        found = (await conn.execute(select(secrets.id, secrets.resource_identifier))).all()
    await newer.close()
    assert {row.id: row.resource_identifier for row in found} == {"shared": "https://api.test", "other": None}


async def test_grants_without_a_refresh_token_say_so(empty_url):
    """As it is in the vault; those that had one when they were revoked or forgotten still said true."""
    zone = {"organization_id": "acme", "zone_id": "plain"}
    said = {"kept": True, "revoked": True, "access token alone": True, "never": False}
    place = {**zone, "user_id": "ada", "provider_id": "idp"}
    rows = {
        "organizations": [{"id": "acme"}],
        "zones": [
            {"id": "plain", "organization_id": "acme", "protocols": {"oauth2": {"issuer": "https://plain"}}}
        ],
        "users": [{**zone, "id": "ada"}],
        "providers": [{**zone, "id": "idp"}],
        "resources": [{**zone, "id": name, "identifier": name, "slug": name} for name in said],
        "delegated_grants": [
            {**place, "id": name, "resource_id": name, "refresh_token_set": is_set}
            for name, is_set in said.items()
        ],
        "vault_tokens": [
            {"zone_id": "plain", "id": name, "grant_id": name, "refresh_token": token}
            for name, token in (("kept", b"sealed"), ("access token alone", None))
        ],
    }
    await _migrate_from(empty_url, "0037", rows)

    newer = Database.open(empty_url)
    async with newer.reading() as conn:
        grants = TABLES["DelegatedGrant"].c
        found = (await conn.execute(select(grants.id, grants.refresh_token_set))).all()
    await newer.close()
    assert {row.id: row.refresh_token_set for row in found} == {
        "kept": True,
        "revoked": False,
        "access token alone": False,
        "never": False,
    }
