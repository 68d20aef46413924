"""Adds the table of epoch changes, which every process polls to invalidate its caches."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Make the table of notes; epochs that moved before are in the rows that processes read anyway."""
    op.create_table(
        "epoch_changes",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("noted_at", sa.BigInteger(), nullable=False),
        sa.Column("epochs", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="epoch_changes_pkey"),
    )
    op.create_index("epoch_changes_position_idx", "epoch_changes", ["position"])


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")
