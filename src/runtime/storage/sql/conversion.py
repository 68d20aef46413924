"""Conversion between entities and rows: one converter a kind, made when it is first needed."""

from collections.abc import Callable, Sequence
from enum import Enum
from functools import cache
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter
from sqlalchemy import JSON, RowMapping, Table

from runtime.domain.kinds import Entity, Kind
from runtime.storage.sql.tables import TABLES

Convert = Callable[[Any], Any]
E = TypeVar("E", bound=Entity)
E_co = TypeVar("E_co", bound=Entity, covariant=True)


def _value(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _json(annotation: Any) -> Convert:
    """JSON types for a part, a list or a dict; None stays None, which is SQL's NULL."""
    dump = TypeAdapter(annotation).dump_python
    return lambda value: None if value is None else dump(value, mode="json")


def _same(value: Any) -> Any:
    return value


class Converter(Generic[E_co]):
    """How the entities of one kind are kept in its table."""

    def __init__(self, kind: Kind[E_co]) -> None:
        table: Table = TABLES[kind.name]
        self.names = tuple(column.name for column in table.columns)
        self._read = kind.read
        stored = kind.stored()
        self._written: tuple[tuple[str, Convert], ...] = tuple(
            (
                column.name,
                _json(stored[column.name].annotation)
                if isinstance(column.type, JSON)
                else _value
                if column.type.python_type is str
                else _same,
            )
            for column in table.columns
        )

    def row(self, entity: Entity) -> dict[str, Any]:
        """Column -> value. A member that this variant of the kind does not have is NULL."""
        values = entity.__dict__
        return {name: convert(values.get(name)) for name, convert in self._written}

    def entity(self, row: Sequence[Any]) -> E_co:
        """The entity of a row that has every column of the table, in the table's order."""
        return self._read(dict(zip(self.names, row, strict=True)))

    def named(self, row: RowMapping) -> E_co:
        """The entity of a row that has the columns of the table by their names, among others."""
        return self._read({name: row[name] for name in self.names})


def converter(kind: Kind[E]) -> Converter[E]:
    """The converter of a kind."""
    found: Converter[E] = _converter(kind)
    return found


@cache
def _converter(kind: Kind) -> Converter[Any]:
    return Converter(kind)
