"""Column statistics that PostgreSQL's planner is told, in place of what it counts by itself.

When a row is deleted, the database looks for the rows that refer to it, once for each: by zone and key, in
the index that has both. Where a column has few values (nearly all sessions of a new installation are of one
user, or were begun in one other), the planner thinks that a plan for any key finds all rows; it then makes
one for each key, and in a zone that is newer than its counts it takes any index that begins with the zone for
as good. So all rows of the zone are read for each that goes: deleting a user with 33,000 sessions took
minutes. It is told that columns that refer to what is deleted together have as many values as rows.
"""

from collections.abc import Sequence

from runtime.storage.sql.tables import METADATA

# Distinct values, as a share of the rows: PostgreSQL writes that as a negative number. With fewer, a plan for
# any key costs more, by its reckoning, than to make one for each.
MANY = -1
# Columns that are looked up by a key, with a zone, and have no reference.
_WITHOUT_REFERENCE = [("sessions", "browser_session_id")]


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
