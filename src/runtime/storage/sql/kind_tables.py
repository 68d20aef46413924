"""The tables of the management kinds, made from `domain.kinds`: a column for each stored member.

Tenancy is in the keys: a zone's rows have the primary key (zone_id, id), and a reference to another entity is
a foreign key over both columns, so that the database itself refuses one that crosses zones.
"""

import types
from datetime import datetime
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from sqlalchemy import BigInteger, Boolean, Column, Index, LargeBinary, PrimaryKeyConstraint, String, Table
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

from runtime.domain.kinds import ALL, BY_NAME, ZONE, Kind
from runtime.domain.kinds.marks import Mark
from runtime.storage.sql.columns import METADATA, Json, Utc, belongs
from runtime.storage.sql.session_tables import delegated_grants, sessions


def plain_type(annotation: Any) -> type:
    """The Python type under `Annotated` and `| None`; `object` for what is kept as JSON."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        inner = [member for member in get_args(annotation) if member is not type(None)]
        return plain_type(inner[0]) if len(inner) == 1 else object
    if get_origin(annotation) is Literal:
        annotation = type(get_args(annotation)[0])
    return annotation if isinstance(annotation, type) else object


def column_type(annotation: Any) -> TypeEngine[Any]:
    """The column type that keeps values of a member."""
    python = plain_type(annotation)
    candidates: tuple[tuple[type, TypeEngine[Any]], ...] = (
        (str, String()),
        (bool, Boolean()),
        (int, BigInteger()),
        (datetime, Utc()),
        (bytes, LargeBinary()),
    )
    return next((made for base, made in candidates if issubclass(python, base)), Json)


def _columns(kind: Kind) -> list[Column[Any]]:
    everywhere = set.intersection(*(set(entity.model_fields) for entity in kind.classes))
    slot = kind.handle_shared.slot if kind.handle_shared else None
    return [
        Column(
            name,
            column_type(member.annotation),
            nullable=member.nullable or name not in everywhere,
            server_default="0" if name == slot else None,
        )
        for name, member in kind.stored().items()
    ]


def _keys(kind: Kind) -> list[SchemaItem]:
    """The primary key, and the foreign keys to the tenant and to other entities."""
    table, owner = kind.table, kind.tenant
    if owner is None:
        return [PrimaryKeyConstraint("id", name=f"{table}_pkey")]
    if kind is ZONE:
        keys: list[SchemaItem] = [
            PrimaryKeyConstraint("id", name=f"{table}_pkey"),
            belongs(table, "organization_id", "organizations id"),
        ]
    elif kind.zoned:
        keys = [
            PrimaryKeyConstraint("zone_id", "id", name=f"{table}_pkey"),
            belongs(table, "organization_id zone_id", "zones organization_id id"),
        ]
    else:
        keys = [
            PrimaryKeyConstraint("organization_id", "id", name=f"{table}_pkey"),
            belongs(table, "organization_id", "organizations id"),
        ]
    stored = kind.stored()
    for name, target in kind.references.items():
        mark = stored[name].ref
        if mark is not None and mark.lasting:
            continue
        late = mark is not None and mark.late
        own = "id" if kind is ZONE else owner
        other = BY_NAME[target].tenant
        ondelete = None if stored[name].nullable else "CASCADE"
        keys.append(
            belongs(
                table, f"{own} {name}", f"{BY_NAME[target].table} {other} id", ondelete=ondelete, late=late
            )
        )
    return keys


def _indexes(kind: Kind, table: Table) -> None:
    """Uniqueness, paging, and the way back along every reference."""
    stored, within = kind.stored(), kind.scope
    options: dict[str, Any] = {}
    if "archived_at" in stored:
        options = dict.fromkeys(("postgresql_where", "sqlite_where"), table.c.archived_at.is_(None))
    unique = {name: (*within, name) for name, member in stored.items() if member.has(Mark.UNIQUE)}
    if kind.handle:
        unique[kind.handle] = (*within, *kind.unique_with, kind.handle)
    for name, columns in unique.items():
        columns = (name,) if stored[name].has(Mark.GLOBAL) else columns
        if name == kind.handle and kind.handle_beside:
            _handle_beside(kind, table, columns, *kind.handle_beside)
            continue
        Index(f"{table.name}_{name}_key", *(table.c[column] for column in columns), unique=True, **options)
    for name, together in kind.unique_together.items():
        Index(f"{table.name}_{name}_key", *(table.c[column] for column in together), unique=True)
    if kind is ZONE:
        Index(f"{table.name}_id_key", table.c.organization_id, table.c.id, unique=True)
    Index(f"{table.name}_created_at_idx", *(table.c[column] for column in (*within, "created_at", "id")))
    for name in kind.references:
        if kind is not ZONE and name not in within:
            Index(f"{table.name}_{name}_idx", table.c[within[0]], table.c[name])
    for names in kind.indexes:
        Index(f"{table.name}_{names[-1]}_idx", *(table.c[column] for column in (*within[:1], *names)))


def _handle_beside(kind: Kind, table: Table, columns: tuple[str, ...], type_: str, member: str) -> None:
    """Two uniquenesses of a handle: for one variant together with another member, for the rest by itself.

    Where several entities may share a handle, the slot makes it unique.
    """
    *within, handle = columns
    alike, other = table.c.type == type_, table.c.type != type_
    slot = () if kind.handle_shared is None else (kind.handle_shared.slot,)
    for name, where, chosen in (
        (handle, other, (*columns, *slot)),
        (f"{type_}_{handle}", alike, (*within, member, handle)),
    ):
        Index(
            f"{table.name}_{name}_key",
            *(table.c[column] for column in chosen),
            unique=True,
            postgresql_where=where,
            sqlite_where=where,
        )


def _table(kind: Kind) -> Table:
    table = Table(kind.table, METADATA, *_columns(kind), *_keys(kind))
    _indexes(kind, table)
    return table


# What sign-in writes and management only shows and ends: the tables are written by hand, without a revision.
_BY_HAND = {"Session": sessions, "DelegatedGrant": delegated_grants}

TABLES: dict[str, Table] = {
    kind.name: _BY_HAND[kind.name] if kind.name in _BY_HAND else _table(kind) for kind in ALL
}
