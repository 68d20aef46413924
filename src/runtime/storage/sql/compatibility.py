"""Compatibility of programs with a database that a newer one has migrated: expand now, contract later.

A migration that only adds (tables, columns that may be left out, indexes) leaves programs of before at work:
they do not see what was added. One after which they cannot work is listed in `BREAKING`. The database names
the newest of these, and a program that does not know it does not serve. Like `alembic_version`, the table is
kept by migrating, and is none of the service's data.
"""

from collections.abc import Sequence

from sqlalchemy import Column, Connection, MetaData, String, Table, delete, insert, inspect, select

# Version -> why programs that do not know it cannot work with the database. Whatever removes or renames
# something, or changes what it means, belongs here, and comes a release after the last program that used it.
BREAKING = {"0043": "programs of before refuse every version that they do not know"}
# Versions that do more than to make tables, columns and indexes -> why programs of before can go on.
STATEMENTS = {
    "0044": "the table has its name and its columns, and rows are read and written as before",
    "0048": "only the planner is told something; every statement means what it meant",
}

_TABLE = Table("schema_compatibility", MetaData(), Column("oldest_version", String, nullable=False))
TABLE = _TABLE.name


def oldest_supported(lineage: Sequence[str]) -> str:
    """The version that a program must know to serve a database at the end of that lineage.

    Args:
        lineage: versions, the first one first.
    """
    return next((version for version in reversed(lineage) if version in BREAKING), lineage[0])


def note(connection: Connection, oldest: str) -> None:
    """Keep the oldest version that the database supports."""
    _TABLE.create(connection, checkfirst=True)
    connection.execute(delete(_TABLE))
    connection.execute(insert(_TABLE).values(oldest_version=oldest))


def noted(connection: Connection) -> str | None:
    """The oldest version that the database supports; None where no migration has noted it."""
    if not inspect(connection).has_table(TABLE):
        return None
    return connection.execute(select(_TABLE.c.oldest_version)).scalar_one_or_none()
