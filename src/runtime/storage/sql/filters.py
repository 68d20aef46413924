"""The conditions of a list query: its parents, values and text searches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, or_

from runtime.domain.kinds import Kind
from runtime.domain.kinds.marks import Mark
from runtime.storage.sql.tables import TABLES

Within = Mapping[str, str]


@dataclass(frozen=True)
class Equals:
    """The member has one of these values."""

    member: str
    values: Sequence[Any]


@dataclass(frozen=True)
class Contains:
    """One of the members has all of these texts in it, in upper or lower case. No character is special."""

    members: Sequence[str]
    texts: Sequence[str]


@dataclass(frozen=True)
class SqlCondition:
    """A condition over `TABLES[kind.name]`, for callers that write SQL themselves."""

    clause: ColumnElement[bool]


Condition = Equals | Contains | SqlCondition


def parents(kind: Kind, within: Mapping[str, Any], *, member: str = "") -> list[ColumnElement[bool]]:
    """The conditions that a row belongs to these parents.

    Args:
        member: what is looked up, since a member that is unique in the whole service needs no tenant.

    Raises:
        ValueError: the tenant is not named, which would reach into every tenant at once.
    """
    owner = kind.tenant
    stored = kind.stored()
    tenantless = kind.is_tenant or (member in stored and stored[member].has(Mark.GLOBAL))
    if owner and owner not in within and not tenantless:
        raise ValueError(f"a query of {kind.name} needs `{owner}`")
    columns = TABLES[kind.name].c
    return [columns[name] == value for name, value in within.items()]


def condition(kind: Kind, asked: Condition) -> ColumnElement[bool]:
    """The SQL of a condition."""
    columns = TABLES[kind.name].c
    if isinstance(asked, Equals):
        return columns[asked.member].in_(asked.values)
    if isinstance(asked, Contains):
        return or_(
            *(
                _every(columns[member].icontains(text, autoescape=True) for text in asked.texts)
                for member in asked.members
            )
        )
    return asked.clause


def _every(conditions: Any) -> ColumnElement[bool]:
    first, *rest = conditions
    for other in rest:
        first = first & other
    return first  # type: ignore[no-any-return]
