"""What records are forgotten by: their age; and refusals that were only counted."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Let a row stand for many requests, and find what is old without a look at what is not."""
    with op.batch_alter_table("token_events") as table:
        table.add_column(sa.Column("requests", sa.BigInteger(), nullable=True))
    op.create_index("token_events_age_idx", "token_events", ["at"])
    op.create_index("sessions_expires_at_idx", "sessions", ["expires_at"])


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")
