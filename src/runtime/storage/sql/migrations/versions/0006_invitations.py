"""Invitations, what is waiting to be sent, and sign-in through an organization's provider."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")


def upgrade() -> None:
    """Make the tables, parents first."""
    _outbox()


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")


def _outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=True),
        sa.Column("zone_id", sa.String(), nullable=True),
        sa.Column("topic", sa.String(), nullable=False),
        sa.Column("payload_sealed", sa.LargeBinary(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("next_attempt_at", INSTANT, nullable=False),
        sa.Column("parked_at", INSTANT, nullable=True),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="outbox_pkey"),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.id"], name="outbox_organization_id_fkey", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "zone_id"],
            ["zones.organization_id", "zones.id"],
            name="outbox_zone_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index(
        "outbox_next_attempt_at_idx",
        "outbox",
        ["next_attempt_at"],
        postgresql_where=sa.text("parked_at IS NULL"),
        sqlite_where=sa.text("parked_at IS NULL"),
    )
