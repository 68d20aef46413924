"""Conversion between entities and rows: one converter a kind, made when it is first needed."""

from collections.abc import Callable, Sequence
from datetime import datetime
from enum import Enum
from functools import cache
from operator import itemgetter
from typing import Any, Generic, Literal, TypeVar, get_args, get_origin

from pydantic import TypeAdapter
from sqlalchemy import JSON, RowMapping, Table

from runtime.domain.kinds import Entity, Kind
from runtime.domain.kinds.marks import members
from runtime.storage.sql.tables import TABLES

Convert = Callable[[Any], Any]
E = TypeVar("E", bound=Entity)
E_co = TypeVar("E_co", bound=Entity, covariant=True)
_SAME_IN_ROWS = (str, int, bool, datetime, bytes)
_set = object.__setattr__  # entities themselves refuse


def _value(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _json(annotation: Any) -> Convert:
    """JSON types for a part, a list or a dict; None stays None, which is SQL's NULL."""
    dump = TypeAdapter(annotation).dump_python
    return lambda value: None if value is None else dump(value, mode="json")


def _same(value: Any) -> Any:
    return value


def _choices(type_: Any) -> dict[Any, Any]:
    """Value in a row -> value, of an enumeration or of a choice of values; empty for other types."""
    if get_origin(type_) is Literal:
        return {_value(choice): choice for choice in get_args(type_)}
    if isinstance(type_, type) and issubclass(type_, Enum):
        return {choice.value: choice for choice in type_}
    return {}


class _Reader(Generic[E_co]):
    """Makes entities of one class from rows, in less than half the time that validating them again takes.

    Texts, numbers and instants were checked before they were written, and come back as they were. A value
    of an enumeration is looked up, and what is kept as JSON is validated. The class has no validators of its
    own.
    """

    def __init__(self, model: type[E_co], columns: tuple[str, ...]) -> None:
        """
        Args:
            columns: what the rows begin with, in their order.
        """
        self._model = model
        self._names = tuple(name for name in columns if name in model.model_fields)
        # A row of a kind with variants has the members of the others, too.
        self._chosen = None if self._names == columns else itemgetter(*map(columns.index, self._names))
        self._given = set(self._names)
        self._absent = {
            name: None if name in self._given else field.get_default(call_default_factory=True)
            for name, field in model.model_fields.items()
        }
        self._choices: list[tuple[str, dict[Any, Any]]] = []
        self._parts: list[tuple[str, Convert]] = []
        for name in self._names:
            member = members(model)[name]
            if choices := _choices(member.value_type):
                self._choices.append((name, choices | ({None: None} if member.nullable else {})))
            elif member.value_type not in _SAME_IN_ROWS:
                self._parts.append((name, TypeAdapter(member.annotation).validate_python))

    def read(self, row: Sequence[Any]) -> E_co:
        """The entity. Raises ValueError for a part that is not valid, KeyError for an unknown choice."""
        values = self._absent.copy()  # in the order of the members, as validation has them
        values.update(zip(self._names, row if self._chosen is None else self._chosen(row), strict=False))
        for name, choices in self._choices:
            values[name] = choices[values[name]]
        for name, validated in self._parts:
            if values[name] is not None:
                values[name] = validated(values[name])
        # What `model_construct` does, which looks for defaults and aliases each time.
        entity = self._model.__new__(self._model)
        _set(entity, "__dict__", values)
        _set(entity, "__pydantic_fields_set__", self._given)
        _set(entity, "__pydantic_extra__", None)
        _set(entity, "__pydantic_private__", None)
        return entity


def _reading_variants(kind: Kind[E], columns: tuple[str, ...]) -> Callable[[Sequence[Any]], E]:
    """What makes an entity of a kind with variants from a row."""
    place = columns.index("type")
    read_of = {type_: _reading(variant, columns) for type_, variant in kind.types.items()}
    return lambda row: read_of[row[place]](row)


def _reading(model: type[E], columns: tuple[str, ...]) -> Callable[[Sequence[Any]], E]:
    """What makes an entity of one class from a row."""
    validators = model.__pydantic_decorators__
    if not (validators.field_validators or validators.model_validators):
        return _Reader(model, columns).read
    known = frozenset(model.model_fields)

    def validate(row: Sequence[Any]) -> E:
        pairs = zip(columns, row, strict=False)
        return model.model_validate({name: value for name, value in pairs if name in known})

    return validate


class Converter(Generic[E_co]):
    """How the entities of one kind are kept in its table.

    Attributes:
        names: of the columns.
        entity: the entity of a row that begins with every column of the table, in the table's order.
    """

    def __init__(self, kind: Kind[E_co]) -> None:
        table: Table = TABLES[kind.name]
        self.names = tuple(column.name for column in table.columns)
        self.entity = (
            _reading_variants(kind, self.names) if kind.variants else _reading(kind.entity, self.names)
        )
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

    def named(self, row: RowMapping) -> E_co:
        """The entity of a row that has the columns of the table by their names, among others."""
        return self.entity([row[name] for name in self.names])


def converter(kind: Kind[E]) -> Converter[E]:
    """The converter of a kind."""
    found: Converter[E] = _converter(kind)
    return found


@cache
def _converter(kind: Kind) -> Converter[Any]:
    return Converter(kind)
