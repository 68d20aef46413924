"""Offline sessions remember the browser session in which they were begun: their clients hear of its end."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    """Sessions from before were begun in one that is not known: their clients hear of their own end alone."""
    op.add_column("sessions", sa.Column("browser_session_id", sa.String(), nullable=True))
    op.create_index("sessions_browser_session_id_idx", "sessions", ["zone_id", "browser_session_id"])


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")
