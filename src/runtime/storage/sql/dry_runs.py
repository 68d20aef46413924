"""Dry runs: connections whose writes go to temporary tables, which nobody else sees or waits for.

Each such connection has a temporary table of the name of every table, and an unqualified name means that one.
So the statements of a dry run are those of the real one. What a dry run is about is copied there when it
begins. Its transaction is read only, so that the database itself refuses to write anything else: no row is
locked, no value of a unique index is held, and on SQLite the one writer goes on.
"""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import lru_cache
from typing import Any, cast

from sqlalchemy import (
    Column,
    ColumnElement,
    Dialect,
    ForeignKeyConstraint,
    Index,
    Insert,
    MetaData,
    PrimaryKeyConstraint,
    Select,
    String,
    Table,
    TableClause,
    UpdateBase,
    and_,
    bindparam,
    column,
    event,
    false,
    func,
    insert,
    literal,
    or_,
    select,
    table,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.schema import CreateIndex, CreateTable

from runtime.domain.errors import TooLarge, Unavailable
from runtime.domain.kinds import ALL, APPLICATION
from runtime.domain.names import key_of
from runtime.storage.sql import insert_batches
from runtime.storage.sql.batches import batches
from runtime.storage.sql.tables import METADATA

# What an organization configures is copied, parents first: its kinds, and what belongs to them.
_BESIDE_KINDS = {
    "application_dependencies",
    "group_invitees",
    "group_members",
    "organization_heads",
    "organizations",
    "ownerships",
    "policy_set_bindings",
    "policy_set_versions",
    "policy_versions",
    "subjects",
    "zone_addresses",
    "zone_internals",
    "zone_keys",
}
COPIED = frozenset({kind.table for kind in ALL if kind.manifest} | _BESIDE_KINDS)
# What no changeset is about, and is looked up: there may be millions of users. It is read where it is, and
# what would be written of it is left out. Of any other table nothing is read: there it is empty.
READ_IN_PLACE = frozenset({"audit_events", "secrets", "user_agents", "users"})

_WANTED = "dry_run_zones"  # the zones that are copied
_KEYS = "dry_run_subjects"  # of the subjects of users, those that are copied
_PREPARED = "zonewright_dry_run_source"  # where a connection notes that it has its tables
_DIALECTS: dict[str, Dialect] = {
    "postgresql": postgresql.dialect(),  # type: ignore[no-untyped-call]
    "sqlite": sqlite.dialect(),
}
DEAD_BYTES = 8 * 1024 * 1024
_DEAD = text(
    "SELECT sum(pg_total_relation_size(oid)) FROM pg_class"
    " WHERE relnamespace = pg_my_temp_schema() AND relkind = 'r'"
)
_FULL = "database or disk is full"  # SQLite's words
_LARGER_THAN_ONE_MAY_BE = "the zones of this changeset are larger than a dry run may be; plan fewer at a time"
_NO_TEMPORARY_TABLES = "a dry run needs temporary tables, and the database makes none: see the server's log"
_Connected = Callable[[AsyncEngine], AbstractAsyncContextManager[AsyncConnection]]


class DryRuns:
    """The connections for dry runs: a few, opened when they are needed; a dry run waits for a free one."""

    def __init__(self, engine: AsyncEngine, connected: _Connected) -> None:
        """
        Args:
            engine: of connections that are used for nothing else.
            connected: opens a connection of an engine. Raises Unavailable.
        """
        self._engine, self._connected = engine, connected
        event.listen(engine.sync_engine, "before_execute", _leave_out, retval=True)

    @asynccontextmanager
    async def begin(
        self, organization_id: str, zone_ids: Collection[str], names: Collection[str]
    ) -> AsyncIterator[AsyncConnection]:
        """A connection that has these zones of an organization, and everything that is in none, as of now.

        Nothing that is written there is kept. Zones of other organizations are not there.

        Args:
            names: what applications are going to be called; of what users are called, only that is there.
        """
        async with self._connected(self._engine) as connection:
            source = await self._prepared(connection)
            reading = await self._reading(connection)
            try:
                await _fill(reading, source, organization_id, zone_ids, names)
                for statement in _copies(source):
                    await reading.execute(statement, {"organization": organization_id})
                yield reading
            except Exception as failure:
                try:
                    await self._empty(reading)
                except Exception:  # noqa: BLE001 - the connection is gone, which the failure says itself
                    await reading.invalidate()
                if isinstance(failure, Unavailable) and _FULL in failure.internal:
                    raise TooLarge(_LARGER_THAN_ONE_MAY_BE) from failure
                raise
            except BaseException:  # stopped in the midst of a statement
                await reading.invalidate()
                raise
            await self._empty(reading)

    async def close(self) -> None:
        """Close all connections."""
        await self._engine.dispose()

    async def _prepared(self, connection: AsyncConnection) -> str:
        """Give a new connection its tables; the schema in which the real ones are."""
        raw = await connection.get_raw_connection()
        if _PREPARED not in raw.info:
            source, driver = "main", cast(Any, raw.driver_connection)
            if connection.dialect.name == "postgresql":
                source = str(await connection.scalar(select(func.current_schema())))
                await connection.commit()
                make = driver.execute
            else:
                make = driver.executescript
            try:
                await make(_script(connection.dialect.name))
            except Exception as error:  # the driver's own: no statement of the engine
                await connection.invalidate()
                raise Unavailable(_NO_TEMPORARY_TABLES, internal=str(error)) from error
            raw.info[_PREPARED] = source
        return str(raw.info[_PREPARED])

    async def _reading(self, connection: AsyncConnection) -> AsyncConnection:
        if connection.dialect.name == "postgresql":
            return await connection.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
        return connection  # its file is open for reading alone

    async def _empty(self, connection: AsyncConnection) -> None:
        await connection.rollback()
        if connection.dialect.name != "postgresql":
            return
        # A rollback leaves dead rows behind. Nothing cleans temporary tables but a commit, which takes long.
        if int(await connection.scalar(_DEAD) or 0) > DEAD_BYTES:
            await connection.commit()
        await connection.rollback()


@lru_cache(maxsize=2)  # one for each database
def _script(name: str) -> str:
    """The statements that make the temporary tables: sent together, for one round trip."""
    dialect, statements = _DIALECTS[name], list[str]()
    for shadow in _shadows().sorted_tables:
        statements.append(str(CreateTable(shadow).compile(dialect=dialect)))
        statements += [str(CreateIndex(index).compile(dialect=dialect)) for index in shadow.indexes]
    return ";".join(statements)


@lru_cache(maxsize=2)  # one for each database
def _shadows() -> MetaData:
    """The temporary tables. Only what is copied has indexes, and foreign keys to what else is."""
    shadows = MetaData()
    for name in (_WANTED, _KEYS):
        Table(name, shadows, Column("id", String), **_TEMPORARY)
    for real in METADATA.sorted_tables:
        if real.name not in READ_IN_PLACE:
            _shadow(real, shadows)
    return shadows


_TEMPORARY: dict[str, Any] = {"prefixes": ["TEMPORARY"], "postgresql_on_commit": "DELETE ROWS"}


def _shadow(real: Table, shadows: MetaData) -> Table:
    copied = real.name in COPIED
    keys: list[PrimaryKeyConstraint | ForeignKeyConstraint] = []
    if real.primary_key.columns:
        keys.append(
            PrimaryKeyConstraint(*(one.name for one in real.primary_key), name=str(real.primary_key.name))
        )
    # A late one leads from a zone to what is in it, which need not be copied; deletions clear it themselves.
    keys += [
        ForeignKeyConstraint(
            key.column_keys,
            [f"{key.referred_table.name}.{element.column.name}" for element in key.elements],
            name=str(key.name),
            ondelete=key.ondelete,
        )
        for key in sorted(real.foreign_key_constraints, key=lambda key: str(key.name))
        if copied and not key.use_alter and key.referred_table.name in COPIED
    ]
    columns = [
        Column(one.name, one.type, nullable=one.nullable, server_default=one.server_default) for one in real.c
    ]
    made = Table(real.name, shadows, *columns, *keys, **_TEMPORARY)
    for index in sorted(real.indexes, key=lambda index: str(index.name)) if copied else ():
        _index(index, made)
    return made


def _index(real: Index, shadow: Table) -> None:
    options = {
        f"{name}_{option}": value
        for name, given in real.dialect_options.items()
        for option, value in given.items()
        if value is not None and option == "where"
    }
    Index(real.name, *(shadow.c[one.name] for one in real.columns), unique=real.unique, **options)


async def _fill(
    connection: AsyncConnection,
    source: str,
    organization_id: str,
    zone_ids: Collection[str],
    names: Collection[str],
) -> None:
    """Say what is copied. These and the copies are statements that see the database at one instant."""
    wanted, zones = sorted(set(zone_ids)), _live("zones", source)
    if keys := [{"id": key_of(name)} for name in sorted(set(names))]:
        await connection.execute(insert(_shadows().tables[_KEYS]), keys)
    for batch in batches(wanted):
        chosen = select(zones.c.id).where(zones.c.organization_id == organization_id, zones.c.id.in_(batch))
        await connection.execute(insert(_shadows().tables[_WANTED]).from_select(["id"], chosen))


@lru_cache(maxsize=2)  # one for each database
def _copies(source: str) -> Sequence[Insert]:
    copies = []
    for shadow in _shadows().sorted_tables:
        if shadow.name in COPIED:
            live = _live(shadow.name, source)
            chosen: Select[Any] = select(*live.c).where(_belongs(live))
            copies.append(insert(shadow).from_select([one.name for one in shadow.c], chosen))
    return copies


def _live(name: str, source: str) -> TableClause:
    return table(name, *(column(one.name, one.type) for one in METADATA.tables[name].c), schema=source)


def _belongs(live: TableClause) -> ColumnElement[bool]:
    """The condition that a row is of the organization, and in one of the zones if it is in any."""
    wanted = _shadows().tables[_WANTED]
    if live.name == "organizations":
        return live.c.id == bindparam("organization")
    own = live.c.organization_id == bindparam("organization") if "organization_id" in live.c else None
    if "zone_id" not in live.c:
        if own is None:
            raise ValueError(f"nothing says whose the rows of `{live.name}` are")
        return own
    there = live.c.zone_id.in_(select(wanted.c.id))
    if live.name == "subjects":
        keys = _shadows().tables[_KEYS]
        return and_(there, or_(live.c.kind == APPLICATION.name, live.c.key.in_(select(keys.c.id))))
    if own is None:
        return there
    return and_(own, or_(live.c.zone_id.is_(None), there))


def _leave_out(
    connection: Any, clause: Any, multiparams: Any, params: Any, _options: Any
) -> tuple[Any, Any, Any]:
    """What is sent in place of a write to what is only read; after what waits to be written."""
    insert_batches.flush(connection)
    if isinstance(clause, UpdateBase) and getattr(clause.table, "name", None) in READ_IN_PLACE:
        return select(literal(1)).where(false()), (), {}
    return clause, multiparams, params
