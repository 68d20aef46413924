"""An index of delegated grants that end by themselves: lists of those that have expired read it in order."""

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"


def upgrade() -> None:
    """Make it."""
    ending = sa.text("expires_at IS NOT NULL")
    op.create_index(
        "delegated_grants_ending_idx",
        "delegated_grants",
        ["zone_id", "created_at", "id"],
        postgresql_where=ending,
        sqlite_where=ending,
    )


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")
