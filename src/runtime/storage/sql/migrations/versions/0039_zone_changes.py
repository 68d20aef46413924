"""Adds the table of what changes of zones were about, by which processes keep the rest in their caches."""

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"


def upgrade() -> None:
    """Make the table; a change that is not in it, an older release's for example, is one of everything."""
    op.create_table(
        "zone_changes",
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("noted_at", sa.BigInteger(), nullable=False),
        sa.Column("tags", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("zone_id", "epoch", name="zone_changes_pkey"),
        sa.ForeignKeyConstraint(
            ["zone_id"], ["zones.id"], name="zone_changes_zone_id_fkey", ondelete="CASCADE"
        ),
    )
    op.create_index("zone_changes_noted_at_idx", "zone_changes", ["noted_at"])


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")
