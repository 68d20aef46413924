"""Entities into rows and rows into entities: one converter a kind, made when it is first needed."""

from collections.abc import Callable, Sequence
from enum import Enum
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import JSON, Table

from runtime.domain.kinds import Entity, Kind
from runtime.storage.sql.tables import TABLES

Convert = Callable[[Any], Any]


def _value(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _json(annotation: Any) -> Convert:
    """JSON types for a part, a list or a dict; None stays None, which is SQL's NULL."""
    dump = TypeAdapter(annotation).dump_python
    return lambda value: None if value is None else dump(value, mode="json")


def _same(value: Any) -> Any:
    return value


class Converter:
    """How the entities of one kind are kept in its table."""

    def __init__(self, kind: Kind) -> None:
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

    def entity(self, row: Sequence[Any]) -> Entity:
        """The entity of a row that has every column of the table, in the table's order."""
        return self._read(dict(zip(self.names, row, strict=True)))


@cache
def converter(kind: Kind) -> Converter:
    """The converter of a kind."""
    return Converter(kind)
