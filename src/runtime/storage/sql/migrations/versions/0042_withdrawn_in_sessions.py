"""What a user has taken back from the tokens of a session, so that these stay worth nothing."""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")


def upgrade() -> None:
    """Make the table; what was taken back before is on the revocation list alone."""
    op.create_table(
        "withdrawn_in_sessions",
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("claim", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("forget_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("zone_id", "session_id", "claim", "name", name="withdrawn_in_sessions_pkey"),
        sa.ForeignKeyConstraint(
            ["zone_id"], ["zones.id"], name="withdrawn_in_sessions_zone_id_fkey", ondelete="CASCADE"
        ),
    )
    op.create_index("withdrawn_in_sessions_forget_at_idx", "withdrawn_in_sessions", ["forget_at"])


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")
