"""Column statistics that PostgreSQL's planner is told, in place of what it counts by itself.

When a row is deleted, the database looks for the rows that refer to it, once for each: by zone and key, in
the index that has both. Where a column has few values (nearly all sessions of a new installation are of one
user, or were begun in one other), the planner thinks that a plan for any key finds all rows; it then makes
one for each key, and in a zone that is newer than its counts it takes any index that begins with the zone for
as good. So all rows of the zone are read for each that goes: deleting a user with 33,000 sessions took
minutes. It is told that columns that refer to what is deleted together have as many values as rows.
"""

from collections.abc import Sequence

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from runtime.storage.sql import autovacuum
from runtime.storage.sql.database import Database
from runtime.storage.sql.tables import METADATA

# Distinct values, as a share of the rows: PostgreSQL writes that as a negative number. With fewer, a plan for
# any key costs more, by its reckoning, than to make one for each.
MANY = -1
# Columns that are looked up by a key, with a zone, and have no reference.
_WITHOUT_REFERENCE = [("sessions", "browser_session_id")]
# Of a table that was never counted, the planner expects more than of one that was found empty: it stays so.
_COUNTED_OTHERWISE = text(
    "SELECT DISTINCT tablename FROM pg_stats JOIN pg_attribute"
    " ON attrelid = to_regclass(quote_ident(tablename)) AND pg_attribute.attname = pg_stats.attname"
    " WHERE schemaname = current_schema()"
    " AND attoptions @> ARRAY['n_distinct=' || CAST(:many AS text)] AND n_distinct <> :many"
    " ORDER BY tablename"
).bindparams(many=MANY)


def with_many_values() -> Sequence[tuple[str, str]]:
    """The columns of which the planner is told that they have many values: table, column."""
    references = {
        (table.name, key.column_keys[-1])
        for table in METADATA.tables.values()
        for key in table.foreign_key_constraints
        if len(key.column_keys) > 1 and key.ondelete and key.column_keys[-1] != "zone_id"
    }
    return sorted({*references, *_WITHOUT_REFERENCE})


def statements() -> Sequence[str]:
    """What tells it; counts from the next `ANALYZE` on."""
    return [
        f"ALTER TABLE {table} ALTER COLUMN {column} SET (n_distinct = {MANY})"
        for table, column in with_many_values()
    ]


async def count_again(database: Database) -> None:
    """Let it count for what it has been told since it counted: a sample of each table, nobody waits.

    A table that is being vacuumed is left out: PostgreSQL counts that by itself in time.
    """
    async with database.querying() as conn:
        tables = [row.tablename for row in await conn.execute(_COUNTED_OTHERWISE)]
    for table in tables:
        try:
            async with database.transaction() as conn:
                for statement in (*autovacuum.keep_off([table]), f"ANALYZE {table}"):
                    await conn.exec_driver_sql(statement)
        except DBAPIError as failure:
            if not autovacuum.is_locked_out(failure):
                raise
