"""Key rotation on a schedule, and the jobs that one worker does for all."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")


def upgrade() -> None:
    """Make the tables, parents first."""
    op.create_table(
        "jobs",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("next_at", INSTANT, nullable=False),
        sa.Column("holder", sa.String(), nullable=True),
        sa.Column("leased_until", INSTANT, nullable=True),
        sa.Column("failures", sa.BigInteger(), nullable=False),
        sa.Column("started_at", INSTANT, nullable=True),
        sa.Column("succeeded_at", INSTANT, nullable=True),
        sa.PrimaryKeyConstraint("name", name="jobs_pkey"),
    )


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")
