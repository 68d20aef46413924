"""Adds indexes for deletions, so that deleting many entities takes linear time."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"

_INDEXES = {
    "consents_resource_id_idx": ("consents", ["zone_id", "resource_id"]),
    "ownerships_entity_id_idx": ("ownerships", ["zone_id", "kind", "entity_id"]),
    "resources_credential_lifetime_seconds_idx": ("resources", ["zone_id", "credential_lifetime_seconds"]),
}


def upgrade() -> None:
    """Nothing that is there changes."""
    for name, (table, columns) in _INDEXES.items():
        op.create_index(name, table, columns)
    protected = sa.column("protect", sa.Boolean()).is_(sa.true())
    op.create_index(
        "ownerships_protect_idx",
        "ownerships",
        ["organization_id"],
        postgresql_where=protected,
        sqlite_where=protected,
    )


def downgrade() -> None:
    """The tables are as they were."""
    for name, (table, _) in {**_INDEXES, "ownerships_protect_idx": ("ownerships", [])}.items():
        op.drop_index(name, table)
