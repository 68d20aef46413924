"""Who belongs to an organization, and in which zones."""

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the tables, parents first."""


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")
