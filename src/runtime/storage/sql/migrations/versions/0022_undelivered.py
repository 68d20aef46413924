"""Whether a secret that was shown once has arrived, for credentials that changesets make."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """Of what is there nobody knows it, and nobody asks."""
    absent = sa.false()
    op.add_column("ownerships", sa.Column("undelivered", sa.Boolean(), nullable=False, server_default=absent))


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")
