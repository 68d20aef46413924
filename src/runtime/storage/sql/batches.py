"""Long lists in statements: drivers limit how many values one statement takes."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Self, TypeVar

from sqlalchemy import ARRAY, JSON, BindParameter, Boolean, ColumnElement, Dialect, String, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

BATCH = 500

T = TypeVar("T")


def batches(values: Sequence[T]) -> Iterable[Sequence[T]]:
    """The values in order, at most `BATCH` of them at a time."""
    return (values[start : start + BATCH] for start in range(0, len(values), BATCH))


def among(column: ColumnElement[Any], texts: Collection[str] | BindParameter[Any]) -> ColumnElement[bool]:
    """The condition that a column has one of these texts, which are one value of the statement.

    There may be as many as a user has sessions, or an organization zones: PostgreSQL's driver refuses a
    statement with more than 32,767 values, and SQLite one with more than it was built for. Both find the rows
    by an index of the column; in an `OR`, PostgreSQL may compare each row with each text besides.

    Args:
        texts: themselves, or a parameter of type `Texts`.
    """
    given = texts if isinstance(texts, BindParameter) else literal(list(texts), Texts)
    return _Among(column, given)


class Texts(TypeDecorator[list[str]]):
    """Texts that are one value: an array on PostgreSQL, JSON on SQLite."""

    impl = JSON
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(ARRAY(String) if dialect.name == "postgresql" else JSON())


class _Among(FunctionElement[bool]):
    type = Boolean()
    inherit_cache = True

    def self_group(self, against: Any = None) -> Self:
        return self  # where SQLAlchemy has SQLite compare it with 1, and SQLite uses no index for that


@compiles(_Among)
def _in_array(condition: _Among, compiler: Any, **more: Any) -> str:
    column, texts = (compiler.process(each, **more) for each in condition.clauses)
    return f"{column} = ANY ({texts})"


@compiles(_Among, "sqlite")
def _in_json(condition: _Among, compiler: Any, **more: Any) -> str:
    column, texts = (compiler.process(each, **more) for each in condition.clauses)
    return f"{column} IN (SELECT value FROM json_each({texts}))"  # noqa: S608 - both are compiled
