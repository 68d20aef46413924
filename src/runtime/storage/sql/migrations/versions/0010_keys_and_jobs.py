"""Key rotation on a schedule, and the jobs that one worker does for all."""

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Make the tables, parents first."""


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")
