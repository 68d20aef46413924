"""How zones depart from the usual, and which key a refresh token is bound to."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Zones without switches have the defaults; what was issued before is bound to no key."""
    with op.batch_alter_table("zone_internals") as table:
        table.add_column(sa.Column("switches", sa.JSON(), nullable=True))
    with op.batch_alter_table("refresh_families") as table:
        table.add_column(sa.Column("jkt", sa.String(), nullable=True))


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")
