"""What sessions remember for telling their clients that they have ended."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Let sessions say which client they are of; those that stand were begun with a refresh token."""
    with op.batch_alter_table("sessions") as table:
        table.add_column(sa.Column("client_id", sa.String(), nullable=True))
    op.execute(
        "UPDATE sessions SET client_id = (SELECT max(refresh_families.client_id) FROM refresh_families"
        " WHERE refresh_families.zone_id = sessions.zone_id"
        " AND refresh_families.session_id = sessions.id)"
    )


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")
