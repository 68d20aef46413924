"""The tables as SQL text, for reviews; a database itself is made by the migrations."""

from sqlalchemy import Dialect, Index, Table
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import AddConstraint, CreateIndex, CreateTable

from runtime.storage.sql import column_statistics
from runtime.storage.sql.columns import ONLY_ON
from runtime.storage.sql.organization_tables import DEFAULT_PARTITION, GUARDS
from runtime.storage.sql.tables import METADATA


def dump() -> str:
    """Every table, index and trigger in PostgreSQL's words, always in the same order."""
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    parts = [
        "-- Written from the kinds and the hand-written tables, for PostgreSQL. SQLite has the same tables."
    ]
    late = []
    for _, table in sorted(METADATA.tables.items()):
        parts.append(_tidy(str(CreateTable(table).compile(dialect=dialect))))
        parts += [_index(index, dialect) for index in _sorted(table)]
        keys = sorted(table.foreign_key_constraints, key=lambda key: str(key.name))
        late += [
            str(AddConstraint(key, isolate_from_table=False).compile(dialect=dialect)) + ";"
            for key in keys
            if key.use_alter
        ]
    guards = [f"{statement};" for statement in (*DEFAULT_PARTITION, *GUARDS["postgresql"])]
    told = "\n".join(f"{statement};" for statement in column_statistics.statements())
    return "\n\n".join([*parts, *late, *guards, told]) + "\n"


def _sorted(table: Table) -> list[Index]:
    there = (index for index in table.indexes if index.info.get(ONLY_ON, "postgresql") == "postgresql")
    return sorted(there, key=lambda index: str(index.name))


def _index(index: Index, dialect: Dialect) -> str:
    return str(CreateIndex(index).compile(dialect=dialect)) + ";"


def _tidy(statement: str) -> str:
    lines = [line.rstrip().replace("\t", "    ") for line in statement.strip().splitlines()]
    return "\n".join(lines) + ";"
