"""What sessions remember for signing out."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Let sessions say how the provider knows them."""
    with op.batch_alter_table("sessions") as table:
        table.add_column(sa.Column("provider_subject", sa.String(), nullable=True))
        table.add_column(sa.Column("provider_session", sa.String(), nullable=True))
        table.add_column(sa.Column("provider_id_token", sa.LargeBinary(), nullable=True))
    op.create_index("sessions_provider_subject_idx", "sessions", ["zone_id", "provider_subject"])
    op.create_index("sessions_provider_session_idx", "sessions", ["zone_id", "provider_session"])


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")
