"""How zones take assertions, and requests that were pushed."""

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Make the tables, parents first."""


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")
