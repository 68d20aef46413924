"""Secrets that belong to other entities."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")
JSON = sa.JSON()


def upgrade() -> None:
    """Make the table of secrets."""
    op.create_table(
        "secrets",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=True),
        sa.Column("entity_id", sa.String(), nullable=False),
        sa.Column("metadata", JSON, nullable=True),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("zone_id", "id", name="secrets_pkey"),
        sa.ForeignKeyConstraint(
            ["organization_id", "zone_id"],
            ["zones.organization_id", "zones.id"],
            name="secrets_zone_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index("secrets_created_at_idx", "secrets", ["zone_id", "created_at", "id"])
    op.create_index("secrets_entity_id_idx", "secrets", ["zone_id", "entity_id"])


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")
