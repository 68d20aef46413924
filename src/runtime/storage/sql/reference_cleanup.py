"""Clears references to a deleted entity that no foreign key covers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    CursorResult,
    Executable,
    Table,
    bindparam,
    delete,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import ALL, SECRET_OWNERS, ZONE, Kind
from runtime.domain.kinds.values import PolicyTargetType, PrincipalType
from runtime.storage.sql.ownership import COLUMNS, OwnershipRecord, record_of
from runtime.storage.sql.tables import METADATA, TABLES, consents, ownerships, policy_set_bindings


@dataclass(frozen=True)
class _Loose:
    """A column that may hold ids of several kinds, and so cannot be a foreign key."""

    table: Table
    column: str
    discriminator: str | None
    values: dict[str, str]  # kind name -> the discriminator's value

    def of(self, kind: Kind) -> tuple[ColumnElement[bool], ...]:
        """What else is true of a row that points at an entity of that kind."""
        return (self.table.c[self.discriminator] == self.values[kind.name],) if self.discriminator else ()


_LOOSE = (
    _Loose(
        TABLES["RoleAssignment"],
        "principal_id",
        "principal_type",
        {
            "User": PrincipalType.USER.value,
            "Group": PrincipalType.GROUP.value,
            "Application": PrincipalType.APPLICATION.value,
        },
    ),
    # What a user wrote for themselves is theirs: their set, and the policies in it.
    _Loose(TABLES["PolicySet"], "target_id", "target_type", {"User": PolicyTargetType.USER.value}),
    _Loose(TABLES["Policy"], "created_by", "target_type", {"User": PolicyTargetType.USER.value}),
    _Loose(policy_set_bindings, "target_id", "target_type", {"User": PolicyTargetType.USER.value}),
    _Loose(consents, "resource_id", None, {"Resource": ""}),
    _Loose(TABLES["Secret"], "entity_id", None, dict.fromkeys(SECRET_OWNERS, "")),
)


_GONE: BindParameter[Any] = bindparam("gone", expanding=True)


async def clear_references(
    conn: AsyncConnection, kind: Kind, entity_ids: Sequence[str], *, tenant_id: str
) -> list[OwnershipRecord]:
    """Clear the optional references to entities, and drop the records that speak of them or of their parts.

    Args:
        entity_ids: at most a batch of them.
        tenant_id: the zone of a zone's entities, else the organization.

    Returns:
        The ownership records that go.
    """
    dropped: list[OwnershipRecord] = []
    for statement in _statements(kind):
        done: CursorResult[Any] = await conn.execute(statement, {"gone": entity_ids, "tenant": tenant_id})
        if done.returns_rows:
            dropped += [record_of(row) for row in done]
    return dropped


@cache
def _statements(kind: Kind) -> tuple[Executable, ...]:
    owner = kind.tenant
    if owner is None:
        return ()
    found: list[Executable] = [_ownership(kind, owner, _GONE)]
    if kind is ZONE:
        found.append(delete(ownerships).where(ownerships.c.zone_id.in_(_GONE)).returning(*COLUMNS))
    for table, column, local, ondelete in pointing_at(TABLES[kind.name]):
        pointing = (table.c[local] == bindparam("tenant"), table.c[column].in_(_GONE))
        if ondelete is None:
            kept = dict.fromkeys(_kept_in(table, column), table.c[column])
            found.append(update(table).where(*pointing).values({column: None, **kept}))
        elif kind.zoned and (child := _KIND_OF.get(table.name)) is not None:
            found.append(_ownership(child, owner, select(table.c.id).where(*pointing)))
    if kind.zoned:
        for loose in _LOOSE:
            if kind.name in loose.values:
                found += _dropped(loose, kind, owner)
    return tuple(found)


def _kept_in(table: Table, column: str) -> list[str]:
    """The columns that keep the id of what a reference named: its `Ref.deleted`, or none."""
    references = [kind.stored()[column].ref for kind in ALL if kind.table == table.name]
    return [ref.deleted for ref in references if ref is not None and ref.deleted is not None]


def _dropped(loose: _Loose, kind: Kind, owner: str) -> list[Executable]:
    columns = loose.table.c
    pointing = [
        columns.zone_id == bindparam("tenant"),
        columns[loose.column].in_(_GONE),
        *loose.of(kind),
    ]
    child = _KIND_OF.get(loose.table.name)
    records = [_ownership(child, owner, select(columns.id).where(*pointing))] if child else []
    return [*records, delete(loose.table).where(*pointing)]


def _ownership(kind: Kind, owner: str, ids: Any) -> Executable:
    """The deletion of the ownership records of entities."""
    chosen = (ownerships.c.kind == kind.name, ownerships.c.entity_id.in_(ids))
    mine = (ownerships.c[owner] == bindparam("tenant"), *chosen)
    return delete(ownerships).where(*mine).returning(*COLUMNS)


def pointing_at(target: Table) -> list[tuple[Table, str, str, str | None]]:
    """The foreign keys over (tenant, id) to a table: their table, own column, tenant's column, ON DELETE."""
    return [
        (table, key.column_keys[-1], key.column_keys[0], key.ondelete)
        for table in METADATA.tables.values()
        for key in table.foreign_key_constraints
        if key.referred_table is target and len(key.column_keys) == 2
    ]


def loosely_pointing_at(kind: Kind) -> list[tuple[Table, str, tuple[ColumnElement[bool], ...]]]:
    """What goes with a zone's entity and has no foreign key to it: table, column, and what else is true."""
    return [(loose.table, loose.column, loose.of(kind)) for loose in _LOOSE if kind.name in loose.values]


_KIND_OF: dict[str, Kind] = {kind.table: kind for kind in ALL if kind.manifest}
