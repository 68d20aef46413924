"""Whom a letter of the outbox is for, so that one who does not answer holds up nobody else."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Name the receiver; letters that wait already have none and are tried one by one."""
    with op.batch_alter_table("outbox") as table:
        table.add_column(sa.Column("receiver", sa.String(), nullable=True))
    tried = "parked_at IS NULL AND attempts > 0"
    op.create_index(
        "outbox_receiver_idx",
        "outbox",
        ["zone_id", "receiver"],
        postgresql_where=sa.text(tried),
        sqlite_where=sa.text(tried),
    )


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")
