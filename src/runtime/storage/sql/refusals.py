"""Integrity errors of the database as errors of the service: a value is taken, a reference leads nowhere."""

import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import ForeignKeyConstraint, Table, select
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import Conflict, ManagementError, Problem, ValidationFailed
from runtime.domain.kinds import Kind
from runtime.storage.sql.tables import TABLES

_SQLITE_UNIQUE = re.compile(r"UNIQUE constraint failed: (.+)")
_TOO_LONG_TO_INDEX = "54000"


async def refusal(
    conn: AsyncConnection, kind: Kind, row: Mapping[str, Any], error: DBAPIError
) -> ManagementError | None:
    """Why the database did not take a row of a kind; None when the error is no refusal but a fault.

    Args:
        row: what was written; PostgreSQL has ended the transaction by now, SQLite has not.
    """
    cause = getattr(error.orig, "__cause__", None) or error.orig
    text = str(cause)
    if getattr(cause, "sqlstate", None) == _TOO_LONG_TO_INDEX:
        return ValidationFailed.of(kind.handle or "id", "is too long")
    if not isinstance(error, IntegrityError):
        return None
    name = getattr(cause, "constraint_name", None)
    table = TABLES[kind.name]
    if columns := _unique_columns(table, name, text):
        return _taken(kind, row, columns)
    if name is not None:
        foreign = next((key for key in table.foreign_key_constraints if key.name == name), None)
        return _missing(kind, row, foreign) if foreign is not None else None
    if "FOREIGN KEY constraint failed" in text:
        for foreign in table.foreign_key_constraints:
            if await _leads_nowhere(conn, row, foreign):
                return _missing(kind, row, foreign)
    return None


def _unique_columns(table: Table, name: str | None, text: str) -> list[str]:
    """The columns of the violated uniqueness, the parent's first."""
    if name is not None:
        if name == table.primary_key.name:
            return [column.name for column in table.primary_key]
        return next(
            ([column.name for column in index.columns] for index in table.indexes if index.name == name), []
        )
    if found := _SQLITE_UNIQUE.search(text):
        return [column.rpartition(".")[2] for column in found[1].split(", ")]
    return []


def _taken(kind: Kind, row: Mapping[str, Any], columns: list[str]) -> Conflict:
    member = kind.handle if kind.handle in columns else columns[-1]
    message = f"there is already {kind.one} with the {member} `{row[member]}`"
    return Conflict(message, problems=[Problem("conflict", message, member)])


def _missing(kind: Kind, row: Mapping[str, Any], foreign: ForeignKeyConstraint) -> ValidationFailed:
    member = foreign.column_keys[-1]
    target = kind.references.get(member)
    if target is None or member in kind.scope:
        target = member.removesuffix("_id")
    return ValidationFailed.of(member, f"there is no {target} `{row[member]}`")


async def _leads_nowhere(
    conn: AsyncConnection, row: Mapping[str, Any], foreign: ForeignKeyConstraint
) -> bool:
    values = {element.column: row.get(element.parent.name) for element in foreign.elements}
    if any(value is None for value in values.values()):
        return False
    found = await conn.execute(
        select(1).where(*(column == value for column, value in values.items())).limit(1)
    )
    return found.first() is None
