"""Column types, constraints and the `MetaData` that every table is made with."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Dialect,
    ForeignKeyConstraint,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
)
from sqlalchemy.types import DateTime, TypeDecorator, TypeEngine

METADATA = MetaData()
# What the `info` of an index says that one database alone has.
ONLY_ON = "dialect"


class Utc(TypeDecorator[datetime]):
    """An instant. PostgreSQL keeps `timestamptz`; SQLite keeps ISO 8601 text of one width."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(String(32) if dialect.name == "sqlite" else DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None or dialect.name != "sqlite":
            return value
        if value.tzinfo is not UTC:
            value = value.astimezone(UTC)
        return value.isoformat(timespec="microseconds")

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], datetime | None] | None:
        # In place of `process_result_value`, which is called through another function for each value.
        return _read if dialect.name == "sqlite" else None


def _read(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value)


# JSON text as it was written, members in order; None is SQL's NULL.
Json = JSON(none_as_null=True)


def text(name: str, *, nullable: bool = False) -> Column[str]:
    """A column of text of any length."""
    return Column(name, String, nullable=nullable)


def number(name: str, *, nullable: bool = False) -> Column[int]:
    """A column of whole numbers."""
    return Column(name, BigInteger, nullable=nullable)


def instant(name: str, *, nullable: bool = False) -> Column[datetime]:
    """A column of instants."""
    return Column(name, Utc, nullable=nullable)


def binary(name: str, *, nullable: bool = False) -> Column[bytes]:
    """A column of bytes: hashes and sealed values."""
    return Column(name, LargeBinary, nullable=nullable)


def json(name: str, *, nullable: bool = True) -> Column[Any]:
    """A column of JSON."""
    return Column(name, Json, nullable=nullable)


def primary_key(table: str, *columns: str) -> PrimaryKeyConstraint:
    """A primary key by the name that PostgreSQL would give it."""
    return PrimaryKeyConstraint(*columns, name=f"{table}_pkey")


def belongs(
    table: str, columns: str, target: str, *, ondelete: str | None = "CASCADE", late: bool = False
) -> ForeignKeyConstraint:
    """A foreign key whose last column names it.

    Args:
        columns: local columns, separated by spaces; the tenant's comes first.
        target: `table column ...`, the columns in the same order.
        ondelete: None leaves the reference to `entities.remove`, which clears it.
        late: whether the target is created after this table.
    """
    local = columns.split()
    other, *names = target.split()
    return ForeignKeyConstraint(
        local,
        [f"{other}.{name}" for name in names],
        name=f"{table}_{local[-1]}_fkey",
        ondelete=ondelete,
        use_alter=late,
    )
