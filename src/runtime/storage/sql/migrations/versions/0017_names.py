"""Names that are given once: what tokens call users and applications, issuers, labels of organizations.

What stands when they begin to be kept keeps its name. Of two that differ in case or form alone, the older has
the name, and the other has it as it is written. An application that is called exactly as a user is has none:
the name is the user's. `zoned doctor` tells of such. What is gone is taken from the audit trail.
"""

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

from runtime.domain.names import canonical_issuer, identity_of, key_as_written, key_of

revision = "0017"
down_revision = "0016"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")
_BATCH = 500

_subjects = sa.table(
    "subjects",
    *(sa.column(name) for name in ("zone_id", "key", "kind", "holder_id", "identity")),
    sa.column("is_held", sa.Boolean()),
)
_assigned = sa.table("assigned_names", *map(sa.column, ("kind", "name", "holder_id", "assigned_at")))
_users = sa.table(
    "users", *map(sa.column, ("zone_id", "id", "identifier", "issuer", "subject", "created_at"))
)
_applications = sa.table("applications", *map(sa.column, ("zone_id", "id", "identifier", "created_at")))
_zones = sa.table("zones", *map(sa.column, ("id", "created_at")), sa.column("protocols", sa.JSON()))
_organizations = sa.table("organizations", *map(sa.column, ("id", "label", "created_at")))
_audit = sa.table(
    "audit_events",
    *map(sa.column, ("zone_id", "kind", "action", "entity_id", "at")),
    sa.column("before", sa.JSON()),
    sa.column("after", sa.JSON()),
)

Row = dict[str, Any]


def upgrade() -> None:
    """Make the two tables, and give everything that stands its name."""
    op.create_table(
        "subjects",
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("holder_id", sa.String(), nullable=False),
        sa.Column("identity", sa.String(), nullable=True),
        sa.Column("is_held", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("zone_id", "key", name="subjects_pkey"),
        sa.ForeignKeyConstraint(["zone_id"], ["zones.id"], name="subjects_zone_id_fkey", ondelete="CASCADE"),
    )
    op.create_index("subjects_holder_id_idx", "subjects", ["zone_id", "holder_id"])
    op.create_table(
        "assigned_names",
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("holder_id", sa.String(), nullable=False),
        sa.Column("assigned_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("kind", "name", name="assigned_names_pkey"),
    )
    conn = op.get_bind()
    zone_ids = list(conn.scalars(sa.select(_zones.c.id)))
    for zone_id in zone_ids:
        _insert(conn, _subjects, _subjects_of(conn, zone_id))
    _insert(conn, _assigned, _names_in_service(conn))


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")


def _insert(conn: sa.Connection, table: sa.TableClause, rows: list[Row]) -> None:
    for start in range(0, len(rows), _BATCH):
        conn.execute(sa.insert(table), rows[start : start + _BATCH])


def _subjects_of(conn: sa.Connection, zone_id: str) -> list[Row]:
    """The names of one zone: of its users, of its applications, and of those who are gone."""
    taken: dict[str, Row] = {}
    of_users = set()
    for user in _oldest_first(conn, _users, zone_id):
        of_users.add(user.identifier)
        _take(taken, user.identifier, _row(zone_id, "User", user.id, user.issuer, user.subject, is_held=True))
    for application in _oldest_first(conn, _applications, zone_id):
        if application.identifier not in of_users:
            _take(taken, application.identifier, _row(zone_id, "Application", application.id, is_held=True))
    for kind, entity_id, before in _former(conn, zone_id):
        identity = (before.get("issuer"), before.get("subject"))
        row = _row(zone_id, kind, entity_id, *identity, is_held=False)
        taken.setdefault(key_of(before["identifier"]), row)
    return [row | {"key": key} for key, row in taken.items()]


def _take(taken: dict[str, Row], identifier: str, row: Row) -> None:
    if taken.setdefault(key_of(identifier), row) is not row:
        taken[key_as_written(identifier)] = row


def _row(
    zone_id: str, kind: str, holder_id: str, issuer: Any = None, subject: Any = None, *, is_held: bool
) -> Row:
    return {
        "zone_id": zone_id,
        "kind": kind,
        "holder_id": holder_id,
        "identity": identity_of(issuer, subject),
        "is_held": is_held,
    }


def _oldest_first(conn: sa.Connection, table: sa.TableClause, zone_id: str) -> Any:
    return conn.execute(
        sa.select(table).where(table.c.zone_id == zone_id).order_by(table.c.created_at, table.c.id)
    ).all()


def _former(conn: sa.Connection, zone_id: str) -> Iterator[tuple[str, str, Row]]:
    """What users and applications of a zone were called who are gone, or are called otherwise now."""
    found = conn.execute(
        sa.select(_audit.c.kind, _audit.c.entity_id, _audit.c.before, _audit.c.after)
        .where(
            _audit.c.zone_id == zone_id,
            _audit.c.action.in_(
                ("users.delete", "users.update", "applications.delete", "applications.update")
            ),
        )
        .order_by(_audit.c.at)
    )
    for kind, entity_id, before, after in found.all():
        name = (before or {}).get("identifier")
        if isinstance(name, str) and name != (after or {}).get("identifier"):
            yield kind, entity_id, before


def _names_in_service(conn: sa.Connection) -> list[Row]:
    """Issuers and labels, of what stands and of what is gone."""
    taken: dict[tuple[str, str], Row] = {}

    def take(kind: str, name: Any, holder_id: str, at: Any) -> None:
        if isinstance(name, str):
            row = {"kind": kind, "name": name, "holder_id": holder_id, "assigned_at": at}
            taken.setdefault((kind, name), row)

    def issuer_of(zone: Row) -> str | None:
        issuer = ((zone.get("protocols") or {}).get("oauth2") or {}).get("issuer")
        return canonical_issuer(issuer) if isinstance(issuer, str) else None

    for zone_id, at, protocols in conn.execute(
        sa.select(_zones.c.id, _zones.c.created_at, _zones.c.protocols)
    ).all():
        take("Zone", issuer_of({"protocols": protocols}), zone_id, at)
    for organization_id, label, at in conn.execute(sa.select(_organizations)).all():
        take("Organization", label, organization_id, at)
    gone = conn.execute(
        sa.select(_audit.c.action, _audit.c.entity_id, _audit.c.before, _audit.c.at)
        .where(_audit.c.action.in_(("zones.delete", "organizations.delete")))
        .order_by(_audit.c.at)
    )
    for action, entity_id, before, at in gone.all():
        told = before or {}
        if action == "zones.delete":
            take("Zone", issuer_of(told), entity_id, at)
        else:
            take("Organization", told.get("label"), entity_id, at)
    return list(taken.values())
