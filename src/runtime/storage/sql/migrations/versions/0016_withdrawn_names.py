"""Names of applications and credentials that went, so that their tokens stay worth nothing."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")


def upgrade() -> None:
    """Make the table; what went before was ended by the absence of its name."""
    op.create_table(
        "withdrawn_names",
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("claim", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("forget_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("zone_id", "claim", "name", name="withdrawn_names_pkey"),
        sa.ForeignKeyConstraint(
            ["zone_id"], ["zones.id"], name="withdrawn_names_zone_id_fkey", ondelete="CASCADE"
        ),
    )
    op.create_index("withdrawn_names_forget_at_idx", "withdrawn_names", ["forget_at"])


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")
