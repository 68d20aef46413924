"""The jobs that one process does for all, and what was revoked before its time."""

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
    op.create_table(
        "revocations",
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("forget_at", INSTANT, nullable=False),
        sa.Column("claims", sa.JSON(), nullable=False),
        sa.Column("token_id", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("zone_id", "id", name="revocations_pkey"),
        sa.ForeignKeyConstraint(
            ["zone_id"], ["zones.id"], name="revocations_zone_id_fkey", ondelete="CASCADE"
        ),
    )
    op.create_index("revocations_at_idx", "revocations", ["zone_id", "at"])
    op.create_index("revocations_forget_at_idx", "revocations", ["forget_at"])
    op.create_index("revocations_token_id_key", "revocations", ["zone_id", "token_id"], unique=True)
    with op.batch_alter_table("zone_internals") as zone_internals:
        zone_internals.add_column(sa.Column("denials", sa.BigInteger(), nullable=False, server_default="0"))


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")
