"""The tables of the management kinds, made from `domain.kinds`: a column for each stored member.

Tenancy is in the keys: a zone's rows have the primary key (zone_id, id), and a reference to another entity is
a foreign key over both columns, so that the database itself refuses one that crosses zones.
"""

import re
import types
from datetime import datetime
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from sqlalchemy import BigInteger, Boolean, Column, Index, LargeBinary, PrimaryKeyConstraint, String, Table
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

from runtime.domain.kinds import ALL, BY_NAME, Kind
from runtime.domain.kinds.marks import Mark
from runtime.storage.sql.columns import METADATA, Json, Utc, belongs
from runtime.storage.sql.session_tables import delegated_grants, sessions

# References that no body carries and that therefore have no `Ref` mark: kind, member -> kind.
_UNMARKED = {("RoleAssignment", "role_id"): "Role"}
# Members that are unique in the whole service, because they arrive without a tenant.
EVERYWHERE = {("ServiceAccountCredential", "client_id"), ("Invitation", "token_hash")}
# Columns that are unique together, besides the handle: kind -> name of the index -> columns.
_TOGETHER: dict[str, dict[str, tuple[str, ...]]] = {
    "PolicyVersion": {"version": ("zone_id", "policy_id", "version")},
    "PolicySetVersion": {"version": ("zone_id", "policy_set_id", "version")},
    "ApiKey": {"id": ("id",)},  # it arrives without a tenant
    "OrganizationUser": {
        # The account comes first: it is asked for in every organization too.
        "account": ("account_issuer", "account_subject", "organization_id"),
        "zone_user_id": ("organization_id", "zone_user_id"),
    },
}
# Members that hand-written queries look up.
_LOOKED_UP = {
    "Invitation": (("address",),),
    "Resource": (("credential_lifetime_seconds",),),
    "RoleAssignment": (("principal_type", "principal_id"),),
    "Secret": (("entity_id",),),
    "User": (("email",), ("issuer", "subject")),
}
# Variants of a union whose handle means something only beside another member: kind -> (type, member).
_HANDLE_BESIDE = {"ApplicationCredential": ("token", "provider_id")}


def tenant(kind: Kind) -> str | None:
    """The member that says whose an entity is; None for the organization itself."""
    if kind.zoned:
        return "zone_id"
    return None if kind.name == "Organization" else "organization_id"


def parent_member(kind: Kind) -> str | None:
    """The member that holds the id of a parent that is neither the zone nor the organization."""
    if kind.parent is None or kind.parent.name in ("Organization", "Zone"):
        return None
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.parent.name).lower() + "_id"


def scope(kind: Kind) -> tuple[str, ...]:
    """The members that together name the parent: what a handle is unique within, and what lists select on."""
    return tuple(name for name in (tenant(kind), parent_member(kind)) if name)


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


def references(kind: Kind) -> dict[str, str]:
    """Member -> name of the kind whose id it holds, parents included."""
    found = {name: member.ref.kind for name, member in kind.stored().items() if member.ref}
    found |= {member: target for (owner, member), target in _UNMARKED.items() if owner == kind.name}
    if (member := parent_member(kind)) and kind.parent:
        found[member] = kind.parent.name
    return found


def _columns(kind: Kind) -> list[Column[Any]]:
    everywhere = set.intersection(*(set(entity.model_fields) for entity in kind.classes))
    return [
        Column(name, column_type(member.annotation), nullable=member.nullable or name not in everywhere)
        for name, member in kind.stored().items()
    ]


def _keys(kind: Kind) -> list[SchemaItem]:
    """The primary key, and the foreign keys to the tenant and to other entities."""
    table, owner = kind.table, tenant(kind)
    if owner is None:
        return [PrimaryKeyConstraint("id", name=f"{table}_pkey")]
    if kind.name == "Zone":
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
    for name, target in references(kind).items():
        mark = stored[name].ref
        late = mark is not None and mark.late
        own = "id" if kind.name == "Zone" else owner
        other = tenant(BY_NAME[target])
        ondelete = None if stored[name].nullable else "CASCADE"
        keys.append(
            belongs(
                table, f"{own} {name}", f"{BY_NAME[target].table} {other} id", ondelete=ondelete, late=late
            )
        )
    return keys


def _indexes(kind: Kind, table: Table) -> None:
    """Uniqueness, paging, and the way back along every reference."""
    stored, within = kind.stored(), scope(kind)
    options: dict[str, Any] = {}
    if "archived_at" in stored:
        options = dict.fromkeys(("postgresql_where", "sqlite_where"), table.c.archived_at.is_(None))
    unique = {name: (*within, name) for name, member in stored.items() if member.has(Mark.UNIQUE)}
    if kind.handle:
        unique[kind.handle] = (*within, *kind.unique_with, kind.handle)
    for name, columns in unique.items():
        columns = (name,) if (kind.name, name) in EVERYWHERE else columns
        if name == kind.handle and (beside := _HANDLE_BESIDE.get(kind.name)):
            _handle_beside(table, columns, *beside)
            continue
        Index(f"{table.name}_{name}_key", *(table.c[column] for column in columns), unique=True, **options)
    for name, together in _TOGETHER.get(kind.name, {}).items():
        Index(f"{table.name}_{name}_key", *(table.c[column] for column in together), unique=True)
    if kind.name == "Zone":
        Index(f"{table.name}_id_key", table.c.organization_id, table.c.id, unique=True)
    Index(f"{table.name}_created_at_idx", *(table.c[column] for column in (*within, "created_at", "id")))
    for name in references(kind):
        if kind.name != "Zone" and name not in within:
            Index(f"{table.name}_{name}_idx", table.c[within[0]], table.c[name])
    for names in _LOOKED_UP.get(kind.name, ()):
        Index(f"{table.name}_{names[-1]}_idx", *(table.c[column] for column in (*within[:1], *names)))


def _handle_beside(table: Table, columns: tuple[str, ...], type_: str, member: str) -> None:
    """Two uniquenesses of a handle: for one variant together with another member, for the rest by itself."""
    *within, handle = columns
    alike, other = table.c.type == type_, table.c.type != type_
    for name, where, chosen in (
        (handle, other, columns),
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
