"""Whether a migration only adds: what programs that do not know it cannot work with."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, inspect


@dataclass(frozen=True)
class Described:
    """A table, as a database describes it.

    Attributes:
        columns: name -> type, and whether a row may leave it out.
        rules: what rows have to keep to: keys, unique indexes and conditions.
    """

    columns: Mapping[str, tuple[str, bool]]
    rules: frozenset[str]


def described(connection: Connection) -> dict[str, Described]:
    """Every table of a database."""
    inspector = inspect(connection)
    return {
        name: Described(
            {
                column["name"]: (str(column["type"]), column["nullable"] or column["default"] is not None)
                for column in inspector.get_columns(name)
            },
            frozenset(_rules(inspector, name)),
        )
        for name in inspector.get_table_names()
    }


def _rules(inspector: Any, table: str) -> Iterator[str]:
    if key := inspector.get_pk_constraint(table)["constrained_columns"]:
        yield f"primary key {key}"
    for each in inspector.get_foreign_keys(table):
        yield f"foreign key {each['constrained_columns']} to {each['referred_table']}"
    for each in (*inspector.get_unique_constraints(table), *inspector.get_indexes(table)):
        if each.get("unique", True):
            conditions = sorted(map(str, each.get("dialect_options", {}).values()))
            yield f"unique {each['column_names']} {conditions}"
    for each in inspector.get_check_constraints(table):
        yield f"check {each['sqltext']}"


def in_the_way(before: Mapping[str, Described], after: Mapping[str, Described]) -> list[str]:
    """What programs that know only *before* would stumble over, in words; nothing after an addition."""
    return sorted(
        problem
        for name, table in before.items()
        for problem in (_of_table(name, table, after[name]) if name in after else [f"`{name}` is gone"])
    )


def _of_table(name: str, before: Described, after: Described) -> Iterator[str]:
    for column, (kind, may_be_left_out) in before.columns.items():
        if column not in after.columns:
            yield f"`{name}.{column}` is gone"
        elif after.columns[column][0] != kind:
            yield f"`{name}.{column}` is {after.columns[column][0]}, and was {kind}"
        elif may_be_left_out and not after.columns[column][1]:
            yield f"`{name}.{column}` may not be left out any more"
    for column in after.columns.keys() - before.columns.keys():
        if not after.columns[column][1]:
            yield f"`{name}.{column}` is new, and may not be left out"
    for rule in after.rules - before.rules:
        yield f"`{name}` has a new rule: {rule}"
