"""Two password credentials of one client id: when each expires, and when a credential was last used."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")
TABLE = "application_credentials"
INDEX = "application_credentials_identifier_key"


def upgrade() -> None:
    """Every credential has the first slot of its client id, and none expires."""
    op.add_column(TABLE, sa.Column("last_used_at", INSTANT, nullable=True))
    op.add_column(TABLE, sa.Column("slot", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column(TABLE, sa.Column("expires_at", INSTANT, nullable=True))
    op.drop_index(INDEX, TABLE)
    is_no_workload = sa.text("type != 'token'")
    op.create_index(
        INDEX,
        TABLE,
        ["zone_id", "identifier", "slot"],
        unique=True,
        postgresql_where=is_no_workload,
        sqlite_where=is_no_workload,
    )


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")
