"""What the text of a policy may name though the zone has nothing of that name."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Policies that are there say nothing of that."""
    op.add_column("policies", sa.Column("absent_names", sa.JSON(), nullable=True))


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")
